//! Group commit: takes every turn that waits, writes them as one transaction, tells the owners.
//!
//! It commits as soon as its previous commit returned: no linger. Under load batches grow by themselves.

use tokio::sync::mpsc;

use super::mailbox::{Mailboxes, Post};
use crate::store::{Commit, Lease, Store, TurnAnswer, TurnWrite};
use orch8_model::InstanceId;

/// What became of one submitted turn.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    pub instance: InstanceId,
    pub turn_no: u64,
    pub fate: Fate,
}

/// Known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered(TurnAnswer),
    /// The store failed around the commit: only reading the instance again can tell.
    Unknown,
}

/// A turn on its way, with the lease it was made under.
#[derive(Debug)]
pub struct Submitted {
    pub lease: Lease,
    pub turn: TurnWrite,
}

/// Turns that may wait for the committer; then owners stop turning and events wait in their queues.
pub const WAITING_MAX: usize = 4096;
/// Turns of one transaction.
const BATCH_MAX: usize = 1024;
/// Bytes of one transaction's journal rows, unless a single turn is larger.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Commits until every owner has gone.
pub async fn run(store: Store, mut waiting: mpsc::Receiver<Submitted>, owners: Mailboxes) {
    let mut taken = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut taken, BATCH_MAX).await > 0 {
        let mut rest = taken.drain(..).peekable();
        while rest.peek().is_some() {
            let batch = next_batch(&mut rest);
            commit(&store, batch, &owners).await;
        }
    }
}

fn next_batch(rest: &mut std::iter::Peekable<impl Iterator<Item = Submitted>>) -> Commit {
    let mut commit = Commit::default();
    let mut bytes = 0;
    while let Some(next) = rest.peek() {
        let size = next.turn.body.len() + next.turn.snapshot.as_ref().map_or(0, String::len);
        if !commit.turns.is_empty() && bytes + size > BATCH_BYTES_MAX {
            break;
        }
        let Some(next) = rest.next() else { break };
        bytes += size;
        if !commit.leases.contains(&next.lease) {
            commit.leases.push(next.lease);
        }
        commit.turns.push(next.turn);
    }
    // In order, so that two committers of one store never wait for each other.
    commit.leases.sort_by_key(|lease| lease.shard);
    commit
}

async fn commit(store: &Store, commit: Commit, owners: &Mailboxes) {
    let ids: Vec<_> = commit.turns.iter().map(|t| (t.shard, t.instance, t.turn_no)).collect();
    let fates: Vec<Fate> = match store.commit(commit).await {
        Ok(answers) => answers.into_iter().map(Fate::Answered).collect(),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, turns = ids.len(), "commit failed");
            vec![Fate::Unknown; ids.len()]
        }
    };
    let mut by_shard: Vec<(orch8_model::Shard, Vec<Settled>)> = Vec::new();
    for ((shard, instance, turn_no), fate) in ids.into_iter().zip(fates) {
        let settled = Settled { instance, turn_no, fate };
        match by_shard.iter_mut().find(|(s, _)| *s == shard) {
            Some((_, list)) => list.push(settled),
            None => by_shard.push((shard, vec![settled])),
        }
    }
    for (shard, settled) in by_shard {
        owners.post(shard, Post::Settled(settled)).await;
    }
}
