//! Timers that are too far away for the wheel in memory.

use orch8_model::Millis;

use super::{
    claim::lease_args,
    fields::Fields,
    lease,
    session::{Args, Pool, Session},
    transaction::{Trouble, Write},
};
use crate::store::{Lease, StoreError, TimerRow};

/// One that was set twice, once as a far one and once for its day, is one.
pub(super) const DUE: &str = "SELECT DISTINCT t.due_at, t.instance_id, t.node FROM timers t
     WHERE t.shard = $1 AND t.due_at <= $3
       AND (SELECT l.shard FROM shard_leases l WHERE l.shard = $1 AND l.lease_epoch = $2) IS NOT NULL
     ORDER BY t.due_at, t.instance_id, t.node LIMIT $4";
pub(super) const FORGET: &str = "DELETE FROM timers t
     USING unnest($2::bigint[], $3::uuid[], $4::bigint[]) AS v (due_at, instance_id, node)
     WHERE t.shard = $1 AND t.due_at = v.due_at AND t.instance_id = v.instance_id AND t.node = v.node";

pub(super) async fn due(
    pool: &Pool,
    lease: Lease,
    until: Millis,
    limit: u32,
) -> Result<Vec<TimerRow>, StoreError> {
    let args = || lease_args(lease).with(until.0).with(i64::from(limit));
    let rows = pool.rows("read of timers", DUE, args).await?;
    rows.iter()
        .map(|row| {
            let f = Fields::of("timers", row);
            Ok(TimerRow {
                instance: f.instance(1, "instance_id")?,
                node: f.int(2, "node")? as u64,
                due_at: f.millis(0, "due_at")?,
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

    async fn run(&self, session: &mut Session<'_>) -> Result<(), Trouble> {
        if lease::holds(self.lease, session).await? {
            let args = Args::new()
                .with(i64::from(self.lease.shard.0))
                .with(self.timers.iter().map(|timer| timer.due_at.0).collect::<Vec<_>>())
                .with(self.timers.iter().map(|timer| timer.instance.0).collect::<Vec<_>>())
                .with(self.timers.iter().map(|timer| timer.node as i64).collect::<Vec<_>>());
            session.execute(FORGET, args).await?;
        }
        Ok(())
    }
}
