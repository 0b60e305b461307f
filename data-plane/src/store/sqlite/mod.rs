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
    session::Readers,
    start::Starts,
    timer::Forget,
    writer::Writer,
};
use super::{
    Commit, Fence, InstanceFilter, InstanceRow, JournalRow, Lease, Loaded, Mail, Message, NewSequence,
    PageAfter, Raised, Ready, Sent, SequencePublished, SequenceRow, Start, Started, StoreError, TenantHandle,
    TimerRow, TurnAnswer, counts::Counts,
};

pub use super::Counters;

/// A SQLite store. Cheap to clone. What its operations mean is written at [`super::Store`].
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

    pub fn shards(&self) -> u16 {
        Self::SHARDS
    }

    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub async fn raise(
        &self,
        shard: Shard,
        node: &NodeName,
        epoch: LeaseEpoch,
    ) -> Result<Raised, StoreError> {
        self.writer.write(Raise { shard, node: node.clone(), epoch }).await
    }

    pub async fn lease(&self, shard: Shard) -> Result<LeaseEpoch, StoreError> {
        lease::lease(&self.readers.owners, shard).await
    }

    pub async fn commit_seqs(&self, shards: &[Shard]) -> Result<Vec<(Shard, LeaseEpoch, u64)>, StoreError> {
        lease::commit_seqs(&self.readers.owners, shards).await
    }

    pub async fn commit(&self, commit: Commit) -> Result<Vec<TurnAnswer>, StoreError> {
        self.writer.write(commit).await
    }

    pub async fn hot(
        &self,
        shard: Shard,
        after: Option<InstanceId>,
        limit: u32,
    ) -> Result<Vec<InstanceId>, StoreError> {
        lease::hot(&self.readers.owners, shard, after, limit).await
    }

    pub async fn set_hot(&self, lease: Lease, instances: &[InstanceId], hot: bool) -> Result<(), StoreError> {
        self.writer.write(SetHot { lease, instances: instances.to_vec(), hot }).await
    }

    pub async fn load(&self, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
        load::load(&self.readers.owners, ids).await
    }

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

    pub async fn ready_tenants(&self, lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError> {
        claim::tenants(&self.readers.owners, lease, now).await
    }

    pub async fn next_ready(&self, lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError> {
        claim::next(&self.readers.owners, lease, now).await
    }

    pub async fn due_timers(
        &self,
        lease: Lease,
        until: Millis,
        limit: u32,
    ) -> Result<Vec<TimerRow>, StoreError> {
        timer::due(&self.readers.owners, lease, until, limit).await
    }

    pub async fn forget_timers(&self, lease: Lease, timers: &[TimerRow]) -> Result<(), StoreError> {
        self.writer.write(Forget { lease, timers: timers.to_vec() }).await
    }

    pub async fn mail(&self, lease: Lease, after: i64, limit: u32) -> Result<Vec<Mail>, StoreError> {
        mail::of_shard(&self.readers.owners, lease, after, limit).await
    }

    pub async fn mail_of(&self, instance: InstanceId) -> Result<Vec<Mail>, StoreError> {
        mail::of_instance(&self.readers.owners, instance).await
    }

    pub async fn start(
        &self,
        tenant: &TenantHandle,
        starts: Vec<Start>,
    ) -> Result<Option<Vec<Started>>, StoreError> {
        self.writer.write(Starts { tenant: tenant.clone(), starts }).await
    }

    pub async fn send(&self, tenant: &TenantHandle, message: Message) -> Result<Option<Sent>, StoreError> {
        self.writer.write(Send { tenant: tenant.clone(), message }).await
    }

    pub async fn instance(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<InstanceRow>, StoreError> {
        load::instance(&self.readers.clients, tenant, id).await
    }

    pub async fn load_one(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<Loaded>, StoreError> {
        load::load_one(&self.readers.clients, tenant, id).await
    }

    pub async fn turns(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError> {
        load::turns(&self.readers.clients, tenant, id, after, limit).await
    }

    pub async fn list_instances(
        &self,
        tenant: &TenantHandle,
        filter: &InstanceFilter,
        after: Option<PageAfter>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>, StoreError> {
        list::list(&self.readers.clients, tenant, filter, after, limit).await
    }

    pub async fn publish(
        &self,
        tenant: &TenantHandle,
        new: NewSequence,
    ) -> Result<Option<SequencePublished>, StoreError> {
        self.writer.write(Publish { tenant: tenant.clone(), new }).await
    }

    pub async fn sequence(
        &self,
        tenant: &TenantHandle,
        id: SequenceId,
    ) -> Result<Option<SequenceRow>, StoreError> {
        sequence::by_id(&self.readers.clients, tenant, id).await
    }

    pub async fn sequence_named(
        &self,
        tenant: &TenantHandle,
        namespace: &Namespace,
        name: &SequenceName,
        version: Option<i32>,
    ) -> Result<Option<SequenceRow>, StoreError> {
        sequence::named(&self.readers.clients, tenant, namespace, name, version).await
    }

    pub async fn list_sequences(
        &self,
        tenant: &TenantHandle,
        namespace: Option<&Namespace>,
        after: Option<(Namespace, SequenceName, i32)>,
        limit: u32,
    ) -> Result<Vec<SequenceRow>, StoreError> {
        sequence::list(&self.readers.clients, tenant, namespace, after, limit).await
    }

    pub async fn set_fence(&self, fence: Fence) -> Result<bool, StoreError> {
        self.writer.write(fence).await
    }

    pub async fn fence(&self, tenant: &TenantId) -> Result<Option<Fence>, StoreError> {
        fence::stored(&self.readers.clients, tenant).await
    }

    pub async fn fences(&self, after: Option<TenantId>, limit: u32) -> Result<Vec<Fence>, StoreError> {
        fence::list(&self.readers.clients, after, limit).await
    }

    /// Nothing yet: the file is checkpointed as it is written.
    pub async fn maintain(&self, _now: Millis) -> Result<(), StoreError> {
        Ok(())
    }

    pub fn counters(&self) -> Counters {
        self.counts.read()
    }
}
