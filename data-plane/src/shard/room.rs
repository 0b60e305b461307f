//! A store in this process: opened once, its shards owned as far as the control plane leases them to this node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::{StreamExt as _, future::join_all, stream};
use orch8_model::{InstanceId, LeaseEpoch, Millis, NodeName, Shard, StoreName};
use orch8_seal::shard_of;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    committer::{self, Submitted, WAITING_MAX},
    config::ShardConfig,
    mailbox::Mailboxes,
    owner::Owner,
    programs::Programs,
};
use crate::{
    session::{SessionConfig, Sessions},
    store::{Lease, Raised, Store, StoreError},
    watch::Watchers,
};

/// A store with the owners of the shards that are this node's, and the sessions of its tenants' workers.
#[derive(Debug)]
pub struct StoreRoom {
    name: StoreName,
    store: Store,
    node: NodeName,
    config: ShardConfig,
    mailboxes: Mailboxes,
    sessions: Sessions,
    programs: Programs,
    watchers: Watchers,
    /// A shard's turns always go through the same one.
    committers: Vec<mpsc::Sender<Submitted>>,
    tenures: Mutex<BTreeMap<Shard, Tenure>>,
    /// Rung whenever a tenure begins or ends.
    changed: watch::Sender<()>,
    /// Nothing is taken any more.
    closing: CancellationToken,
}

/// A shard while this node owns it.
#[derive(Debug)]
struct Tenure {
    epoch: LeaseEpoch,
    stop: CancellationToken,
    ended: CancellationToken,
}

/// Between two looks after the store's rings and partitions. Each wait is a little different, so that nodes that were
/// started together do not stay together.
const MAINTAIN: Duration = Duration::from_secs(60);
/// Leases raised at a time.
const RAISES: usize = 8;

impl StoreRoom {
    /// A room without shards: its sessions stand by. Must be called in a tokio runtime.
    pub fn new(
        name: StoreName,
        store: Store,
        node: NodeName,
        config: ShardConfig,
        sessions: SessionConfig,
    ) -> Arc<Self> {
        let mailboxes = Mailboxes::new(store.shards());
        let sessions = Sessions::start(sessions, mailboxes.clone());
        sessions.stand_by();
        let committers = (0..store.committers()).map(|_| {
            let (submit, waiting) = mpsc::channel(WAITING_MAX);
            tokio::spawn(committer::run(store.clone(), waiting, mailboxes.clone()));
            submit
        });
        let room = Arc::new(Self {
            name,
            node,
            config,
            sessions,
            programs: Programs::default(),
            watchers: Watchers::default(),
            committers: committers.collect(),
            tenures: Mutex::default(),
            changed: watch::Sender::new(()),
            closing: CancellationToken::new(),
            mailboxes,
            store,
        });
        tokio::spawn(keep_in_shape(Arc::downgrade(&room)));
        room
    }

    /// Owns exactly these shards from now on, as far as the store agrees: what is owned and not wanted is given up
    /// first, then every lease is raised in the store, and only then anything is read under it. Workers are let in once
    /// all owners are there, so that none is told that nobody knows its task.
    ///
    /// Answers the leases that the store refused, with the epochs it holds. Errors: the store failed for some shard; the
    /// others are owned, and the call may be repeated.
    pub async fn own(
        self: &Arc<Self>,
        wanted: &BTreeMap<Shard, LeaseEpoch>,
    ) -> Result<Vec<(Lease, LeaseEpoch)>, StoreError> {
        let mut given_up = self.owned();
        given_up.retain(|shard, epoch| wanted.get(shard) != Some(epoch));
        join_all(given_up.into_keys().map(|shard| self.release(shard))).await;
        let mut missing = wanted.clone();
        missing.retain(|shard, _| !self.owns(*shard));
        let raises = missing.into_iter().map(|(shard, epoch)| {
            let room = Arc::clone(self);
            async move { room.take(Lease { shard, epoch }).await }
        });
        let taken: Vec<Result<Option<(Lease, LeaseEpoch)>, StoreError>> =
            stream::iter(raises).buffer_unordered(RAISES).collect().await;
        self.let_workers_in();
        taken.into_iter().filter_map(Result::transpose).collect()
    }

    /// `Some`: refused, with what the store holds.
    async fn take(self: &Arc<Self>, lease: Lease) -> Result<Option<(Lease, LeaseEpoch)>, StoreError> {
        if self.closing.is_cancelled() {
            return Ok(None);
        }
        match self.store.raise(lease.shard, &self.node, lease.epoch).await? {
            Raised::Won { .. } if self.closing.is_cancelled() => Ok(None),
            Raised::Won { lease, commit_seq } => {
                tracing::info!(store = %self.name, shard.id = %lease.shard, lease.epoch = %lease.epoch, commit_seq, "shard taken");
                self.begin(lease);
                Ok(None)
            }
            Raised::Stale { held, by } => {
                tracing::warn!(store = %self.name, shard.id = %lease.shard, lease.epoch = %held, node.id = %by, "the store knows a higher lease");
                Ok(Some((lease, held)))
            }
        }
    }

    fn begin(self: &Arc<Self>, lease: Lease) {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let posts = self.mailboxes.open(lease.shard);
        let committer = usize::from(lease.shard.0) % self.committers.len().max(1);
        let Some(submit) = self.committers.get(committer) else { return };
        let owner = Owner::new(lease, self, self.config.clone(), submit.clone());
        let tenure = Tenure { epoch: lease.epoch, stop: stop.clone(), ended: ended.clone() };
        self.tenures().insert(lease.shard, tenure);
        self.changed.send_replace(());
        let room = Arc::clone(self);
        tokio::spawn(async move {
            owner.run(posts, stop).await;
            room.end(lease);
            ended.cancel();
        });
    }

    /// The owner of a shard has stopped, by itself or because it was told.
    fn end(&self, lease: Lease) {
        let mut tenures = self.tenures();
        if tenures.get(&lease.shard).is_some_and(|tenure| tenure.epoch == lease.epoch) {
            tenures.remove(&lease.shard);
            self.mailboxes.close(lease.shard);
            self.sessions.forget(lease.shard);
            tracing::info!(store = %self.name, shard.id = %lease.shard, lease.epoch = %lease.epoch, "shard given up");
        }
        if tenures.is_empty() {
            self.sessions.stand_by();
        }
        drop(tenures);
        self.changed.send_replace(());
    }

    fn let_workers_in(&self) {
        if !self.tenures().is_empty() {
            self.sessions.stand_up();
        }
    }

    /// Ends the owner of a shard, if it is here; what it had decided is committed first.
    async fn release(&self, shard: Shard) {
        let ended = self.tenures().get(&shard).map(|tenure| {
            tenure.stop.cancel();
            tenure.ended.clone()
        });
        if let Some(ended) = ended {
            ended.cancelled().await;
        }
    }

    /// Ends every owner, and takes no shard any more.
    pub async fn release_all(&self) {
        self.closing.cancel();
        join_all(self.owned().into_keys().map(|shard| self.release(shard))).await;
    }

    /// The shards owned now, with their epochs.
    pub fn owned(&self) -> BTreeMap<Shard, LeaseEpoch> {
        self.tenures().iter().map(|(shard, tenure)| (*shard, tenure.epoch)).collect()
    }

    /// Whether a wanted shard has no owner here although nobody told it to end: it was put out by its store.
    pub fn lacks(&self, wanted: &BTreeMap<Shard, LeaseEpoch>) -> bool {
        let tenures = self.tenures();
        !self.closing.is_cancelled() && wanted.keys().any(|shard| !tenures.contains_key(shard))
    }

    /// Rung whenever a shard comes or goes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub fn name(&self) -> &StoreName {
        &self.name
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The workers of the tenants placed here.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    pub fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// The shard of an instance.
    pub fn shard(&self, instance: InstanceId) -> Shard {
        shard_of(instance, self.store.shards())
    }

    /// Tells the owner of an instance, if it is here, that something was stored for it.
    pub fn nudge(&self, instance: InstanceId) {
        self.mailboxes.nudge(self.shard(instance));
    }

    /// Stops the owners; what they had decided is committed first. Then closes the store.
    pub async fn close(&self) {
        self.release_all().await;
        self.store.close().await;
    }

    fn owns(&self, shard: Shard) -> bool {
        self.tenures().contains_key(&shard)
    }

    fn tenures(&self) -> MutexGuard<'_, BTreeMap<Shard, Tenure>> {
        self.tenures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after the store as long as its room is there.
async fn keep_in_shape(room: Weak<StoreRoom>) {
    loop {
        let jitter = orch8_seal::random_bytes().map_or(0, u64::from_be_bytes) % 10_000;
        tokio::time::sleep(MAINTAIN + Duration::from_millis(jitter)).await;
        let Some(room) = room.upgrade() else { return };
        if let Err(error) = room.store.maintain(Millis::from(chrono::Utc::now())).await {
            tracing::warn!(store = %room.name, error = &error as &dyn std::error::Error, "the store could not be kept in shape");
        }
    }
}
