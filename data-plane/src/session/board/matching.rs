//! Tasks meet lanes.
//!
//! An offer of a session is *idle* in the queue of its handler while it has credit and finds nothing there; a new
//! task wakes one of them. A session with work and credit stands once in the round, whichever task woke it, and its
//! turn fills its next Dispatch. While that Dispatch waits for the transport, more tasks may join it: batches grow
//! by themselves when a worker or the machine is busy, and a lone task leaves at once.

use std::cmp::Reverse;

use orch8_model::TenantId;

use super::{
    Board, Entry, Holder, Place, SessionKey,
    queue::{IdleKey, QueueId, Queues, Standing, Waiting},
    session::{Paid, Session, Turn},
};
use crate::session::TaskRef;

impl Board {
    /// Serves the round until nobody in it can be served.
    pub fn pump(&mut self) {
        while self.node.in_flight < self.config.node.in_flight
            && let Some(key) = self.round.pop()
        {
            self.fill(key);
            self.consider(key);
        }
    }

    /// Puts a task into its queue and wakes one who could take it.
    pub(super) fn enqueue(&mut self, task: TaskRef) {
        let Some(entry) = self.tasks.get_mut(&task) else { return };
        let Some(queue) = self.queues.get_mut(entry.queue) else { return };
        entry.place = Place::Queued;
        let (params_bytes, wire_bytes) = (entry.params_bytes, entry.wire_bytes);
        queue.waiting.insert(entry.standing, Waiting { task, params_bytes, wire_bytes });
        let tenant = self.tenants.get_mut(&entry.tenant).map(|tenant| &mut tenant.load);
        for load in [Some(&mut self.node), tenant].into_iter().flatten() {
            load.queued += 1;
            load.queued_bytes = load.queued_bytes.saturating_add(wire_bytes);
        }
        let queue = entry.queue;
        self.wake_one(queue);
    }

    /// Takes a task out of its queue; the one behind it may be cheap enough for somebody idle.
    pub(super) fn unqueue(&mut self, entry: &Entry) {
        if let Some(queue) = self.queues.get_mut(entry.queue) {
            queue.waiting.remove(&entry.standing);
        }
        let tenant = self.tenants.get_mut(&entry.tenant).map(|tenant| &mut tenant.load);
        for load in [Some(&mut self.node), tenant].into_iter().flatten() {
            load.queued = load.queued.saturating_sub(1);
            load.queued_bytes = load.queued_bytes.saturating_sub(entry.wire_bytes);
        }
        self.wake_one(entry.queue);
    }

    /// Credit, room or life came to a session: it enters the round if it finds work, else its offers stand idle.
    pub(super) fn consider(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.turn != Turn::None || !session.takes_tasks(self.config.batch_tasks) {
            return;
        }
        let mut work = false;
        for (at, offer) in session.offers.iter_mut().enumerate() {
            let Some(lane) = session.lanes.get(offer.lane) else { continue };
            let Some(queue) = self.queues.get_mut(offer.queue) else { continue };
            if !lane.is_able(self.config.lane_in_flight) {
                continue;
            }
            if queue.head().is_some_and(|(_, task)| lane.credit.covers(task.params_bytes)) {
                work = true;
                break;
            }
            let bytes = Reverse(lane.credit.bytes());
            match offer.listed {
                Some(listed) if listed.bytes == bytes => continue,
                Some(listed) => queue.idle.remove(&listed),
                None => None,
            };
            let idle = IdleKey { bytes, ticket: self.next_ticket };
            self.next_ticket += 1;
            queue.idle.insert(idle, (key, at));
            offer.listed = Some(idle);
        }
        if work {
            self.enlist(key);
        }
    }

    /// Wakes one idle offer that can pay for the first task of the queue.
    fn wake_one(&mut self, id: QueueId) {
        loop {
            let Some(queue) = self.queues.get_mut(id) else { return };
            let Some((_, head)) = queue.head() else { return };
            let Some((idle, (key, at))) = queue.idle.pop_first() else { return };
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            let takes_tasks = session.turn == Turn::None && session.takes_tasks(self.config.batch_tasks);
            let Some(offer) = session.offers.get_mut(at) else { continue };
            offer.listed = None;
            let Some(lane) = session.lanes.get(offer.lane) else { continue };
            if !takes_tasks || !lane.is_able(self.config.lane_in_flight) {
                continue;
            }
            if lane.credit.covers(head.params_bytes) {
                self.enlist(key);
                return;
            }
            // The richest cannot pay: nobody can. If it became poorer since it was listed, the next may be richer.
            let bytes = Reverse(lane.credit.bytes());
            let relisted = IdleKey { bytes, ticket: idle.ticket };
            queue.idle.insert(relisted, (key, at));
            offer.listed = Some(relisted);
            if bytes == idle.bytes {
                return;
            }
        }
    }

    /// Puts a session into the round, or aside while its tenant is at its bound.
    fn enlist(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Some(tenant) = self.tenants.get_mut(&session.tenant) else { return };
        if tenant.load.in_flight >= self.config.tenant.in_flight {
            session.turn = Turn::Parked;
            tenant.parked.push_back(key);
        } else {
            session.turn = Turn::InRound;
            self.round.push(session.tenant.clone(), tenant.weight, 1, key);
        }
    }

    /// One turn: fills the session's next Dispatch as far as credit, bounds and the batch allow.
    fn fill(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.turn = Turn::None;
        let name = session.tenant.clone();
        let Some(tenant) = self.tenants.get_mut(&name) else { return };
        while session.takes_tasks(self.config.batch_tasks)
            && self.node.in_flight < self.config.node.in_flight
            && tenant.load.in_flight < self.config.tenant.in_flight
        {
            let Some(choice) = best(session, &self.queues, self.config.lane_in_flight) else { break };
            let outbox = &mut session.outbox;
            let bytes = outbox.batch_bytes.saturating_add(choice.task.wire_bytes);
            if !outbox.batch.is_empty() && bytes > self.config.batch_bytes {
                outbox.batch_full = true;
                break;
            }
            let Some(lane) = session.lanes.get_mut(choice.lane) else { break };
            let Some(paid) = lane.credit.spend(choice.task.params_bytes) else { break };
            let Some(entry) = self.tasks.get_mut(&choice.task.task) else { break };
            let Some(queue) = self.queues.get_mut(choice.queue) else { break };
            queue.waiting.remove(&choice.standing);
            queue.in_flight += 1;
            lane.in_flight += 1;
            for load in [&mut self.node, &mut tenant.load] {
                load.in_flight += 1;
                load.queued = load.queued.saturating_sub(1);
                load.queued_bytes = load.queued_bytes.saturating_sub(choice.task.wire_bytes);
            }
            entry.place = Place::Batched(Holder { session: key, lane: choice.lane }, paid);
            session.held.insert(choice.task.task);
            outbox.batch.push(choice.task.task);
            outbox.batch_bytes = bytes;
        }
        if !session.outbox.batch.is_empty() {
            session.line.bell.notify_one();
        }
        self.pass_on(key);
        // A place under the tenant's bound that this session could not use is another's.
        self.unpark(&name);
    }

    /// Wakes others for what this session was woken for and did not take: it may have spent its credit on a better
    /// task, a cheaper task may have come to the front, or it may not take tasks any more.
    fn pass_on(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        let left: Vec<QueueId> = session.offers.iter().map(|offer| offer.queue).collect();
        for queue in left {
            self.wake_one(queue);
        }
    }

    /// The session takes no tasks from here on: what was put into its outbox and not written goes back where it
    /// stood. Say so in its state first, or it is woken for them again.
    pub(super) fn unbatch(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let batch = std::mem::take(&mut session.outbox.batch);
        session.outbox.batch_bytes = 0;
        session.outbox.batch_full = false;
        for task in batch {
            let Some(entry) = self.tasks.get(&task) else { continue };
            let Place::Batched(holder, paid) = entry.place else { continue };
            if holder.session != key {
                continue;
            }
            let (tenant, queue, bytes) = (entry.tenant.clone(), entry.queue, entry.params_bytes);
            self.refund(holder, paid, bytes);
            self.vacate_at(&tenant, holder);
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.in_flight = queue.in_flight.saturating_sub(1);
            }
            if let Some(session) = self.sessions.get_mut(&key) {
                session.held.remove(&task);
            }
            self.enqueue(task);
        }
        self.pass_on(key);
    }

    /// Takes one task out of a Dispatch that was not written; the credit comes back.
    pub(super) fn unpack(&mut self, entry: &Entry, holder: Holder, paid: Paid, task: TaskRef) {
        self.refund(holder, paid, entry.params_bytes);
        if let Some(session) = self.sessions.get_mut(&holder.session) {
            let outbox = &mut session.outbox;
            outbox.batch.retain(|other| *other != task);
            outbox.batch_bytes = outbox.batch_bytes.saturating_sub(entry.wire_bytes);
            outbox.batch_full = false;
        }
    }

    fn refund(&mut self, holder: Holder, paid: Paid, params_bytes: usize) {
        let session = self.sessions.get_mut(&holder.session);
        if let Some(lane) = session.and_then(|session| session.lanes.get_mut(holder.lane)) {
            lane.credit.refund(paid, params_bytes);
        }
    }

    /// The task occupies its lane no more.
    pub(super) fn vacate(&mut self, entry: &Entry, holder: Holder) {
        self.vacate_at(&entry.tenant, holder);
    }

    pub(super) fn vacate_at(&mut self, tenant: &TenantId, holder: Holder) {
        self.node.in_flight = self.node.in_flight.saturating_sub(1);
        let session = self.sessions.get_mut(&holder.session);
        if let Some(lane) = session.and_then(|session| session.lanes.get_mut(holder.lane)) {
            lane.in_flight = lane.in_flight.saturating_sub(1);
        }
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.load.in_flight = tenant.load.in_flight.saturating_sub(1);
        }
        self.unpark(tenant);
        self.consider(holder.session);
    }

    /// While there is room under the tenant's bound, the first parked session that still wants a turn gets one.
    fn unpark(&mut self, name: &TenantId) {
        while let Some(tenant) = self.tenants.get_mut(name)
            && tenant.load.in_flight < self.config.tenant.in_flight
            && let Some(key) = tenant.parked.pop_front()
        {
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            session.turn = Turn::None;
            self.consider(key);
            if self.sessions.get(&key).is_some_and(|session| session.turn != Turn::None) {
                return;
            }
        }
    }

    /// The task occupies its lane again: its result could not be judged yet.
    pub(super) fn occupy(&mut self, tenant: &TenantId, holder: Holder) {
        self.node.in_flight += 1;
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.load.in_flight += 1;
        }
        let session = self.sessions.get_mut(&holder.session);
        if let Some(lane) = session.and_then(|session| session.lanes.get_mut(holder.lane)) {
            lane.in_flight += 1;
        }
    }

    /// Session and queue forget a task that was with a worker.
    pub(super) fn let_go(&mut self, entry: &Entry, holder: Holder, task: TaskRef) {
        if let Some(queue) = self.queues.get_mut(entry.queue) {
            queue.in_flight = queue.in_flight.saturating_sub(1);
        }
        if let Some(session) = self.sessions.get_mut(&holder.session) {
            session.held.remove(&task);
        }
    }
}

/// A task and the lane that takes it.
struct Choice {
    queue: QueueId,
    lane: usize,
    standing: Standing,
    task: Waiting,
}

/// The first task, by priority then age, that an offer of the session can pay for. Looks at the first task of each
/// offer: at most [`super::super::SessionConfig::handlers`].
fn best(session: &Session, queues: &Queues, lane_in_flight: usize) -> Option<Choice> {
    let mut best: Option<Choice> = None;
    for offer in &session.offers {
        let Some((standing, task)) = queues.get(offer.queue).and_then(|queue| queue.head()) else { continue };
        let better = best.as_ref().is_none_or(|best| standing < best.standing);
        let Some(lane) = session.lanes.get(offer.lane) else { continue };
        if better && lane.takes(task.params_bytes, lane_in_flight) {
            best = Some(Choice { queue: offer.queue, lane: offer.lane, standing, task });
        }
    }
    best
}
