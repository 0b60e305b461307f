//! The store in one SQLite file: WAL, `synchronous=FULL`, one process per file, one writer with `BEGIN IMMEDIATE`, two
//! small pools of readers.
//!
//! One operation or a small group per file, its SQL beside it. What is written goes through [`writer`], which takes
//! everything that waits into one transaction; what is read sees whatever was committed when it began. The rows of a
//! lease show themselves only to its holder, those of a tenant only to a handle with the stored placement epoch.

mod batch;
mod checkpoint;
mod claim;
mod commit;
mod fence;
mod fields;
mod judge;
mod lease;
mod list;
mod load;
mod mail;
mod migrate;
mod open;
#[cfg(test)]
mod plans;
mod sequence;
mod session;
mod start;
mod timer;
mod writer;

use std::{path::Path, sync::Arc};

use orch8_model::{
    InstanceId, LeaseEpoch, Millis, Namespace, NodeName, SequenceId, SequenceName, Shard, TenantId,
};

use self::{
    claim::Claim,
    lease::{Raise, SetHot},
    mail::Send,
    sequence::Publish,
    session::{Counts, Readers},
    start::Starts,
    timer::Forget,
    writer::Writer,
};
use super::{
    Commit, Fence, InstanceFilter, InstanceRow, JournalRow, Lease, Loaded, Mail, Message, NewSequence,
    PageAfter, Raised, Ready, Sent, SequencePublished, SequenceRow, Start, Started, StoreError, TenantHandle,
    TimerRow, TurnAnswer,
};

/// A SQLite store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    counts: Arc<Counts>,
}

impl SqliteStore {
    /// Shards of a SQLite store, fixed when the file is made.
    pub const SHARDS: u16 = 4;

    /// Opens or makes the file and brings it to the newest schema. Errors: in use, newer schema, not writable.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        open::open(path).await
    }

    /// Shards of this store.
    pub fn shards(&self) -> u16 {
        Self::SHARDS
    }

    pub fn kind(&self) -> orch8_proto::v1::StoreKind {
        orch8_proto::v1::StoreKind::Sqlite
    }
    pub async fn commit_seqs(&self) -> Result<Vec<(Shard, LeaseEpoch, u64)>, StoreError> {
        Ok(Vec::new())
    }

    /// Commits that this store takes at a time.
    pub fn committers(&self) -> usize {
        1
    }

    /// Closes all connections and checkpoints the WAL.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Takes a shard: the epoch must be higher than the stored one. One auto-committed statement, before the first read.
    pub async fn raise(
        &self,
        shard: Shard,
        node: &NodeName,
        epoch: LeaseEpoch,
    ) -> Result<Raised, StoreError> {
        self.writer.write(Raise { shard, node: node.clone(), epoch }).await
    }

    /// The stored epoch of a shard.
    pub async fn lease(&self, shard: Shard) -> Result<LeaseEpoch, StoreError> {
        lease::lease(&self.readers.owners, shard).await
    }

    /// One transaction for many turns; answers in the order of `commit.turns`.
    pub async fn commit(&self, commit: Commit) -> Result<Vec<TurnAnswer>, StoreError> {
        self.writer.write(commit).await
    }

    /// Instances that were in an owner's memory: every open instance that has had a turn and is not parked on a far
    /// timer. By id.
    pub async fn hot(
        &self,
        shard: Shard,
        after: Option<InstanceId>,
        limit: u32,
    ) -> Result<Vec<InstanceId>, StoreError> {
        lease::hot(&self.readers.owners, shard, after, limit).await
    }

    /// Marks instances as evicted (`hot` falls) or reloaded (`hot` rises), under the lease.
    pub async fn set_hot(&self, lease: Lease, instances: &[InstanceId], hot: bool) -> Result<(), StoreError> {
        self.writer.write(SetHot { lease, instances: instances.to_vec(), hot }).await
    }

    /// Row, newest snapshot and tail. Instances that do not exist are left out.
    pub async fn load(&self, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
        load::load(&self.readers.owners, ids).await
    }

    /// Due ready rows of tenants that may be written here, at most `per_tenant` of each, `limit` in all, tenants in the
    /// order given (empty = all tenants with rows, by id). Rows stay until the turn that answers them deletes them.
    pub async fn claim(
        &self,
        lease: Lease,
        now: Millis,
        limit: u32,
        per_tenant: u32,
        skip: &[InstanceId],
        tenants: &[TenantId],
    ) -> Result<Vec<Ready>, StoreError> {
        claim::claim(&self.readers.owners, Claim { lease, now, limit, per_tenant, skip, tenants }).await
    }

    /// Tenants with ready rows due in this shard.
    pub async fn ready_tenants(&self, lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError> {
        claim::tenants(&self.readers.owners, lease, now).await
    }

    /// The earliest ready row that is not due yet and was not due at birth, so that the owner can sleep until then.
    pub async fn next_ready(&self, lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError> {
        claim::next(&self.readers.owners, lease, now).await
    }

    /// Far timers due until `until`, earliest first. Read-only; a timer row leaves with [`Self::forget_timers`].
    pub async fn due_timers(
        &self,
        lease: Lease,
        until: Millis,
        limit: u32,
    ) -> Result<Vec<TimerRow>, StoreError> {
        timer::due(&self.readers.owners, lease, until, limit).await
    }

    /// Deletes timer rows that were put into the wheel of a hot instance.
    pub async fn forget_timers(&self, lease: Lease, timers: &[TimerRow]) -> Result<(), StoreError> {
        self.writer.write(Forget { lease, timers: timers.to_vec() }).await
    }

    /// Mail of a shard in commit order, all instances.
    pub async fn mail(&self, lease: Lease, after: i64, limit: u32) -> Result<Vec<Mail>, StoreError> {
        mail::of_shard(&self.readers.owners, lease, after, limit).await
    }

    /// Mail of one instance in commit order, at most 256 rows: the rest comes once these are absorbed.
    pub async fn mail_of(&self, instance: InstanceId) -> Result<Vec<Mail>, StoreError> {
        mail::of_instance(&self.readers.owners, instance).await
    }

    /// Starts, all or nothing: instance row, ready row, once row. With a mismatch among the answers nothing was stored,
    /// not even what is called new. `None`: the tenant's fence is not ours.
    pub async fn start(
        &self,
        tenant: &TenantHandle,
        starts: Vec<Start>,
    ) -> Result<Option<Vec<Started>>, StoreError> {
        self.writer.write(Starts { tenant: tenant.clone(), starts }).await
    }

    /// Puts a message into an instance's inbox, in one transaction with its `once` row; refuses closed instances.
    /// `None`: the tenant's fence is not ours.
    pub async fn send(&self, tenant: &TenantHandle, message: Message) -> Result<Option<Sent>, StoreError> {
        self.writer.write(Send { tenant: tenant.clone(), message }).await
    }

    /// One instance. Foreign and missing are one.
    pub async fn instance(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<InstanceRow>, StoreError> {
        load::instance(&self.readers.clients, tenant, id).await
    }

    /// As [`Self::load`], one instance, within a tenant.
    pub async fn load_one(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<Loaded>, StoreError> {
        load::load_one(&self.readers.clients, tenant, id).await
    }

    /// Turns after `after` (None = from the first), rising.
    pub async fn turns(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError> {
        load::turns(&self.readers.clients, tenant, id, after, limit).await
    }

    /// Newest first by (created_at, id).
    pub async fn list_instances(
        &self,
        tenant: &TenantHandle,
        filter: &InstanceFilter,
        after: Option<PageAfter>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>, StoreError> {
        list::list(&self.readers.clients, tenant, filter, after, limit).await
    }

    /// Stores a document under its version, or the next one. `None`: the tenant's fence is not ours.
    pub async fn publish(
        &self,
        tenant: &TenantHandle,
        new: NewSequence,
    ) -> Result<Option<SequencePublished>, StoreError> {
        self.writer.write(Publish { tenant: tenant.clone(), new }).await
    }

    /// One version by its id. Foreign and missing are one.
    pub async fn sequence(
        &self,
        tenant: &TenantHandle,
        id: SequenceId,
    ) -> Result<Option<SequenceRow>, StoreError> {
        sequence::by_id(&self.readers.clients, tenant, id).await
    }

    /// A named version, or the newest that is not deprecated.
    pub async fn sequence_named(
        &self,
        tenant: &TenantHandle,
        namespace: &Namespace,
        name: &SequenceName,
        version: Option<i32>,
    ) -> Result<Option<SequenceRow>, StoreError> {
        sequence::named(&self.readers.clients, tenant, namespace, name, version).await
    }

    /// By (namespace, name, version descending), without documents and without deprecated ones.
    pub async fn list_sequences(
        &self,
        tenant: &TenantHandle,
        namespace: Option<&Namespace>,
        after: Option<(Namespace, SequenceName, i32)>,
        limit: u32,
    ) -> Result<Vec<SequenceRow>, StoreError> {
        sequence::list(&self.readers.clients, tenant, namespace, after, limit).await
    }

    /// Opens, drains or seals a tenant here. The placement epoch only rises; the same epoch may change the mode.
    /// `false`: a higher epoch is stored.
    pub async fn set_fence(&self, fence: Fence) -> Result<bool, StoreError> {
        self.writer.write(fence).await
    }

    /// All fences, by tenant.
    pub async fn fences(&self, after: Option<TenantId>, limit: u32) -> Result<Vec<Fence>, StoreError> {
        fence::list(&self.readers.clients, after, limit).await
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        self.counts.read()
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

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            transactions: a.transactions.saturating_add(b.transactions),
            statements: a.statements.saturating_add(b.statements),
            turns: a.turns.saturating_add(b.turns),
            fenced: a.fenced.saturating_add(b.fenced),
        })
    }
}
