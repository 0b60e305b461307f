//! Who may have which task now: queues, sessions, leases and timers of one node, in memory.
//!
//! Pure: time is an argument, ids come from the caller, and what owners must hear collects in a list that the caller
//! takes. Every public method leaves nothing matchable unmatched.
//!
//! - `matching`: tasks meet lanes. A session with work and credit stands in the round of its tenant; a turn is one
//!   batch, so within one round every tenant gets one batch per unit of weight.
//! - `frames`: what a worker said, and what is sent to it next.
//! - `leave`: how sessions end, and what becomes of what they held.
//! - `listing`: what operators see.

mod frames;
mod leave;
mod listing;
mod matching;
mod open;
mod queue;
mod session;
mod timers;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use orch8_engine::{HowLost, fairness::Fair};
use orch8_model::{Shard, TenantId, WorkerId};
use orch8_proto::v1;
use tokio::sync::Notify;

use self::{
    queue::{QueueId, Queues, Standing},
    session::{Paid, Session},
    timers::{TimerKey, Timers},
};
use super::{FromSession, SessionConfig, TaskRef, task::Prepared};

pub(super) use self::open::{Ids, TakenOver};
pub(super) use self::session::{Line, SessionKey};
pub use listing::Census;

/// Cost a tenant of weight 1 may spend per round: one batch.
const ROUND_QUANTUM: u64 = 1;

#[derive(Debug)]
pub(super) struct Board {
    config: Arc<SessionConfig>,
    /// Rung when the earliest timer moved forward.
    clock: Arc<Notify>,
    queues: Queues,
    tasks: HashMap<TaskRef, Entry>,
    sessions: HashMap<SessionKey, Session>,
    workers: HashMap<(TenantId, WorkerId), Worker>,
    tenants: HashMap<TenantId, Tenant>,
    round: Fair<TenantId, SessionKey>,
    timers: Timers<Due>,
    posts: Vec<(Shard, FromSession)>,
    node: Load,
    /// Sessions whose stream stands.
    live: usize,
    next_age: u64,
    next_ticket: u64,
    door: Door,
}

/// Whether sessions may open and tasks be given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    /// This node owns no shard of the store: its workers belong with the node that does.
    StandingBy,
    /// This process is ending.
    Leaving,
}

/// A task from its offer until nothing more will come of it.
#[derive(Debug)]
struct Entry {
    tenant: TenantId,
    queue: QueueId,
    shard: Shard,
    at_most_once: bool,
    timeout: Option<Duration>,
    /// End of schedule-to-start.
    start_by: Option<Instant>,
    offered: Instant,
    standing: Standing,
    params_bytes: usize,
    wire_bytes: usize,
    /// Until it is written.
    wire: Option<Box<v1::Task>>,
    place: Place,
    timer: Option<TimerKey>,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Queued,
    /// In the outbox of a session; not written yet.
    Batched(Holder, Paid),
    /// Written; whether it arrived is not known.
    Sent(Holder),
    /// The worker has it.
    Acked(Holder),
    /// The owner is asked about its result.
    Reported(Holder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    session: SessionKey,
    lane: usize,
}

/// A worker process, as far as restarts go.
#[derive(Debug)]
struct Worker {
    nonce: String,
    sessions: Vec<SessionKey>,
}

#[derive(Debug, Default)]
struct Tenant {
    weight: u64,
    load: Load,
    sessions: HashSet<SessionKey>,
    /// Sessions with work and credit that wait because the tenant is at its bound of tasks in flight.
    parked: VecDeque<SessionKey>,
}

/// What counts against [`super::Bounds`].
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    in_flight: usize,
    queued: usize,
    queued_bytes: usize,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
enum Due {
    Session(SessionKey),
    Task(TaskRef),
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Queued,
    Full,
    Draining,
}

impl Board {
    pub fn new(config: Arc<SessionConfig>, clock: Arc<Notify>) -> Self {
        Self {
            config,
            clock,
            queues: Queues::default(),
            tasks: HashMap::new(),
            sessions: HashMap::new(),
            workers: HashMap::new(),
            tenants: HashMap::new(),
            round: Fair::new(ROUND_QUANTUM),
            timers: Timers::new(),
            posts: Vec::new(),
            node: Load::default(),
            live: 0,
            next_age: 0,
            next_ticket: 0,
            door: Door::Open,
        }
    }

    /// What owners must hear, since the last call.
    pub fn take_posts(&mut self) -> Vec<(Shard, FromSession)> {
        std::mem::take(&mut self.posts)
    }

    /// Draining, and the last stream has ended.
    pub fn is_drained(&self) -> bool {
        self.door == Door::Leaving && self.live == 0
    }

    /// Queues a task. The same delivery twice is queued once. [`Self::pump`] once all are offered.
    pub fn offer(&mut self, task: Prepared, now: Instant) -> Admission {
        if self.door != Door::Open {
            return Admission::Draining;
        }
        if self.tasks.contains_key(&task.reference) {
            return Admission::Queued;
        }
        let tenant = self.tenants.entry(task.tenant.clone()).or_default();
        tenant.weight = task.weight.max(1);
        let bounds = [(&tenant.load, &self.config.tenant), (&self.node, &self.config.node)];
        if bounds.into_iter().any(|(load, bounds)| load.is_full(bounds, task.wire_bytes)) {
            self.sweep_tenant(&task.tenant);
            return Admission::Full;
        }
        let reference = task.reference;
        self.enter(task, now);
        self.enqueue(reference);
        Admission::Queued
    }

    /// Notes a task that is nowhere yet.
    fn enter(&mut self, task: Prepared, now: Instant) {
        let start_by = task.start_within.and_then(|within| now.checked_add(within));
        let timer = start_by.map(|at| self.set_timer(at, Due::Task(task.reference)));
        let standing = Standing::new(task.priority, self.next_age);
        self.next_age += 1;
        let entry = Entry {
            queue: self.queues.named(&task.tenant, &task.wire.handler),
            tenant: task.tenant,
            shard: task.shard,
            at_most_once: task.at_most_once,
            timeout: task.timeout,
            start_by,
            offered: now,
            standing,
            params_bytes: task.params_bytes,
            wire_bytes: task.wire_bytes,
            wire: Some(task.wire),
            place: Place::Queued,
            timer,
        };
        self.tasks.insert(task.reference, entry);
    }

    /// The task is no longer wanted: it leaves the queue, or is revoked from the session that has it.
    pub fn withdraw(&mut self, task: TaskRef, reason: &str) {
        if let Some(entry) = self.remove(task) {
            self.revoke(entry.place, task, reason);
            self.pump();
        }
    }

    /// Does what is due. Answers when it wants to be called next.
    pub fn advance(&mut self, now: Instant) -> Option<Instant> {
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Session(key) => self.check_session(key, now),
                Due::Task(task) => self.check_task(task, now),
            }
        }
        self.pump();
        self.timers.earliest()
    }

    fn check_task(&mut self, task: TaskRef, now: Instant) {
        let Some(entry) = self.tasks.get_mut(&task) else { return };
        entry.timer = None;
        match entry.place {
            Place::Queued | Place::Batched(..) => self.lose(task, HowLost::ScheduleToStart, now),
            Place::Acked(_) => {
                let place = entry.place;
                self.lose(task, HowLost::StartToClose, now);
                self.revoke(place, task, "its start-to-close timeout has passed");
            }
            // Sent: whether it started is not known yet; the acknowledgement, or its absence, decides.
            Place::Sent(_) | Place::Reported(_) => {}
        }
    }

    /// No outcome of this delivery will come.
    fn lose(&mut self, task: TaskRef, how: HowLost, now: Instant) {
        let Some(entry) = self.remove(task) else { return };
        let too_late = entry.start_by.is_some_and(|by| by <= now);
        let how = match how {
            HowLost::NeverStarted if too_late => HowLost::ScheduleToStart,
            HowLost::NeverStarted
            | HowLost::LeaseEnded
            | HowLost::StartToClose
            | HowLost::ScheduleToStart => how,
        };
        self.posts.push((entry.shard, FromSession::Lost { task, how }));
    }

    /// Takes the task out of everything that knows it.
    fn remove(&mut self, task: TaskRef) -> Option<Entry> {
        let entry = self.tasks.remove(&task)?;
        if let Some(timer) = entry.timer {
            self.timers.cancel(timer);
        }
        match entry.place {
            Place::Queued => self.unqueue(&entry),
            Place::Batched(holder, paid) => {
                self.unpack(&entry, holder, paid, task);
                self.vacate(&entry, holder);
                self.let_go(&entry, holder, task);
            }
            Place::Sent(holder) | Place::Acked(holder) => {
                self.vacate(&entry, holder);
                self.let_go(&entry, holder, task);
            }
            Place::Reported(holder) => self.let_go(&entry, holder, task),
        }
        self.queues.sweep(entry.queue);
        self.sweep_tenant(&entry.tenant);
        Some(entry)
    }

    /// Tells the session that has the task, if its stream stands.
    fn revoke(&mut self, place: Place, task: TaskRef, reason: &str) {
        let holder = match place {
            Place::Sent(holder) | Place::Acked(holder) | Place::Reported(holder) => holder,
            Place::Queued | Place::Batched(..) => return,
        };
        if let Some(session) = self.sessions.get_mut(&holder.session).filter(|s| s.is_live()) {
            session.outbox.revokes.push((super::task::lease(task), reason.to_owned()));
            session.line.bell.notify_one();
        }
    }

    fn set_timer(&mut self, at: Instant, due: Due) -> TimerKey {
        if self.timers.earliest().is_none_or(|earliest| at < earliest) {
            self.clock.notify_one();
        }
        self.timers.set(at, due)
    }

    fn sweep_tenant(&mut self, name: &TenantId) {
        let unused = |tenant: &Tenant| {
            tenant.sessions.is_empty() && tenant.load.in_flight == 0 && tenant.load.queued == 0
        };
        if self.tenants.get(name).is_some_and(unused) {
            self.tenants.remove(name);
        }
    }
}

impl Load {
    fn is_full(&self, bounds: &super::Bounds, bytes: usize) -> bool {
        self.queued >= bounds.queued || self.queued_bytes.saturating_add(bytes) > bounds.queued_bytes
    }
}

#[cfg(test)]
mod tests;
