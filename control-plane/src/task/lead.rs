//! Leading: the one replica with the lead gives shards to nodes and takes them from those it does not hear. It looks
//! whenever somebody joined, left or was refused, and again and again at who has fallen silent.

use std::{collections::BTreeSet, time::Duration};

use orch8_authority::{Given, assign};
use orch8_model::{Millis, NodeName};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::{
    ControlPlane,
    app::catch_up,
    store::{ControlStoreError, Term},
};

/// For the last statement of a leader that leaves.
const RESIGN_WITHIN: Duration = Duration::from_secs(1);

/// What there was when the leader last looked: while it is the same, there is nothing to judge.
#[derive(Debug, PartialEq, Eq)]
struct Looked {
    term: i64,
    /// Of the counter of joins, leaves and refusals.
    fleet: u64,
    live: BTreeSet<NodeName>,
}

pub async fn lead(plane: ControlPlane) {
    let stopped = plane.fleet.stopped();
    let mut views = plane.fleet.views();
    let mut leader = Leader { me: Uuid::new_v4().to_string(), plane, listening: None, looked: None };
    loop {
        views.mark_unchanged();
        if let Err(error) = leader.look().await {
            // Whether the database answers is told by whoever reads it all the time.
            tracing::debug!(error = &error as &dyn std::error::Error, "no look at the fleet");
            leader.looked = None;
        }
        tokio::select! {
            () = stopped.cancelled() => break,
            _ = views.changed() => {}
            () = sleep(leader.plane.times.look_every()) => {}
        }
    }
    if leader.plane.store.is_shared() {
        // It ends by itself otherwise, only later.
        let _ = timeout(RESIGN_WITHIN, leader.plane.store.resign(&leader.me)).await;
    }
}

/// Since when it listens without a break, and when that was true last: whoever was asleep heard nobody.
#[derive(Clone, Copy, Debug)]
struct Listening {
    since: Millis,
    until: Millis,
}

impl Listening {
    /// Goes on, unless there was a break of more than `most`.
    fn at(now: Millis, before: Option<Self>, most: Duration) -> Self {
        let unbroken = |before: &Self| {
            let asleep = Duration::from_millis(now.since(before.until).unsigned_abs());
            before.until <= now && asleep <= most
        };
        let since = before.filter(unbroken).map_or(now, |before| before.since);
        Self { since, until: now }
    }
}

struct Leader {
    plane: ControlPlane,
    /// This replica, since its start.
    me: String,
    /// Of a replica that has its database for itself.
    listening: Option<Listening>,
    looked: Option<Looked>,
}

impl Leader {
    async fn look(&mut self) -> Result<(), ControlStoreError> {
        let (store, times) = (&self.plane.store, self.plane.times);
        let listening = Listening::at(store.now().await?, self.listening, times.lead_for());
        self.listening = Some(listening);
        let Some(term) = store.campaign(&self.me, times.lead_for(), listening.since).await? else {
            self.looked = None;
            return Ok(());
        };
        let fleet = store.counters().await?.fleet;
        let now = store.now().await?;
        let nodes = store.nodes().await?.into_iter();
        let live = nodes.filter(|node| times.is_live(now, node.seen_at, term.since)).map(|node| node.name);
        let sees = Looked { term: term.epoch, fleet, live: live.collect() };
        if self.looked.as_ref() == Some(&sees) {
            return Ok(());
        }
        self.tell_of_silence(&sees.live);
        let plane = self.plane.clone();
        // A transaction is not dropped half way, whatever becomes of this task.
        let judged = tokio::spawn(async move { judge(&plane, &term).await }).await;
        if let Ok(judged) = judged {
            judged?;
            self.looked = Some(sees);
        }
        Ok(())
    }

    fn tell_of_silence(&self, live: &BTreeSet<NodeName>) {
        let before = self.looked.iter().flat_map(|looked| &looked.live);
        for silent in before.filter(|node| !live.contains(*node)) {
            tracing::warn!(node.id = %silent, "a node is not heard any more, or has left");
        }
    }
}

/// One transaction: facts, judgement, what follows.
async fn judge(plane: &ControlPlane, term: &Term) -> Result<(), ControlStoreError> {
    let Some(mut fleet) = plane.store.begin_fleet_as(term).await? else { return Ok(()) };
    let now = fleet.now();
    let nodes: Vec<_> = fleet
        .nodes()
        .await?
        .into_iter()
        .map(|node| {
            let live = plane.times.is_live(now, node.seen_at, term.since);
            node.facts(live)
        })
        .collect();
    let given = assign(&nodes, &fleet.leases().await?);
    fleet.give(&given).await?;
    fleet.forget().await?;
    fleet.commit().await?;
    tell(&given);
    catch_up(plane).await
}

fn tell(given: &[Given]) {
    for lease in given {
        let node = lease.to.as_ref().map(|to| to.node.as_str()).unwrap_or_default();
        tracing::debug!(store = %lease.store, shard.id = lease.shard.0, lease.epoch = lease.epoch.get(), node.id = node, "lease given");
    }
    let mut moves: Vec<_> = given.iter().map(|g| (&g.store, g.to.as_ref().map(|to| &to.node))).collect();
    moves.dedup();
    for (store, node) in moves {
        match node {
            Some(node) => tracing::info!(%store, node.id = %node, "shards given"),
            None => tracing::warn!(%store, "shards that nobody owns: no node that serves this store is live"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_asleep_listens_anew() {
        let most = Duration::from_millis(500);
        let mut listening = None;
        for (now, since) in
            [(0, 0), (400, 0), (900, 0), (1_401, 1_401), (1_500, 1_401), (900, 900), (950, 900)]
        {
            let at = Listening::at(Millis(now), listening, most);
            assert_eq!(at.since, Millis(since), "{now}");
            listening = Some(at);
        }
    }
}
