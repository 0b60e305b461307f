//! One worker session as the board knows it: lanes, credit, what it holds, and what is to be sent to it next.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use orch8_model::{Fault, TenantId, WorkerId};
use orch8_proto::v1;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    queue::{IdleKey, QueueId},
    timers::TimerKey,
};
use crate::session::TaskRef;

/// Names a session within this process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::session) struct SessionKey(pub u64);

/// What the two halves of a stream share with the board: a bell, and how it ended.
#[derive(Debug, Default)]
pub(in crate::session) struct Line {
    /// Rung when there may be something to send.
    pub bell: Notify,
    /// Ends the reading half.
    pub cut: CancellationToken,
    end: OnceLock<Option<Fault>>,
}

impl Line {
    /// The stream is to end, with this for the worker to read. The first word counts.
    pub fn end(&self, why: Option<Fault>) {
        let _ = self.end.set(why);
        self.bell.notify_one();
        self.cut.cancel();
    }

    /// How the stream ended, once it has.
    pub fn ended(&self) -> Option<&Option<Fault>> {
        self.end.get()
    }
}

#[derive(Debug)]
pub(super) struct Session {
    pub id: String,
    pub token: String,
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub version: String,
    pub lanes: Vec<Lane>,
    pub offers: Vec<Offer>,
    pub line: Arc<Line>,
    pub phase: Phase,
    pub turn: Turn,
    /// GoAway was said.
    pub going_away: bool,
    /// Pings were missed.
    pub quiet: bool,
    /// The number of a Dispatch that was not acknowledged in time: nothing new until it is.
    pub deaf_since: Option<u64>,
    /// Deliveries sent and not settled.
    pub held: HashSet<TaskRef>,
    pub outbox: Outbox,
    /// Dispatches sent and not acknowledged, oldest first.
    pub unacked: VecDeque<Sent>,
    /// Number of the last Dispatch.
    pub seq: u64,
    pub opened: Instant,
    /// Last frame from the worker.
    pub heard: Instant,
    /// Last frame to the worker.
    pub spoke: Instant,
    pub timer: Option<TimerKey>,
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Hello was read, Welcome not yet written.
    Opening,
    Open,
    /// No new tasks; the worker finishes what it has.
    Draining,
    /// The worker said all it had to say: what is in the outbox goes out, then the stream ends.
    Closing,
    /// The stream is gone. Acknowledged tasks keep their lease until then.
    Broken {
        until: Instant,
    },
}

/// Where a session stands in the round of those with work and credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    InRound,
    /// Its tenant is at its bound of tasks in flight.
    Parked,
}

/// One handler that a session offers.
#[derive(Debug)]
pub(super) struct Offer {
    pub queue: QueueId,
    pub lane: usize,
    /// Where it stands in `queue.idle`.
    pub listed: Option<IdleKey>,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub name: String,
    pub handlers: Vec<Arc<str>>,
    pub credit: Credit,
    pub in_flight: usize,
}

impl Lane {
    /// Whether a task with params of this size may be sent now.
    pub fn takes(&self, params_bytes: usize, in_flight_max: usize) -> bool {
        self.in_flight < in_flight_max && self.credit.covers(params_bytes)
    }

    /// Whether any task may be sent.
    pub fn is_able(&self, in_flight_max: usize) -> bool {
        self.in_flight < in_flight_max && self.credit.tasks() > 0
    }
}

/// What a worker granted and nobody used yet. Grants only add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    unmetered: u64,
    metered: u64,
    bytes: u64,
}

/// How a task was paid for, so that it can be paid back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paid {
    Unmetered,
    Metered,
}

impl Credit {
    /// `bytes` 0: as many as these tasks need.
    pub fn grant(&mut self, tasks: u64, bytes: u64) {
        if bytes == 0 {
            self.unmetered = self.unmetered.saturating_add(tasks);
        } else {
            self.metered = self.metered.saturating_add(tasks);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    pub fn tasks(&self) -> u64 {
        self.unmetered.saturating_add(self.metered)
    }

    /// Bytes that one task may have.
    pub fn bytes(&self) -> u64 {
        match (self.unmetered, self.metered) {
            (0, 0) => 0,
            (0, _) => self.bytes,
            _ => u64::MAX,
        }
    }

    pub fn covers(&self, bytes: usize) -> bool {
        self.unmetered > 0 || (self.metered > 0 && self.bytes >= bytes as u64)
    }

    /// `None`: not covered, nothing spent.
    pub fn spend(&mut self, bytes: usize) -> Option<Paid> {
        if self.unmetered > 0 {
            self.unmetered -= 1;
            return Some(Paid::Unmetered);
        }
        let left = self.bytes.checked_sub(bytes as u64)?;
        self.metered = self.metered.checked_sub(1)?;
        self.bytes = left;
        Some(Paid::Metered)
    }

    /// A task that was never sent costs nothing.
    pub fn refund(&mut self, paid: Paid, bytes: usize) {
        match paid {
            Paid::Unmetered => self.unmetered = self.unmetered.saturating_add(1),
            Paid::Metered => {
                self.metered = self.metered.saturating_add(1);
                self.bytes = self.bytes.saturating_add(bytes as u64);
            }
        }
    }
}

/// A Dispatch that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub seq: u64,
    pub at: Instant,
    pub tasks: Vec<TaskRef>,
    /// Not acknowledged in time, and dealt with.
    pub overdue: bool,
}

/// What goes to the worker next.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub welcome: Option<v1::Welcome>,
    pub revokes: Vec<(v1::Lease, String)>,
    pub acks: Vec<v1::ResultAck>,
    /// Tasks of the next Dispatch.
    pub batch: Vec<TaskRef>,
    pub batch_bytes: usize,
    /// The next task did not fit.
    pub batch_full: bool,
    pub go_away: Option<(Duration, String)>,
    pub ping: bool,
}

impl Session {
    pub fn is_live(&self) -> bool {
        match self.phase {
            Phase::Opening | Phase::Open | Phase::Draining | Phase::Closing => true,
            Phase::Broken { .. } => false,
        }
    }

    /// Whether a task may be put into the next Dispatch, credit aside.
    pub fn takes_tasks(&self, batch_max: usize) -> bool {
        self.phase == Phase::Open
            && !self.going_away
            && !self.quiet
            && self.deaf_since.is_none()
            && !self.outbox.batch_full
            && self.outbox.batch.len() < batch_max
    }

    /// The lane that serves this queue, or the first.
    pub fn lane_of(&self, queue: QueueId) -> usize {
        self.offers.iter().find(|offer| offer.queue == queue).map_or(0, |offer| offer.lane)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_is_spent_than_was_granted(
            grants in prop::collection::vec((1_u64..50, prop_oneof![Just(0), 1_u64..5_000]), 0..20),
            tasks in prop::collection::vec(0_usize..500, 0..600),
        ) {
            let mut credit = Credit::default();
            let (mut free, mut paid, mut bytes) = (0_u64, 0_u64, 0_u64);
            for (tasks, granted) in grants {
                credit.grant(tasks, granted);
                if granted == 0 { free += tasks } else { paid += tasks; bytes += granted }
            }
            let (mut spent_free, mut spent_paid, mut spent_bytes) = (0, 0, 0);
            for task in tasks {
                let covered = credit.covers(task);
                match credit.spend(task) {
                    Some(Paid::Unmetered) => spent_free += 1,
                    Some(Paid::Metered) => { spent_paid += 1; spent_bytes += task as u64 }
                    None => prop_assert!(!covered),
                }
            }
            prop_assert!(spent_free <= free && spent_paid <= paid && spent_bytes <= bytes);
            prop_assert_eq!(credit.tasks(), free + paid - spent_free - spent_paid);
        }

        #[test]
        fn a_refund_is_what_was_spent(tasks in 1_u64..9, bytes in 0_u64..900, task in 0_usize..1_000) {
            let mut credit = Credit::default();
            credit.grant(tasks, bytes);
            let before = credit;
            if let Some(paid) = credit.spend(task) {
                credit.refund(paid, task);
            }
            prop_assert_eq!(credit, before);
        }
    }

    #[test]
    fn hostile_grants_saturate() {
        let mut credit = Credit::default();
        credit.grant(u64::MAX, 0);
        credit.grant(u64::MAX, u64::MAX);
        credit.grant(u64::MAX, u64::MAX);
        assert_eq!(credit.tasks(), u64::MAX);
        assert!(credit.covers(usize::MAX));
    }
}
