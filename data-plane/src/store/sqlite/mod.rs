//! The store in one SQLite file: WAL, `synchronous=FULL`, one process per file, one writer with `BEGIN IMMEDIATE`, a
//! pool of readers.

use std::path::Path;

use orch8_model::{
    InstanceId, LeaseEpoch, Millis, Namespace, NodeName, SequenceId, SequenceName, Shard, TenantId,
};

use super::*;

/// A SQLite store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqliteStore {}

#[allow(unused_variables, missing_docs, clippy::unimplemented)]
impl SqliteStore {
    /// Shards of a SQLite store, fixed when the file is made.
    pub const SHARDS: u16 = 4;

    /// Opens or makes the file and brings it to the newest schema. Errors: in use, newer schema, not writable.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        unimplemented!()
    }

    /// Shards of this store.
    pub fn shards(&self) -> u16 {
        Self::SHARDS
    }

    /// Closes all connections and checkpoints the WAL.
    pub async fn close(&self) {
        unimplemented!()
    }

    /// Takes a shard: the epoch must be higher than the stored one. One auto-committed statement, before the first read.
    pub async fn raise(
        &self,
        shard: Shard,
        node: &NodeName,
        epoch: LeaseEpoch,
    ) -> Result<Raised, StoreError> {
        unimplemented!()
    }

    /// The stored epoch of a shard.
    pub async fn lease(&self, shard: Shard) -> Result<LeaseEpoch, StoreError> {
        unimplemented!()
    }

    /// One transaction for many turns; answers in the order of `commit.turns`.
    pub async fn commit(&self, commit: Commit) -> Result<Vec<TurnAnswer>, StoreError> {
        unimplemented!()
    }

    /// Instances that were in an owner's memory: every open instance that has had a turn and is not parked on a far
    /// timer. By id.
    pub async fn hot(
        &self,
        shard: Shard,
        after: Option<InstanceId>,
        limit: u32,
    ) -> Result<Vec<InstanceId>, StoreError> {
        unimplemented!()
    }

    /// Marks instances as evicted (`hot` falls) or reloaded (`hot` rises), under the lease.
    pub async fn set_hot(&self, lease: Lease, instances: &[InstanceId], hot: bool) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// Row, newest snapshot and tail. Instances that do not exist are left out.
    pub async fn load(&self, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
        unimplemented!()
    }

    /// Due ready rows, at most `per_tenant` of each tenant, `limit` in all, tenants in the order given (empty = all
    /// tenants with rows, by id). Rows stay until the turn that answers them deletes them.
    pub async fn claim(
        &self,
        lease: Lease,
        now: Millis,
        limit: u32,
        per_tenant: u32,
        skip: &[InstanceId],
        tenants: &[TenantId],
    ) -> Result<Vec<Ready>, StoreError> {
        unimplemented!()
    }

    /// Tenants with ready rows due in this shard.
    pub async fn ready_tenants(&self, lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError> {
        unimplemented!()
    }

    /// The earliest ready row that is not due yet, so that the owner can sleep until then.
    pub async fn next_ready(&self, lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError> {
        unimplemented!()
    }

    /// Far timers due until `until`, earliest first. Read-only; a timer row leaves with [`Self::forget_timers`].
    pub async fn due_timers(
        &self,
        lease: Lease,
        until: Millis,
        limit: u32,
    ) -> Result<Vec<TimerRow>, StoreError> {
        unimplemented!()
    }

    /// Deletes timer rows that were put into the wheel of a hot instance.
    pub async fn forget_timers(&self, lease: Lease, timers: &[TimerRow]) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// Mail of a shard in commit order, all instances.
    pub async fn mail(&self, lease: Lease, after: i64, limit: u32) -> Result<Vec<Mail>, StoreError> {
        unimplemented!()
    }

    /// Mail of one instance in commit order.
    pub async fn mail_of(&self, instance: InstanceId) -> Result<Vec<Mail>, StoreError> {
        unimplemented!()
    }

    /// Starts, all or nothing: instance row, ready row, once row. `None`: the tenant's fence is not ours.
    pub async fn start(
        &self,
        tenant: &TenantHandle,
        starts: Vec<Start>,
    ) -> Result<Option<Vec<Started>>, StoreError> {
        unimplemented!()
    }

    /// Puts a message into an instance's inbox, in one transaction with its `once` row; refuses closed instances.
    /// `None`: the tenant's fence is not ours.
    pub async fn send(&self, tenant: &TenantHandle, message: Message) -> Result<Option<Sent>, StoreError> {
        unimplemented!()
    }

    pub async fn instance(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<InstanceRow>, StoreError> {
        unimplemented!()
    }

    /// As [`Self::load`], one instance, within a tenant.
    pub async fn load_one(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<Loaded>, StoreError> {
        unimplemented!()
    }

    /// Turns after `after` (None = from the first), rising.
    pub async fn turns(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError> {
        unimplemented!()
    }

    /// Newest first by (created_at, id).
    pub async fn list_instances(
        &self,
        tenant: &TenantHandle,
        filter: &InstanceFilter,
        after: Option<PageAfter>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>, StoreError> {
        unimplemented!()
    }

    /// `None`: the tenant's fence is not ours.
    pub async fn publish(
        &self,
        tenant: &TenantHandle,
        new: NewSequence,
    ) -> Result<Option<SequencePublished>, StoreError> {
        unimplemented!()
    }

    pub async fn sequence(
        &self,
        tenant: &TenantHandle,
        id: SequenceId,
    ) -> Result<Option<SequenceRow>, StoreError> {
        unimplemented!()
    }

    /// A named version, or the newest that is not deprecated.
    pub async fn sequence_named(
        &self,
        tenant: &TenantHandle,
        namespace: &Namespace,
        name: &SequenceName,
        version: Option<i32>,
    ) -> Result<Option<SequenceRow>, StoreError> {
        unimplemented!()
    }

    /// By (namespace, name, version descending), without documents and without deprecated ones.
    pub async fn list_sequences(
        &self,
        tenant: &TenantHandle,
        namespace: Option<&Namespace>,
        after: Option<(Namespace, SequenceName, i32)>,
        limit: u32,
    ) -> Result<Vec<SequenceRow>, StoreError> {
        unimplemented!()
    }

    /// Opens, drains or seals a tenant here. The placement epoch only rises; the same epoch may change the mode.
    /// `false`: a higher epoch is stored.
    pub async fn set_fence(&self, fence: Fence) -> Result<bool, StoreError> {
        unimplemented!()
    }

    /// All fences, by tenant.
    pub async fn fences(&self, after: Option<TenantId>, limit: u32) -> Result<Vec<Fence>, StoreError> {
        unimplemented!()
    }

    /// Waits until every write so far is on disk and tells how many statements and transactions there were.
    pub fn counters(&self) -> Counters {
        unimplemented!()
    }
}

/// What the store has done since it was opened; for `orch8 bench` and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub transactions: u64,
    pub statements: u64,
    pub turns: u64,
    /// Writes refused by a fence.
    pub fenced: u64,
}
