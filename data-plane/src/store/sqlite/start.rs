//! Starts, all or nothing. A key starts once per tenant, for as long as the instance's row exists.

use std::collections::HashMap;

use orch8_model::{IdempotencyKey, InstanceId};
use orch8_seal::{Digest, shard_of};

use super::{
    SqliteStore,
    batch::Batch,
    fence,
    fields::{Fields, status_code},
    session::Session,
    writer::Write,
};
use crate::store::{Start, Started, StoreError, TenantHandle};
use orch8_engine::Status;

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
        let Some(tenant_no) = fence::assert(&self.tenant, session).await? else { return Ok(None) };
        let known = known(tenant_no, &self.starts, session).await?;
        let answers = judge(&self.starts, known);
        if !answers.iter().any(|answer| matches!(answer, Started::Mismatch(_))) {
            let new: Vec<&Start> = self
                .starts
                .iter()
                .zip(&answers)
                .filter(|(_, answer)| matches!(answer, Started::New(_)))
                .map(|(start, _)| start)
                .collect();
            store(tenant_no, &new, session).await?;
        }
        Ok(Some(answers))
    }
}

/// Who holds a key, and for which body.
type Known<'a> = HashMap<&'a IdempotencyKey, (Digest, InstanceId)>;

/// Keys that were used before.
async fn known<'a>(
    tenant_no: i64,
    starts: &'a [Start],
    session: &mut Session<'_>,
) -> Result<Known<'a>, StoreError> {
    let keys: Vec<&IdempotencyKey> =
        starts.iter().filter_map(|start| start.once.as_ref()).map(|(key, _)| key).collect();
    let rows = session
        .batch_rows(&KNOWN, &keys, |args, n, key| {
            args.int(n as i64).int(tenant_no).blob(key.as_str().as_bytes())
        })
        .await?;
    let mut known = HashMap::new();
    for row in &rows {
        let f = Fields::of("once", row);
        let key = f.noun("key", keys.get(f.narrow::<usize>(0, "n")?).copied())?;
        let body = f.bytes(1, "body_sha256", Digest::from_slice)?;
        known.insert(key, (body, f.instance(2, "instance_id")?));
    }
    Ok(known)
}

/// Judges in order: the second use of a key in one batch meets the first.
fn judge<'a>(starts: &'a [Start], mut known: Known<'a>) -> Vec<Started> {
    starts
        .iter()
        .map(|start| {
            let instance = start.birth.instance;
            let Some((key, body)) = &start.once else { return Started::New(instance) };
            match known.get(key) {
                None => {
                    known.insert(key, (*body, instance));
                    Started::New(instance)
                }
                Some((same, holder)) if same == body => Started::Deduplicated(*holder),
                Some((_, holder)) => Started::Mismatch(*holder),
            }
        })
        .collect()
}

async fn store(tenant_no: i64, new: &[&Start], session: &mut Session<'_>) -> Result<(), StoreError> {
    session
        .batch(&INSTANCE, new, |args, _, Start { birth, .. }| {
            args.blob(birth.instance.as_bytes())
                .int(tenant_no)
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
        .batch(&BIRTH, new, |args, _, Start { birth, .. }| {
            args.blob(birth.instance.as_bytes())
                .blob(birth.continuity.as_bytes())
                .text(&birth.timezone)
                .text(&birth.data)
                .text(&birth.config)
                .text(&birth.metadata)
        })
        .await?;
    session
        .batch(&READY, new, |args, _, Start { birth, .. }| {
            args.int(shard_of(birth.instance, SqliteStore::SHARDS).0)
                .int(tenant_no)
                .int(birth.priority)
                .int(birth.fire_at.0)
                .blob(birth.instance.as_bytes())
        })
        .await?;
    let keyed: Vec<(&InstanceId, &(IdempotencyKey, Digest))> =
        new.iter().filter_map(|start| Some((&start.birth.instance, start.once.as_ref()?))).collect();
    session
        .batch(&ONCE, &keyed, |args, _, (id, (key, body))| {
            args.int(tenant_no).blob(key.as_str().as_bytes()).blob(&body.0).blob(id.as_bytes())
        })
        .await?;
    Ok(())
}
