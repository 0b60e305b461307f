//! Starts, all or nothing. A key starts once per tenant, for as long as the instance's row exists.

use orch8_engine::Status;
use orch8_seal::{Digest, shard_of};

use super::{
    PostgresStore,
    desk::Small,
    fence::{self, Busy},
    fields::{Fields, bucket},
    session::{Args, Session},
    transaction::Trouble,
};
use crate::store::{
    Start, Started, StoreError, TenantHandle,
    codes::status_code,
    counts::Counts,
    judge::starts::{Known, Open, keys, new},
};

pub(super) const KNOWN: &str = include_str!("sql/start_known.sql");
pub(super) const ONCE: &str = include_str!("sql/start_once.sql");
pub(super) const INSTANCE: &str = include_str!("sql/start_instance.sql");
pub(super) const LISTED: &str = include_str!("sql/start_listed.sql");
pub(super) const BIRTH: &str = include_str!("sql/start_birth.sql");
pub(super) const READY: &str = include_str!("sql/start_ready.sql");

#[derive(Debug)]
pub(super) struct Starts {
    pub tenant: TenantHandle,
    pub starts: Vec<Start>,
}

impl Small for Starts {
    type Answer = Option<Vec<Started>>;
    const DOING: &'static str = "start of instances";

    fn rows(&self) -> usize {
        self.starts.len().saturating_mul(4).max(1)
    }

    fn goes_with(&self, _: &Self) -> bool {
        true
    }

    async fn run_all(all: &[Self], session: &mut Session<'_>) -> Result<Vec<Self::Answer>, Trouble> {
        let tenants = fence::assert(all.iter().map(|starts| &starts.tenant), Busy::Wait, session).await?;
        let numbers: Vec<Option<i64>> =
            all.iter().map(|starts| tenants.get(&starts.tenant).copied()).collect();
        Counts::add(&session.counts.fenced, numbers.iter().filter(|no| no.is_none()).count());
        let open: Vec<Open<'_>> = all
            .iter()
            .zip(&numbers)
            .filter_map(|(starts, no)| Some(Open { tenant_no: (*no)?, starts: &starts.starts }))
            .collect();
        let mut known = known(&open, session).await?;
        let judged = open.iter().map(|open| open.judge(&mut known)).collect::<Vec<_>>();
        store(&new(&open, &judged), session).await?;
        let mut answers = judged.into_iter();
        Ok(numbers.iter().map(|no| no.and_then(|_| answers.next())).collect())
    }
}

/// Keys that were used before.
async fn known<'a>(open: &[Open<'a>], session: &mut Session<'_>) -> Result<Known<'a>, StoreError> {
    let keys = keys(open);
    let mut known = Known::new();
    if keys.is_empty() {
        return Ok(known);
    }
    let args = Args::new()
        .with((0..keys.len() as i64).collect::<Vec<_>>())
        .with(keys.iter().map(|(tenant_no, _)| *tenant_no).collect::<Vec<_>>())
        .with(keys.iter().map(|(_, key)| key.as_str().as_bytes()).collect::<Vec<_>>());
    for row in &session.rows(KNOWN, args).await? {
        let f = Fields::of("once", row);
        let key = f.noun("key", keys.get(f.narrow::<usize>(0, "n")?).copied())?;
        let body = f.noun("body_sha256", Digest::from_slice(f.bytes(1, "body_sha256")?))?;
        known.insert(key, (body, f.instance(2, "instance_id")?));
    }
    Ok(known)
}

/// Keys first, in one order for everybody: where somebody else was faster with one, nothing else was written yet.
async fn store(new: &[(i64, &Start)], session: &mut Session<'_>) -> Result<(), Trouble> {
    if new.is_empty() {
        return Ok(());
    }
    let keyed: Vec<(i64, &Start, &[u8], &[u8])> = new
        .iter()
        .filter_map(|(tenant_no, start)| {
            let (key, body) = start.once.as_ref()?;
            Some((*tenant_no, *start, key.as_str().as_bytes(), body.0.as_slice()))
        })
        .collect();
    if !keyed.is_empty() {
        let args = Args::new()
            .with(keyed.iter().map(|(tenant_no, ..)| *tenant_no).collect::<Vec<_>>())
            .with(keyed.iter().map(|(_, _, key, _)| *key).collect::<Vec<_>>())
            .with(keyed.iter().map(|(_, _, _, body)| *body).collect::<Vec<_>>())
            .with(keyed.iter().map(|(_, start, ..)| start.birth.instance.0).collect::<Vec<_>>());
        if session.execute(ONCE, args).await? < keyed.len() as u64 {
            return Err(Trouble::Again);
        }
    }
    for (sql, args) in [
        (INSTANCE, instance_args(new)),
        (LISTED, listed_args(new)),
        (BIRTH, birth_args(new)),
        (READY, ready_args(new)),
    ] {
        session.execute(sql, args).await?;
    }
    Ok(())
}

fn instance_args(new: &[(i64, &Start)]) -> Args {
    let births = || new.iter().map(|(_, start)| &start.birth);
    Args::new()
        .with(births().map(|birth| bucket(birth.instance.0)).collect::<Vec<_>>())
        .with(births().map(|birth| birth.instance.0).collect::<Vec<_>>())
        .with(new.iter().map(|(tenant_no, _)| *tenant_no).collect::<Vec<_>>())
        .with(shards(new))
        .with(births().map(|birth| i64::from(birth.priority)).collect::<Vec<_>>())
        .with(births().map(|birth| birth.sequence.0).collect::<Vec<_>>())
        .with(births().map(|birth| birth.namespace.as_str()).collect::<Vec<_>>())
        .with(births().map(|birth| birth.created_at.0).collect::<Vec<_>>())
        .with(births().map(|birth| birth.fire_at.0).collect::<Vec<_>>())
        .with(status_code(Status::Scheduled))
}

fn listed_args(new: &[(i64, &Start)]) -> Args {
    let births = || new.iter().map(|(_, start)| &start.birth);
    Args::new()
        .with(births().map(|birth| bucket(birth.instance.0)).collect::<Vec<_>>())
        .with(births().map(|birth| birth.instance.0).collect::<Vec<_>>())
        .with(new.iter().map(|(tenant_no, _)| *tenant_no).collect::<Vec<_>>())
        .with(births().map(|birth| birth.created_at.0).collect::<Vec<_>>())
}

fn birth_args(new: &[(i64, &Start)]) -> Args {
    let births = || new.iter().map(|(_, start)| &start.birth);
    Args::new()
        .with(births().map(|birth| bucket(birth.instance.0)).collect::<Vec<_>>())
        .with(births().map(|birth| birth.instance.0).collect::<Vec<_>>())
        .with(births().map(|birth| birth.continuity.0).collect::<Vec<_>>())
        .with(births().map(|birth| birth.timezone.as_str()).collect::<Vec<_>>())
        .with(births().map(|birth| birth.data.as_str()).collect::<Vec<_>>())
        .with(births().map(|birth| birth.config.as_str()).collect::<Vec<_>>())
        .with(births().map(|birth| birth.metadata.as_str()).collect::<Vec<_>>())
}

fn ready_args(new: &[(i64, &Start)]) -> Args {
    let births = || new.iter().map(|(_, start)| &start.birth);
    Args::new()
        .with(shards(new))
        .with(new.iter().map(|(tenant_no, _)| *tenant_no).collect::<Vec<_>>())
        .with(births().map(|birth| i64::from(birth.priority)).collect::<Vec<_>>())
        .with(births().map(|birth| birth.fire_at.0).collect::<Vec<_>>())
        .with(births().map(|birth| birth.instance.0).collect::<Vec<_>>())
        .with(births().map(|birth| birth.fire_at > birth.created_at).collect::<Vec<_>>())
}

fn shards(new: &[(i64, &Start)]) -> Vec<i64> {
    new.iter().map(|(_, start)| i64::from(shard_of(start.birth.instance, PostgresStore::SHARDS).0)).collect()
}
