//! Where everything that happens to a shard's instances arrives, as long as this node owns the shard.

use std::sync::{Arc, PoisonError, RwLock};

use orch8_model::Shard;
use tokio::sync::mpsc;

use super::committer::Settled;
use crate::session::FromSession;

/// One message to an owner.
#[derive(Debug)]
pub enum Post {
    /// From the sessions of this node.
    Session(FromSession),
    /// Rows were committed for this shard by somebody else (a start, a signal): look into the store.
    Nudge,
    /// From the committer: what became of turns of this shard.
    Settled(Vec<Settled>),
}

/// The owners' mailboxes of one store, by shard. Cheap to clone.
///
/// The lock is held for one look-up, never across an await.
#[derive(Clone, Debug)]
pub struct Mailboxes {
    by_shard: Arc<RwLock<Vec<Option<mpsc::Sender<Post>>>>>,
}

impl Mailboxes {
    /// Posts wait here when an owner is behind; senders then wait, which slows their stream and nobody else's.
    pub const CAPACITY: usize = 4096;

    /// Of a store with so many shards, none of them owned.
    pub fn new(shards: u16) -> Self {
        Self { by_shard: Arc::new(RwLock::new(vec![None; usize::from(shards)])) }
    }

    /// Opens the mailbox of a shard for a new owner; the one before gets nothing more.
    pub fn open(&self, shard: Shard) -> mpsc::Receiver<Post> {
        let (sender, end) = mpsc::channel(Self::CAPACITY);
        let mut by_shard = self.by_shard.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = by_shard.get_mut(usize::from(shard.0)) {
            *seat = Some(sender);
        }
        end
    }

    /// Nobody owns the shard here any more.
    pub fn close(&self, shard: Shard) {
        let mut by_shard = self.by_shard.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = by_shard.get_mut(usize::from(shard.0)) {
            *seat = None;
        }
    }

    /// Waits for room. `false`: no owner of this shard is here, or it has stopped.
    pub async fn post(&self, shard: Shard, post: Post) -> bool {
        match self.owner(shard) {
            Some(owner) => owner.send(post).await.is_ok(),
            None => false,
        }
    }

    /// A hint that may be lost when the mailbox is full: the owner looks by itself every so often.
    pub fn nudge(&self, shard: Shard) {
        if let Some(owner) = self.owner(shard) {
            let _ = owner.try_send(Post::Nudge);
        }
    }

    fn owner(&self, shard: Shard) -> Option<mpsc::Sender<Post>> {
        self.by_shard
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(usize::from(shard.0))
            .cloned()
            .flatten()
    }
}
