//! Timers belong to nodes. Each instant was computed once, when it was set; here it acts.

use orch8_model::Millis;

use super::Run;
use crate::{
    instance::{Node, NodeKind, NodeNo, Phase},
    program::Kind,
    record::Change,
};

/// What a timer does. Of several at one instant the first in this order acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Slept,
    Deadline,
    DelayPassed,
    GateTimeout,
    NextTry,
    TryTimeout,
    NextIteration,
}

impl Run<'_> {
    /// Acts for every node that is due, earliest first; the others are left alone. What each sets going runs before
    /// the next acts.
    pub(super) fn fire_due_timers(&mut self) {
        self.drain();
        while !self.full() && !self.paused() && !self.ended() {
            let Some((at, no)) = self.instance.index.timers.first().copied() else { return };
            if at > self.now {
                return;
            }
            self.transitions += 1;
            self.fire(no);
            self.drain();
        }
    }

    fn fire(&mut self, no: NodeNo) {
        let Some(due) = self.node(no).and_then(|node| first_due(node, self.now)) else { return };
        match due {
            Due::Slept => self.slept(no),
            Due::Deadline => self.deadline_breached(no),
            Due::DelayPassed => self.delay_passed(no),
            Due::GateTimeout => self.gate_timed_out(no),
            Due::NextTry => self.next_try(no),
            Due::TryTimeout => self.timed_out(no),
            Due::NextIteration => {
                if let Some(Kind::Loop(looping)) = self.block_of(no).map(|block| &block.kind) {
                    self.iterate(no, looping);
                }
            }
        }
    }

    /// The back-off is over.
    fn next_try(&mut self, no: NodeNo) {
        let Some(step) = self.step_of(no) else { return };
        self.commit(Change::Again(no));
        self.run_handler(no, step);
    }
}

/// Which of a node's timers that are due was due first.
fn first_due(node: &Node, now: Millis) -> Option<Due> {
    let (own, deadline) = match &node.kind {
        NodeKind::Loop(looping) => ([looping.poll.map(|at| (at, Due::NextIteration)), None], None),
        NodeKind::Step(step) => {
            let own = match step.phase {
                Phase::Delay(at) => [Some((at, Due::DelayPassed)), None],
                Phase::Gate(until) => [until.map(|at| (at, Due::GateTimeout)), None],
                Phase::Sleep { until, timeout_at } => {
                    [Some((until, Due::Slept)), timeout_at.map(|at| (at, Due::TryTimeout))]
                }
                Phase::Backoff { until, .. } => [Some((until, Due::NextTry)), None],
                Phase::Ready | Phase::Queued | Phase::Sent | Phase::Parked => [None, None],
            };
            (own, step.deadline_at.map(|at| (at, Due::Deadline)))
        }
        NodeKind::Parallel(_) | NodeKind::Router(_) | NodeKind::TryCatch(_) | NodeKind::ForEach(_) => {
            ([None, None], None)
        }
    };
    own.into_iter().chain([deadline]).flatten().filter(|(at, _)| *at <= now).min().map(|(_, due)| due)
}
