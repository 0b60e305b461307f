//! Timers that are too far away for the wheel in memory.

use orch8_model::Millis;

use super::{
    batch::Batch,
    claim::lease_args,
    fields::Fields,
    lease,
    session::{Reader, Session},
    writer::Write,
};
use crate::store::{Lease, StoreError, TimerRow};

pub(super) const DUE: &str = "SELECT t.instance_id, t.node, t.due_at FROM timers t
     WHERE t.shard = ?1 AND t.due_at <= ?3
       AND EXISTS (SELECT 1 FROM shard_leases l WHERE l.shard = ?1 AND l.lease_epoch = ?2)
     ORDER BY t.due_at, t.instance_id, t.node LIMIT ?4";
pub(super) static FORGET: Batch = Batch::new(
    "WITH v (shard, due_at, instance_id, node) AS (VALUES (?, ?, ?, ?))
     DELETE FROM timers WHERE (shard, due_at, instance_id, node) IN (
       SELECT shard, due_at, instance_id, node FROM v WHERE shard IS NOT NULL
     )",
);

pub(super) async fn due(
    reader: &Reader,
    lease: Lease,
    until: Millis,
    limit: u32,
) -> Result<Vec<TimerRow>, StoreError> {
    let rows = reader.rows("read of timers", DUE, lease_args(lease).int(until.0).int(limit)).await?;
    rows.iter()
        .map(|row| {
            let f = Fields::of("timers", row);
            Ok(TimerRow {
                instance: f.instance(0, "instance_id")?,
                node: f.int(1, "node")? as u64,
                due_at: f.millis(2, "due_at")?,
            })
        })
        .collect()
}

pub(super) struct Forget {
    pub lease: Lease,
    pub timers: Vec<TimerRow>,
}

impl Write for Forget {
    type Answer = ();
    const DOING: &'static str = "deletion of timers";

    fn rows(&self) -> usize {
        self.timers.len()
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<(), StoreError> {
        if lease::holds(self.lease, session).await? {
            session
                .batch(&FORGET, &self.timers, |args, _, timer| {
                    args.int(self.lease.shard.0)
                        .int(timer.due_at.0)
                        .blob(timer.instance.as_bytes())
                        .int(timer.node as i64)
                })
                .await?;
        }
        Ok(())
    }
}
