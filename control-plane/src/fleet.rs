//! What the open streams of this replica share: who may sit down, what there is to see, and when to stop. In memory: a
//! node that is gone comes again.

use std::{sync::Arc, time::Duration};

use orch8_model::Millis;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::store::FleetView;

/// How long is long. All that is judged by them is judged by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetTimes {
    /// Between two heartbeats of a node.
    pub heartbeat: Duration,
    /// A node that was not heard for this long loses its shards.
    pub give_up_after: Duration,
}

impl Default for FleetTimes {
    fn default() -> Self {
        Self { heartbeat: Duration::from_secs(3), give_up_after: Duration::from_secs(10) }
    }
}

impl FleetTimes {
    /// The same, `factor` times as fast; for tests.
    pub fn faster(self, factor: u32) -> Self {
        let factor = factor.max(1);
        Self { heartbeat: self.heartbeat / factor, give_up_after: self.give_up_after / factor }
    }

    /// Between two looks of the leader at who is silent.
    pub(crate) fn look_every(self) -> Duration {
        self.give_up_after / 10
    }

    /// How long the lead stays with a replica that says nothing. Less than what is left of `give_up_after` behind a
    /// heartbeat: nobody loses shards because a leader could not write.
    pub(crate) fn lead_for(self) -> Duration {
        self.give_up_after / 2
    }

    /// The least time between two heartbeats that are listened to: more of them wait in the socket.
    pub(crate) fn pace(self) -> Duration {
        self.heartbeat / 20
    }

    /// Whether a node last heard at `seen_at` counts as live. `listening`: since when there has been a leader without a
    /// break; nobody is silent while nobody listens.
    pub(crate) fn is_live(self, now: Millis, seen_at: Millis, listening: Millis) -> bool {
        let silent = now.since(seen_at.max(listening));
        Duration::from_millis(silent.unsigned_abs()) <= self.give_up_after
    }
}

/// The open streams. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fleet {
    watchers: Arc<Semaphore>,
    members: Arc<Semaphore>,
    newest: watch::Sender<u64>,
    view: watch::Sender<Arc<FleetView>>,
    stop: CancellationToken,
}

impl Fleet {
    /// Nodes of a deployment, and streams of each kind on one replica.
    pub const NODES_MAX: usize = 1_024;

    pub fn new() -> Self {
        Self {
            watchers: Arc::new(Semaphore::new(Self::NODES_MAX)),
            members: Arc::new(Semaphore::new(Self::NODES_MAX)),
            newest: watch::Sender::new(0),
            view: watch::Sender::new(Arc::default()),
            stop: CancellationToken::new(),
        }
    }

    /// A seat for a stream of changes, given back when dropped. `None`: all are taken.
    pub fn seat_for_watching(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.watchers).try_acquire_owned().ok()
    }

    /// A seat for a node's own stream, given back when dropped. `None`: all are taken.
    pub fn seat_for_joining(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.members).try_acquire_owned().ok()
    }

    /// Rings whoever follows the changes: they are read up to this number.
    pub fn changed(&self, seq: u64) {
        self.newest.send_replace(seq);
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Shows a newer view.
    pub fn show(&self, view: FleetView) {
        self.view.send_replace(Arc::new(view));
    }

    pub fn views(&self) -> watch::Receiver<Arc<FleetView>> {
        self.view.subscribe()
    }

    /// Fires when the control plane closes.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub fn close(&self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_silent_only_if_somebody_listened() {
        let times = FleetTimes::default();
        for (now, seen_at, listening, live) in [
            (10_000, 0, 0, true),
            (10_001, 0, 0, false),
            (60_000, 0, 50_000, true),
            (60_001, 0, 50_000, false),
            (0, 60_000, 0, true),
        ] {
            assert_eq!(
                times.is_live(Millis(now), Millis(seen_at), Millis(listening)),
                live,
                "{now} {seen_at}"
            );
        }
    }

    #[test]
    fn the_lead_ends_before_a_node_can_seem_silent_for_want_of_it() {
        for times in [FleetTimes::default(), FleetTimes::default().faster(10)] {
            assert!(times.lead_for() + times.heartbeat < times.give_up_after);
            assert!(times.look_every() < times.lead_for() / 2);
        }
    }
}
