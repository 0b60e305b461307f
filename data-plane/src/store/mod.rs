//! What do we store and why must it be durable? The instance row (birth and close), one journal row per turn, and what
//! waits: ready rows, far timers, the inbox. Everything else is memory and is rebuilt from these.
//!
//! Every write transaction asserts two fences inside the database: the shard's lease epoch, and the tenant's placement
//! epoch and mode. The operations of [`Store`] are the whole surface; both databases answer the same, by the same
//! judgement.

mod codes;
mod counts;
mod error;
mod judge;
mod pages;
pub mod postgres;
mod rows;
pub mod sqlite;

use std::path::Path;

use orch8_model::{
    DatabaseUrl, InstanceId, LeaseEpoch, Millis, Namespace, NodeName, SequenceId, SequenceName, Shard,
    TenantId,
};

pub use counts::Counters;
pub use error::StoreError;
pub use postgres::PostgresStore;
pub use rows::{
    BirthRow, Closing, Commit, Fence, FenceMode, InstanceFilter, InstanceRow, JournalRow, Lease, Loaded,
    Mail, MailBody, Message, NewSequence, PageAfter, Placement, Raised, Ready, Sent, SequencePublished,
    SequenceRow, Start, Started, TenantHandle, TimerRow, TurnAnswer, TurnWrite,
};
pub use sqlite::SqliteStore;

/// A tenant store. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Store {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl Store {
    /// Opens a database and brings it to the newest schema; one that is not there yet, or empty, becomes a store.
    /// Errors: not reachable or writable, in use, newer schema, not fit.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        match url {
            DatabaseUrl::Sqlite(path) => Self::open_file(path).await,
            DatabaseUrl::Postgres(url) => PostgresStore::open(url).await.map(Self::Postgres),
        }
    }

    /// Opens or makes a SQLite file. Errors: in use, newer schema, not writable.
    pub async fn open_file(path: &Path) -> Result<Self, StoreError> {
        SqliteStore::open(path).await.map(Self::Sqlite)
    }
}

/// Each operation once: what it means, and that it is handed to whichever database it is.
macro_rules! operations {
    ($($(#[$doc:meta])* async fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty;)*) => {
        impl Store {
            $(
                $(#[$doc])*
                pub async fn $name(&self, $($arg: $type),*) -> $answer {
                    match self {
                        Self::Sqlite(store) => store.$name($($arg),*).await,
                        Self::Postgres(store) => store.$name($($arg),*).await,
                    }
                }
            )*
        }
    };
}

operations! {
    /// Closes all connections and checkpoints the WAL.
    async fn close() -> ();

    /// Takes a shard: the epoch must be higher than the stored one. One auto-committed statement, before the first read.
    async fn raise(shard: Shard, node: &NodeName, epoch: LeaseEpoch) -> Result<Raised, StoreError>;

    /// The stored epoch of a shard.
    async fn lease(shard: Shard) -> Result<LeaseEpoch, StoreError>;

    /// What is stored about these shards: the epoch of the lease, and how many write transactions its holders have
    /// committed. One read.
    async fn commit_seqs(shards: &[Shard]) -> Result<Vec<(Shard, LeaseEpoch, u64)>, StoreError>;

    /// One transaction for many turns; answers in the order of `commit.turns`.
    async fn commit(commit: Commit) -> Result<Vec<TurnAnswer>, StoreError>;

    /// Instances that were in an owner's memory: every open instance that has had a turn and is not parked on a far
    /// timer. By id.
    async fn hot(shard: Shard, after: Option<InstanceId>, limit: u32) -> Result<Vec<InstanceId>, StoreError>;

    /// Marks instances as evicted (`hot` falls) or reloaded (`hot` rises), under the lease.
    async fn set_hot(lease: Lease, instances: &[InstanceId], hot: bool) -> Result<(), StoreError>;

    /// Row, newest snapshot and tail. Instances that do not exist are left out.
    async fn load(ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError>;

    /// Due ready rows of tenants that may be written here, at most `per_tenant` of each, `limit` in all, tenants in the
    /// order given (empty = all tenants with rows, by id). Rows stay until the turn that answers them deletes them.
    async fn claim(
        lease: Lease,
        now: Millis,
        limit: u32,
        per_tenant: u32,
        skip: &[InstanceId],
        tenants: &[TenantId],
    ) -> Result<Vec<Ready>, StoreError>;

    /// Tenants with ready rows due in this shard.
    async fn ready_tenants(lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError>;

    /// The earliest ready row that is not due yet and was not due at birth, so that the owner can sleep until then.
    async fn next_ready(lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError>;

    /// Far timers due until `until`, earliest first. Read-only; a timer row leaves with [`Self::forget_timers`].
    async fn due_timers(lease: Lease, until: Millis, limit: u32) -> Result<Vec<TimerRow>, StoreError>;

    /// Deletes timer rows that were put into the wheel of a hot instance.
    async fn forget_timers(lease: Lease, timers: &[TimerRow]) -> Result<(), StoreError>;

    /// Mail of a shard in commit order, all instances.
    async fn mail(lease: Lease, after: i64, limit: u32) -> Result<Vec<Mail>, StoreError>;

    /// Mail of one instance in commit order, at most 256 rows: the rest comes once these are absorbed.
    async fn mail_of(instance: InstanceId) -> Result<Vec<Mail>, StoreError>;

    /// Starts, all or nothing: instance row, ready row, once row. With a mismatch among the answers nothing was stored,
    /// not even what is called new. `None`: the tenant's fence is not ours.
    async fn start(tenant: &TenantHandle, starts: Vec<Start>) -> Result<Option<Vec<Started>>, StoreError>;

    /// Puts a message into an instance's inbox, in one transaction with its `once` row; refuses closed instances.
    /// `None`: the tenant's fence is not ours.
    async fn send(tenant: &TenantHandle, message: Message) -> Result<Option<Sent>, StoreError>;

    /// One instance. Foreign and missing are one.
    async fn instance(tenant: &TenantHandle, id: InstanceId) -> Result<Option<InstanceRow>, StoreError>;

    /// As [`Self::load`], one instance, within a tenant.
    async fn load_one(tenant: &TenantHandle, id: InstanceId) -> Result<Option<Loaded>, StoreError>;

    /// Turns after `after` (None = from the first), rising.
    async fn turns(
        tenant: &TenantHandle,
        id: InstanceId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError>;

    /// Newest first by (created_at, id).
    async fn list_instances(
        tenant: &TenantHandle,
        filter: &InstanceFilter,
        after: Option<PageAfter>,
        limit: u32,
    ) -> Result<Vec<InstanceRow>, StoreError>;

    /// Stores a document under its version, or the next one. `None`: the tenant's fence is not ours.
    async fn publish(
        tenant: &TenantHandle,
        new: NewSequence,
    ) -> Result<Option<SequencePublished>, StoreError>;

    /// One version by its id. Foreign and missing are one.
    async fn sequence(tenant: &TenantHandle, id: SequenceId) -> Result<Option<SequenceRow>, StoreError>;

    /// A named version, or the newest that is not deprecated.
    async fn sequence_named(
        tenant: &TenantHandle,
        namespace: &Namespace,
        name: &SequenceName,
        version: Option<i32>,
    ) -> Result<Option<SequenceRow>, StoreError>;

    /// By (namespace, name, version descending), without documents and without deprecated ones.
    async fn list_sequences(
        tenant: &TenantHandle,
        namespace: Option<&Namespace>,
        after: Option<(Namespace, SequenceName, i32)>,
        limit: u32,
    ) -> Result<Vec<SequenceRow>, StoreError>;

    /// Opens, drains or seals a tenant here. The placement epoch only rises; the same epoch may change the mode.
    /// `false`: a higher epoch is stored.
    async fn set_fence(fence: Fence) -> Result<bool, StoreError>;

    /// A tenant's fence, if it has ever been placed here.
    async fn fence(tenant: &TenantId) -> Result<Option<Fence>, StoreError>;

    /// All fences, by tenant.
    async fn fences(after: Option<TenantId>, limit: u32) -> Result<Vec<Fence>, StoreError>;

    /// Keeps the store in shape: to be called about once a minute by every node that has it open, with some jitter.
    /// Does little when there is little to do, and gives way to whatever is going on.
    async fn maintain(now: Millis) -> Result<(), StoreError>;
}

impl Store {
    /// Shards of this store, fixed when it was made.
    pub fn shards(&self) -> u16 {
        match self {
            Self::Sqlite(store) => store.shards(),
            Self::Postgres(store) => store.shards(),
        }
    }

    /// Commits that are worth having under way at a time: SQLite writes one after the other.
    pub fn committers(&self) -> usize {
        match self {
            Self::Sqlite(_) => 1,
            Self::Postgres(_) => PostgresStore::COMMITTERS,
        }
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Sqlite(store) => store.counters(),
            Self::Postgres(store) => store.counters(),
        }
    }
}
