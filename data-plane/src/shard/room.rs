//! A store and the owners of its shards, as one thing that can be opened and closed.

use std::{sync::Arc, time::Duration};

use orch8_model::{InstanceId, LeaseEpoch, NodeName, Shard, StoreName};
use orch8_seal::shard_of;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    committer::{self, WAITING_MAX},
    mailbox::Mailboxes,
    owner::Owner,
    programs::Programs,
};
use crate::{
    session::{SessionConfig, Sessions},
    store::{Lease, Raised, Store, StoreError},
    watch::Watchers,
};

/// Times and bounds of shard owners.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Instances a shard keeps in memory; when full, ready rows wait in the store.
    pub hot_max: usize,
    /// Rough bytes a shard keeps in memory.
    pub hot_bytes_max: usize,
    /// Ready rows claimed at a time, and of one tenant.
    pub claim_batch: u32,
    pub claim_per_tenant: u32,
    /// The net under lost nudges.
    pub poll: Duration,
    /// Timers further away than this are stored and found again; nearer ones live in the wheel.
    pub far: Duration,
    /// After a take-over a dispatched task counts as held by its worker for this long.
    pub takeover_hold: Duration,
    /// A snapshot rides along every so many turns, or bytes of journal.
    pub snapshot_turns: u32,
    pub snapshot_bytes: usize,
}

impl Default for ShardConfig {
    fn default() -> Self {
        Self {
            hot_max: 50_000,
            hot_bytes_max: 256 << 20,
            claim_batch: 256,
            claim_per_tenant: 32,
            poll: Duration::from_secs(5),
            far: Duration::from_secs(60),
            takeover_hold: Duration::from_secs(30),
            snapshot_turns: 64,
            snapshot_bytes: 256 << 10,
        }
    }
}

/// A store with its owners and the sessions of its tenants' workers.
#[derive(Debug)]
pub struct StoreRoom {
    name: StoreName,
    store: Store,
    mailboxes: Mailboxes,
    sessions: Sessions,
    programs: Programs,
    watchers: Watchers,
    stop: CancellationToken,
    owners: TaskTracker,
}

impl StoreRoom {
    /// Takes every shard of the store: raises the lease first, then reads.
    pub async fn open(
        name: StoreName,
        store: Store,
        node: &NodeName,
        config: ShardConfig,
        sessions: SessionConfig,
    ) -> Result<Arc<Self>, StoreError> {
        let (mailboxes, ends) = Mailboxes::new(store.shards());
        let (submit, waiting) = mpsc::channel(WAITING_MAX);
        let room = Self {
            name,
            mailboxes: mailboxes.clone(),
            sessions: Sessions::start(sessions, mailboxes.clone()),
            programs: Programs::default(),
            watchers: Watchers::default(),
            stop: CancellationToken::new(),
            owners: TaskTracker::new(),
            store,
        };
        for (shard, end) in (0..).map(Shard).zip(ends) {
            let lease = room.raise(shard, node).await?;
            let owner = Owner::new(lease, &room, config.clone(), submit.clone());
            room.owners.spawn(owner.run(end, room.stop.clone()));
        }
        room.owners.spawn(committer::run(room.store.clone(), waiting, mailboxes));
        room.owners.close();
        Ok(Arc::new(room))
    }

    /// This process is the only one that has the store open, so it may take the next epoch by itself.
    async fn raise(&self, shard: Shard, node: &NodeName) -> Result<Lease, StoreError> {
        let exhausted =
            || StoreError::Corrupt { table: "shard_leases", column: "lease_epoch", key: shard.to_string() };
        let mut epoch: LeaseEpoch = self.store.lease(shard).await?;
        loop {
            epoch = epoch.checked_next().ok_or_else(exhausted)?;
            match self.store.raise(shard, node, epoch).await? {
                Raised::Won { lease, commit_seq } => {
                    tracing::info!(shard.id = %shard, lease.epoch = %epoch, commit_seq, "shard taken");
                    return Ok(lease);
                }
                Raised::Stale { held, by } => {
                    tracing::warn!(shard.id = %shard, lease.epoch = %held, node.id = %by, "shard lease moved on");
                    epoch = held;
                }
            }
        }
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

    /// Tells the owner of an instance that something was stored for it.
    pub fn nudge(&self, instance: InstanceId) {
        self.mailboxes.nudge(self.shard(instance));
    }

    /// Stops the owners; what they had decided is committed first. Then closes the store.
    pub async fn close(&self) {
        self.stop.cancel();
        self.owners.wait().await;
        self.store.close().await;
    }
}
