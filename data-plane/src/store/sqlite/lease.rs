//! Shard leases, and which instances of a shard are in its owner's memory.

use std::collections::HashSet;

use orch8_model::{InstanceId, LeaseEpoch, NodeName, Shard};
use sqlx::sqlite::SqliteRow;

use super::{
    batch::Batch,
    fields::Fields,
    session::{Args, Reader, Session},
    writer::Write,
};
use crate::store::{Lease, Raised, StoreError, counts::Counts};

/// The stored epoch only rises.
pub(super) const RAISE: &str = "UPDATE shard_leases SET node = ?, lease_epoch = ?
     WHERE shard = ? AND lease_epoch < ?
     RETURNING commit_seq";
pub(super) const LEASE: &str = "SELECT shard, node, lease_epoch FROM shard_leases WHERE shard = ?";
pub(super) const COMMIT_SEQS: &str = "SELECT shard, lease_epoch, commit_seq FROM shard_leases ORDER BY shard";
pub(super) const HOT: &str =
    "SELECT id FROM instances WHERE shard = ? AND hot = 1 AND id > ? ORDER BY id LIMIT ?";
pub(super) static ASSERT: Batch = Batch::new(include_str!("sql/lease_assert.sql"));
pub(super) static SET_HOT: Batch = Batch::new(include_str!("sql/hot_set.sql"));

pub(super) struct Raise {
    pub shard: Shard,
    pub node: NodeName,
    pub epoch: LeaseEpoch,
}

impl Write for Raise {
    type Answer = Raised;
    const DOING: &'static str = "raise of a lease";

    fn rows(&self) -> usize {
        1
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<Raised, StoreError> {
        let epoch = self.epoch.get() as i64;
        let args = Args::new().text(self.node.as_str()).int(epoch).int(self.shard.0).int(epoch);
        if let Some(row) = session.row(RAISE, args).await? {
            let commit_seq = Fields::of("shard_leases", &row).narrow(0, "commit_seq")?;
            let lease = Lease { shard: self.shard, epoch: self.epoch };
            return Ok(Raised::Won { lease, commit_seq });
        }
        let row = session.row(LEASE, Args::new().int(self.shard.0)).await?;
        let (held, by) = holder(self.shard, row.as_ref())?;
        Ok(Raised::Stale { held, by })
    }
}

pub(super) async fn lease(reader: &Reader, shard: Shard) -> Result<LeaseEpoch, StoreError> {
    let row = reader.row("read of a lease", LEASE, Args::new().int(shard.0)).await?;
    Ok(holder(shard, row.as_ref())?.0)
}

pub(super) async fn commit_seqs(
    reader: &Reader,
    shards: &[Shard],
) -> Result<Vec<(Shard, LeaseEpoch, u64)>, StoreError> {
    let mut found = Vec::new();
    for row in &reader.rows("read of commit numbers", COMMIT_SEQS, Args::new()).await? {
        let f = Fields::of("shard_leases", row);
        let shard = Shard(f.narrow(0, "shard")?);
        if shards.contains(&shard) {
            let epoch = f.noun("lease_epoch", LeaseEpoch::new(f.narrow(1, "lease_epoch")?))?;
            found.push((shard, epoch, f.narrow(2, "commit_seq")?));
        }
    }
    Ok(found)
}

/// The row of a shard. A shard that the store does not have is an error: shards are made with the file.
fn holder(shard: Shard, row: Option<&SqliteRow>) -> Result<(LeaseEpoch, NodeName), StoreError> {
    let Some(row) = row else {
        return Err(StoreError::Corrupt { table: "shard_leases", column: "shard", key: shard.to_string() });
    };
    let f = Fields::of("shard_leases", row);
    let epoch = f.noun("lease_epoch", LeaseEpoch::new(f.narrow(2, "lease_epoch")?))?;
    Ok((epoch, f.name(1, "node", NodeName::parse)?))
}

/// Asserts leases inside a write transaction. Answers the shards whose lease is held.
pub(super) async fn assert(
    leases: &[Lease],
    session: &mut Session<'_>,
) -> Result<HashSet<Shard>, StoreError> {
    let rows = session
        .batch_rows(&ASSERT, leases, |args, _, lease| args.int(lease.shard.0).int(lease.epoch.get() as i64))
        .await?;
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
    reader: &Reader,
    shard: Shard,
    after: Option<InstanceId>,
    limit: u32,
) -> Result<Vec<InstanceId>, StoreError> {
    let after = after.map(|id| id.as_bytes().to_vec()).unwrap_or_default();
    let args = Args::new().int(shard.0).blob(&after).int(limit);
    let rows = reader.rows("read of hot instances", HOT, args).await?;
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

    fn rows(&self) -> usize {
        self.instances.len()
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<(), StoreError> {
        if holds(self.lease, session).await? {
            session
                .batch(&SET_HOT, &self.instances, |args, _, id| {
                    args.blob(id.as_bytes()).int(self.lease.shard.0).int(self.hot)
                })
                .await?;
        }
        Ok(())
    }
}
