//! The store in one Postgres database, shared by many nodes.
//!
//! One operation or a small group per file, its SQL beside it. Every write transaction locks first, leases and then
//! fences, and looks afterwards, in statements of their own: see [`transaction`]. The rows of a lease show themselves
//! only to its holder, those of a tenant only to a handle with the stored placement epoch.

mod claim;
mod commit;
mod desk;
mod fence;
mod fields;
mod lease;
mod list;
mod load;
mod mail;
mod maintain;
mod migrate;
mod open;
mod partition;
#[cfg(test)]
mod plans;
mod raise;
mod rings;
mod sequence;
mod session;
mod start;
mod timer;
mod transaction;

use std::sync::Arc;

use orch8_model::{
    InstanceId, LeaseEpoch, Millis, Namespace, NodeName, SequenceId, SequenceName, Shard, TenantId,
};

use self::{
    claim::Claim,
    desk::Desk,
    lease::SetHot,
    mail::Send,
    sequence::Publish,
    session::{Pools, unknown},
    start::Starts,
    timer::Forget,
};
use super::{
    Commit, Counters, Fence, InstanceFilter, InstanceRow, JournalRow, Lease, Loaded, Mail, Message,
    NewSequence, PageAfter, Raised, Ready, Sent, SequencePublished, SequenceRow, Start, Started, StoreError,
    TenantHandle, TimerRow, TurnAnswer, counts::Counts,
};

/// A Postgres store. Cheap to clone. What its operations mean is written at [`super::Store`].
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pools: Pools,
    starts: Desk<Starts>,
    sends: Desk<Send>,
    counts: Arc<Counts>,
    id: Arc<str>,
}

impl PostgresStore {
    /// Shards of a Postgres store, fixed when its schema is made.
    pub const SHARDS: u16 = 64;
    /// Groups of turns that are on their way to the disk at once; more would make each of them smaller.
    pub(super) const COMMITTERS: usize = 4;
    /// Groups of starts, and of messages, that are on their way to the disk at once.
    const CLERKS: usize = 4;

    /// Opens the database and brings it to the newest schema; an empty one becomes a store. Errors: not reachable, not
    /// fit (a standby, not UTF-8, tables of others), newer schema.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        open::open(url).await
    }

    fn new(pools: Pools, counts: Arc<Counts>, id: String) -> Self {
        let starts = Desk::open(&pools.clients, Self::CLERKS);
        let sends = Desk::open(&pools.clients, Self::CLERKS);
        Self { pools, starts, sends, counts, id: id.into() }
    }

    /// The store's identity, given to it when it was made.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn shards(&self) -> u16 {
        Self::SHARDS
    }

    pub async fn close(&self) {
        self.pools.close().await;
    }

    pub async fn raise(
        &self,
        shard: Shard,
        node: &NodeName,
        epoch: LeaseEpoch,
    ) -> Result<Raised, StoreError> {
        let (pool, node) = (self.pools.owners.clone(), node.clone());
        let raise = tokio::spawn(async move { lease::raise(&pool, shard, &node, epoch).await });
        raise.await.unwrap_or_else(|_| Err(unknown("raise of a lease", sqlx::Error::WorkerCrashed)))
    }

    pub async fn lease(&self, shard: Shard) -> Result<LeaseEpoch, StoreError> {
        lease::lease(&self.pools.owners, shard).await
    }

    pub async fn commit_seqs(&self, shards: &[Shard]) -> Result<Vec<(Shard, LeaseEpoch, u64)>, StoreError> {
        lease::commit_seqs(&self.pools.owners, shards).await
    }

    pub async fn commit(&self, commit: Commit) -> Result<Vec<TurnAnswer>, StoreError> {
        self.pools.owners.spawn(commit).await
    }

    pub async fn hot(
        &self,
        shard: Shard,
        after: Option<InstanceId>,
        limit: u32,
    ) -> Result<Vec<InstanceId>, StoreError> {
        lease::hot(&self.pools.owners, shard, after, limit).await
    }

    pub async fn set_hot(&self, lease: Lease, instances: &[InstanceId], hot: bool) -> Result<(), StoreError> {
        self.pools.owners.spawn(SetHot { lease, instances: instances.to_vec(), hot }).await
    }

    pub async fn load(&self, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
        load::load(&self.pools.owners, ids).await
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
        claim::claim(&self.pools.owners, Claim { lease, now, limit, per_tenant, skip, tenants }).await
    }

    pub async fn ready_tenants(&self, lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError> {
        claim::tenants(&self.pools.owners, lease, now).await
    }

    pub async fn next_ready(&self, lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError> {
        claim::next(&self.pools.owners, lease, now).await
    }

    pub async fn due_timers(
        &self,
        lease: Lease,
        until: Millis,
        limit: u32,
    ) -> Result<Vec<TimerRow>, StoreError> {
        timer::due(&self.pools.owners, lease, until, limit).await
    }

    pub async fn forget_timers(&self, lease: Lease, timers: &[TimerRow]) -> Result<(), StoreError> {
        self.pools.owners.spawn(Forget { lease, timers: timers.to_vec() }).await
    }

    pub async fn mail(&self, lease: Lease, after: i64, limit: u32) -> Result<Vec<Mail>, StoreError> {
        mail::of_shard(&self.pools.owners, lease, after, limit).await
    }

    pub async fn mail_of(&self, instance: InstanceId) -> Result<Vec<Mail>, StoreError> {
        mail::of_instance(&self.pools.owners, instance).await
    }

    pub async fn start(
        &self,
        tenant: &TenantHandle,
        starts: Vec<Start>,
    ) -> Result<Option<Vec<Started>>, StoreError> {
        self.starts.write(Starts { tenant: tenant.clone(), starts }).await
    }

    pub async fn send(&self, tenant: &TenantHandle, message: Message) -> Result<Option<Sent>, StoreError> {
        self.sends.write(Send { tenant: tenant.clone(), message }).await
    }

    pub async fn instance(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<InstanceRow>, StoreError> {
        load::instance(&self.pools.clients, tenant, id).await
    }

    pub async fn load_one(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
    ) -> Result<Option<Loaded>, StoreError> {
        load::load_one(&self.pools.clients, tenant, id).await
    }

    pub async fn turns(
        &self,
        tenant: &TenantHandle,
        id: InstanceId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError> {
        load::turns(&self.pools.clients, tenant, id, after, limit).await
    }

    pub async fn list_instances(
        &self,
        tenant: &TenantHandle,
        filter: &InstanceFilter,
        after: Option<PageAfter>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>, StoreError> {
        list::list(&self.pools.clients, tenant, filter, after, limit).await
    }

    pub async fn publish(
        &self,
        tenant: &TenantHandle,
        new: NewSequence,
    ) -> Result<Option<SequencePublished>, StoreError> {
        self.pools.clients.spawn(Publish { tenant: tenant.clone(), new }).await
    }

    pub async fn sequence(
        &self,
        tenant: &TenantHandle,
        id: SequenceId,
    ) -> Result<Option<SequenceRow>, StoreError> {
        sequence::by_id(&self.pools.clients, tenant, id).await
    }

    pub async fn sequence_named(
        &self,
        tenant: &TenantHandle,
        namespace: &Namespace,
        name: &SequenceName,
        version: Option<i32>,
    ) -> Result<Option<SequenceRow>, StoreError> {
        sequence::named(&self.pools.clients, tenant, namespace, name, version).await
    }

    pub async fn list_sequences(
        &self,
        tenant: &TenantHandle,
        namespace: Option<&Namespace>,
        after: Option<(Namespace, SequenceName, i32)>,
        limit: u32,
    ) -> Result<Vec<SequenceRow>, StoreError> {
        sequence::list(&self.pools.clients, tenant, namespace, after, limit).await
    }

    pub async fn set_fence(&self, fence: Fence) -> Result<bool, StoreError> {
        let pool = self.pools.clients.clone();
        let set = tokio::spawn(async move { fence::set(&pool, fence).await });
        set.await.unwrap_or_else(|_| Err(unknown("setting of a fence", sqlx::Error::WorkerCrashed)))
    }

    pub async fn fence(&self, tenant: &TenantId) -> Result<Option<Fence>, StoreError> {
        fence::stored(&self.pools.clients, tenant).await
    }

    pub async fn fences(&self, after: Option<TenantId>, limit: u32) -> Result<Vec<Fence>, StoreError> {
        fence::list(&self.pools.clients, after, limit).await
    }

    /// Partitions for the days ahead; the rings turn on. Short locks, which give way to whoever is there first.
    pub async fn maintain(&self, now: Millis) -> Result<(), StoreError> {
        maintain::maintain(&self.pools.owners, now).await
    }

    pub fn counters(&self) -> Counters {
        self.counts.read()
    }
}
