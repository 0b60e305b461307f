//! Shard leases, and which instances of a shard are in its owner's memory.

use std::collections::HashSet;

use orch8_model::{InstanceId, LeaseEpoch, NodeName, Shard};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{
    fields::{Fields, bucket},
    raise::raise_row,
    session::{Args, Pool, Session},
    transaction::{Trouble, Write},
};
use crate::store::{Lease, Raised, StoreError, counts::Counts};

/// The stored epoch only rises.
pub(super) const RAISE: &str = "UPDATE shard_leases SET node = $1, lease_epoch = $2
     WHERE shard = $3 AND lease_epoch < $2
     RETURNING commit_seq";
pub(super) const LEASE: &str = "SELECT shard, node, lease_epoch FROM shard_leases WHERE shard = $1";
pub(super) const COMMIT_SEQS: &str =
    "SELECT shard, lease_epoch, commit_seq FROM shard_leases WHERE shard = ANY($1::bigint[]) ORDER BY shard";
pub(super) const HOT: &str = "SELECT id FROM instances
     WHERE shard = $1 AND hot AND id > $2 AND bucket >= $3 ORDER BY id LIMIT $4";
pub(super) const ASSERT: &str = include_str!("sql/lease_assert.sql");
pub(super) const SET_HOT: &str = include_str!("sql/hot_set.sql");

pub(super) async fn raise(
    pool: &Pool,
    shard: Shard,
    node: &NodeName,
    epoch: LeaseEpoch,
) -> Result<Raised, StoreError> {
    const DOING: &str = "raise of a lease";
    let args = || Args::new().with(node.as_str()).with(epoch.get() as i64).with(i64::from(shard.0));
    if let Some(row) = raise_row(pool, DOING, RAISE, args).await?.first() {
        let commit_seq = Fields::of("shard_leases", row).narrow(0, "commit_seq")?;
        return Ok(Raised::Won { lease: Lease { shard, epoch }, commit_seq });
    }
    let row = pool.row(DOING, LEASE, || Args::new().with(i64::from(shard.0))).await?;
    let (held, by) = holder(shard, row.as_ref())?;
    Ok(Raised::Stale { held, by })
}

pub(super) async fn lease(pool: &Pool, shard: Shard) -> Result<LeaseEpoch, StoreError> {
    let row = pool.row("read of a lease", LEASE, || Args::new().with(i64::from(shard.0))).await?;
    Ok(holder(shard, row.as_ref())?.0)
}

/// The row of a shard. A shard that the store does not have is an error: shards are made with the schema.
fn holder(shard: Shard, row: Option<&PgRow>) -> Result<(LeaseEpoch, NodeName), StoreError> {
    let Some(row) = row else {
        return Err(StoreError::Corrupt { table: "shard_leases", column: "shard", key: shard.to_string() });
    };
    let f = Fields::of("shard_leases", row);
    let epoch = f.noun("lease_epoch", LeaseEpoch::new(f.narrow(2, "lease_epoch")?))?;
    Ok((epoch, f.name(1, "node", NodeName::parse)?))
}

pub(super) async fn commit_seqs(
    pool: &Pool,
    shards: &[Shard],
) -> Result<Vec<(Shard, LeaseEpoch, u64)>, StoreError> {
    let shards: Vec<i64> = shards.iter().map(|shard| i64::from(shard.0)).collect();
    let rows = pool.rows("read of commit numbers", COMMIT_SEQS, || Args::new().with(&shards)).await?;
    rows.iter()
        .map(|row| {
            let f = Fields::of("shard_leases", row);
            let epoch = f.noun("lease_epoch", LeaseEpoch::new(f.narrow(1, "lease_epoch")?))?;
            Ok((Shard(f.narrow(0, "shard")?), epoch, f.narrow(2, "commit_seq")?))
        })
        .collect()
}

/// Locks leases until the transaction ends, in the order of shards: the first statement of every write of an owner.
/// Answers the shards whose lease is held.
pub(super) async fn assert(
    leases: &[Lease],
    session: &mut Session<'_>,
) -> Result<HashSet<Shard>, StoreError> {
    if leases.is_empty() {
        return Ok(HashSet::new());
    }
    let args = Args::new()
        .with(leases.iter().map(|lease| i64::from(lease.shard.0)).collect::<Vec<_>>())
        .with(leases.iter().map(|lease| lease.epoch.get() as i64).collect::<Vec<_>>());
    let rows = session.rows(ASSERT, args).await?;
    rows.iter().map(|row| Ok(Shard(Fields::of("shard_leases", row).narrow(0, "shard")?))).collect()
}

/// Asserts one lease; a refusal is counted.
pub(super) async fn holds(lease: Lease, session: &mut Session<'_>) -> Result<bool, StoreError> {
    let held = !assert(&[lease], session).await?.is_empty();
    if !held {
        Counts::add(&session.counts.fenced, 1);
    }
    Ok(held)
}

pub(super) async fn hot(
    pool: &Pool,
    shard: Shard,
    after: Option<InstanceId>,
    limit: u32,
) -> Result<Vec<InstanceId>, StoreError> {
    let after = after.map_or(Uuid::nil(), |id| id.0);
    // Ids rise with their days, so pages of days that are read are not looked at again.
    let args = || Args::new().with(i64::from(shard.0)).with(after).with(bucket(after)).with(i64::from(limit));
    let rows = pool.rows("read of hot instances", HOT, args).await?;
    rows.iter().map(|row| Fields::of("instances", row).instance(0, "id")).collect()
}

pub(super) struct SetHot {
    pub lease: Lease,
    pub instances: Vec<InstanceId>,
    pub hot: bool,
}

impl Write for SetHot {
    type Answer = ();
    const DOING: &'static str = "marking of hot instances";

    async fn run(&self, session: &mut Session<'_>) -> Result<(), Trouble> {
        if holds(self.lease, session).await? {
            let args = id_args(&self.instances).with(i64::from(self.lease.shard.0)).with(self.hot);
            session.execute(SET_HOT, args).await?;
        }
        Ok(())
    }
}

/// The first two arguments of what is about many instances: their days and ids, in one order for everybody.
pub(super) fn id_args(ids: &[InstanceId]) -> Args {
    let mut ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    Args::new().with(ids.iter().map(|id| bucket(*id)).collect::<Vec<_>>()).with(ids)
}
