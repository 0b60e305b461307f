//! Starts, all or nothing. A key starts once per tenant, for as long as the instance's row exists.

use orch8_engine::Status;
use orch8_model::{IdempotencyKey, InstanceId};
use orch8_seal::{Digest, shard_of};

use super::{SqliteStore, batch::Batch, fence, fields::Fields, session::Session, writer::Write};
use crate::store::{
    Start, Started, StoreError, TenantHandle,
    codes::status_code,
    judge::starts::{Known, Open, keys, new},
};

pub(super) static KNOWN: Batch = Batch::new(include_str!("sql/start_known.sql"));
pub(super) static INSTANCE: Batch = Batch::new(include_str!("sql/start_instance.sql"));
pub(super) static BIRTH: Batch = Batch::new(include_str!("sql/start_birth.sql"));
pub(super) static READY: Batch = Batch::new(include_str!("sql/start_ready.sql"));
pub(super) static ONCE: Batch = Batch::new(include_str!("sql/start_once.sql"));

pub(super) struct Starts {
    pub tenant: TenantHandle,
    pub starts: Vec<Start>,
}

impl Write for Starts {
    type Answer = Option<Vec<Started>>;
    const DOING: &'static str = "start of instances";

    fn rows(&self) -> usize {
        self.starts.len().saturating_mul(4)
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<Vec<Started>>, StoreError> {
        Ok(Self::run_all(&[self], session).await?.pop().flatten())
    }

    async fn run_all(all: &[&Self], session: &mut Session<'_>) -> Result<Vec<Self::Answer>, StoreError> {
        let tenants: Vec<&TenantHandle> = all.iter().map(|starts| &starts.tenant).collect();
        let numbers = fence::assert_all(&tenants, session).await?;
        let open: Vec<Open<'_>> =
            all.iter().zip(&numbers).filter_map(|(starts, no)| starts.open(*no)).collect();
        let mut known = known(&open, session).await?;
        let mut judged = open.iter().map(|open| open.judge(&mut known)).collect::<Vec<_>>();
        store(&new(&open, &judged), session).await?;
        let mut answers = judged.drain(..);
        Ok(numbers.iter().map(|no| no.and_then(|_| answers.next())).collect())
    }
}

impl Starts {
    fn open(&self, tenant_no: Option<i64>) -> Option<Open<'_>> {
        Some(Open { tenant_no: tenant_no?, starts: &self.starts })
    }
}

/// Keys that were used before.
async fn known<'a>(open: &[Open<'a>], session: &mut Session<'_>) -> Result<Known<'a>, StoreError> {
    let keys = keys(open);
    let rows = session
        .batch_rows(&KNOWN, &keys, |args, n, (tenant_no, key)| {
            args.int(n as i64).int(*tenant_no).blob(key.as_str().as_bytes())
        })
        .await?;
    let mut known = Known::new();
    for row in &rows {
        let f = Fields::of("once", row);
        let key = f.noun("key", keys.get(f.narrow::<usize>(0, "n")?).copied())?;
        let body = f.bytes(1, "body_sha256", Digest::from_slice)?;
        known.insert(key, (body, f.instance(2, "instance_id")?));
    }
    Ok(known)
}

async fn store(new: &[(i64, &Start)], session: &mut Session<'_>) -> Result<(), StoreError> {
    session
        .batch(&INSTANCE, new, |args, _, (tenant_no, Start { birth, .. })| {
            args.blob(birth.instance.as_bytes())
                .int(*tenant_no)
                .int(shard_of(birth.instance, SqliteStore::SHARDS).0)
                .int(status_code(Status::Scheduled))
                .int(birth.priority)
                .blob(birth.sequence.as_bytes())
                .text(birth.namespace.as_str())
                .int(birth.created_at.0)
                .int(birth.fire_at.0)
        })
        .await?;
    session
        .batch(&BIRTH, new, |args, _, (_, Start { birth, .. })| {
            args.blob(birth.instance.as_bytes())
                .blob(birth.continuity.as_bytes())
                .text(&birth.timezone)
                .text(&birth.data)
                .text(&birth.config)
                .text(&birth.metadata)
        })
        .await?;
    session
        .batch(&READY, new, |args, _, (tenant_no, Start { birth, .. })| {
            args.int(shard_of(birth.instance, SqliteStore::SHARDS).0)
                .int(*tenant_no)
                .int(birth.priority)
                .int(birth.fire_at.0)
                .blob(birth.instance.as_bytes())
                .int(birth.fire_at > birth.created_at)
        })
        .await?;
    let keyed: Vec<(i64, InstanceId, &(IdempotencyKey, Digest))> = new
        .iter()
        .filter_map(|(tenant_no, start)| Some((*tenant_no, start.birth.instance, start.once.as_ref()?)))
        .collect();
    session
        .batch(&ONCE, &keyed, |args, _, (tenant_no, id, (key, body))| {
            args.int(*tenant_no).blob(key.as_str().as_bytes()).blob(&body.0).blob(id.as_bytes())
        })
        .await?;
    Ok(())
}
