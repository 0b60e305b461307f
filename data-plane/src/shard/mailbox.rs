//! Where everything that happens to a shard's instances arrives.

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
#[derive(Clone, Debug)]
pub struct Mailboxes {
    by_shard: Vec<mpsc::Sender<Post>>,
}

impl Mailboxes {
    /// Posts wait here when an owner is behind; senders then wait, which slows their stream and nobody else's.
    pub const CAPACITY: usize = 4096;

    /// Mailboxes and the owners' ends, one per shard.
    pub fn new(shards: u16) -> (Self, Vec<mpsc::Receiver<Post>>) {
        let (by_shard, ends) = (0..shards).map(|_| mpsc::channel(Self::CAPACITY)).unzip();
        (Self { by_shard }, ends)
    }

    /// Waits for room. `false`: there is no such shard, or its owner has stopped.
    pub async fn post(&self, shard: Shard, post: Post) -> bool {
        match self.by_shard.get(usize::from(shard.0)) {
            Some(owner) => owner.send(post).await.is_ok(),
            None => false,
        }
    }

    /// A hint that may be lost when the mailbox is full: the owner looks by itself every so often.
    pub fn nudge(&self, shard: Shard) {
        if let Some(owner) = self.by_shard.get(usize::from(shard.0)) {
            let _ = owner.try_send(Post::Nudge);
        }
    }
}
