//! How a session opens: a restart ends the leases of the process before, a resume takes over what still runs.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use orch8_engine::HowLost;
use orch8_model::{Fault, Reason, TenantId, WorkerId};
use orch8_proto::v1;

use super::{
    Board, Door, Due, Holder, Place, SessionKey, Worker,
    session::{Credit, Lane, Line, Offer, Outbox, Phase, Session, Turn},
};
use crate::session::{
    TaskRef,
    hello::Greeting,
    task::{self, Prepared},
};

use super::leave::elsewhere;

/// What became of a delivery that an owner handed to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum TakenOver {
    Yes,
    /// It is in somebody's hands already.
    Known,
    /// Nobody has it now.
    SessionGone,
}

/// What a new session is called. Chosen by the caller: nothing here is random.
pub(in crate::session) struct Ids {
    pub key: SessionKey,
    pub session: String,
    pub token: String,
}

impl Board {
    /// Opens a session that gets nothing before its [`Self::welcome`]. Answers the verdicts on `greeting.running`, in
    /// its order. `reported`: the deliveries whose results came with the Hello.
    ///
    /// Errors: draining, too many sessions of the node or the tenant.
    pub fn open(
        &mut self,
        ids: Ids,
        tenant: &TenantId,
        greeting: &Greeting,
        reported: &[TaskRef],
        line: Arc<Line>,
        now: Instant,
    ) -> Result<Vec<v1::HeldVerdict>, Fault> {
        match self.door {
            Door::Open => {}
            Door::StandingBy => return Err(elsewhere()),
            Door::Leaving => return Err(Fault::new(Reason::Draining, "this node is shutting down")),
        }
        let who = (tenant.clone(), greeting.worker.clone());
        self.end_other_process(&who, &greeting.nonce, now);
        self.admit(tenant)?;

        let key = ids.key;
        let resumed = self.resumed(&who, &greeting.token);
        let worker = self
            .workers
            .entry(who.clone())
            .or_insert_with(|| Worker { nonce: greeting.nonce.clone(), sessions: Vec::new() });
        let earlier = worker.sessions.clone();
        worker.sessions.push(key);
        let mut session = Session {
            id: ids.session,
            token: ids.token,
            tenant: tenant.clone(),
            worker: who.1,
            version: greeting.version.clone(),
            lanes: Vec::with_capacity(greeting.lanes.len()),
            offers: Vec::new(),
            line,
            phase: Phase::Opening,
            turn: Turn::None,
            going_away: false,
            quiet: false,
            deaf_since: None,
            held: HashSet::new(),
            outbox: Outbox::default(),
            unacked: VecDeque::new(),
            seq: 0,
            opened: now,
            heard: now,
            spoke: now,
            timer: None,
        };
        for (name, handlers) in &greeting.lanes {
            for handler in handlers {
                let queue = self.queues.named(tenant, handler.as_str());
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.offered_by += 1;
                }
                session.offers.push(Offer { queue, lane: session.lanes.len(), listed: None });
            }
            let handlers = handlers.iter().map(|handler| handler.as_str().into()).collect();
            session.lanes.push(Lane {
                name: name.clone(),
                handlers,
                credit: Credit::default(),
                in_flight: 0,
            });
        }
        session.timer = now.checked_add(self.config.ping).map(|at| self.set_timer(at, Due::Session(key)));
        self.sessions.insert(key, session);
        self.live += 1;
        self.tenants.entry(tenant.clone()).or_default().sessions.insert(key);

        let held = self.adopt_running(key, &earlier, greeting, now);
        for task in reported {
            self.adopt(key, &earlier, *task, now);
        }
        if let Some(old) = resumed {
            self.replace(old, now);
        }
        self.pump();
        Ok(held)
    }

    /// Another nonce under the same name: that process is gone, and what it held with it.
    fn end_other_process(&mut self, who: &(TenantId, WorkerId), nonce: &str, now: Instant) {
        let Some(worker) = self.workers.get(who).filter(|worker| worker.nonce != nonce) else { return };
        for key in worker.sessions.clone() {
            let why = "another process said Hello under this worker_id; this one is taken to be gone";
            self.part(key, None, Some(Fault::new(Reason::StaleLease, why)), now);
        }
    }

    fn admit(&self, tenant: &TenantId) -> Result<(), Fault> {
        let of_tenant = self.tenants.get(tenant).map_or(0, |tenant| tenant.sessions.len());
        let (reason, limit) = if of_tenant >= self.config.tenant.sessions {
            (Reason::QuotaExceeded, self.config.tenant.sessions)
        } else if self.live >= self.config.node.sessions {
            (Reason::Overloaded, self.config.node.sessions)
        } else {
            return Ok(());
        };
        let whose = if reason == Reason::QuotaExceeded { "the tenant" } else { "this node" };
        Err(Fault::new(reason, format!("{whose} has {limit} worker sessions, the most allowed"))
            .with("limit", limit))
    }

    /// The session that the token is of, if it belongs to the same worker.
    fn resumed(&self, who: &(TenantId, WorkerId), token: &str) -> Option<SessionKey> {
        let of = |key: &&SessionKey| self.sessions.get(key).is_some_and(|session| session.token == token);
        self.workers.get(who)?.sessions.iter().find(of).copied()
    }

    fn adopt_running(
        &mut self,
        key: SessionKey,
        earlier: &[SessionKey],
        greeting: &Greeting,
        now: Instant,
    ) -> Vec<v1::HeldVerdict> {
        let mut verdicts = Vec::with_capacity(greeting.running.len());
        for (lease, _) in &greeting.running {
            let task = task::reference(Some(lease));
            let state = match task.is_some_and(|task| self.adopt(key, earlier, task, now)) {
                true => v1::HeldState::Keep,
                false => v1::HeldState::Drop,
            };
            verdicts.push(v1::HeldVerdict { lease: Some(lease.clone()), state: state.into() });
        }
        verdicts
    }

    /// Moves a delivery from an earlier session of the same process to this one. `false`: its lease is gone.
    fn adopt(&mut self, key: SessionKey, earlier: &[SessionKey], task: TaskRef, now: Instant) -> bool {
        // The worker names it, so it arrived, whether or not the acknowledgement did.
        self.acknowledge(task, now);
        let Some(entry) = self.tasks.get_mut(&task) else { return false };
        let (Place::Acked(old) | Place::Reported(old)) = entry.place else { return false };
        let Some(session) = self.sessions.get_mut(&key).filter(|_| earlier.contains(&old.session)) else {
            return false;
        };
        let new = Holder { session: key, lane: session.lane_of(entry.queue) };
        session.held.insert(task);
        let reported = matches!(entry.place, Place::Reported(_));
        entry.place = if reported { Place::Reported(new) } else { Place::Acked(new) };
        if !reported && let Some(lane) = session.lanes.get_mut(new.lane) {
            lane.in_flight += 1;
        }
        if let Some(session) = self.sessions.get_mut(&old.session) {
            session.held.remove(&task);
            if !reported && let Some(lane) = session.lanes.get_mut(old.lane) {
                lane.in_flight = lane.in_flight.saturating_sub(1);
            }
        }
        // The lane it left may have been full.
        self.consider(old.session);
        true
    }

    /// A delivery that the owner says this worker runs: sent before this node knew of it.
    pub fn take_over(&mut self, key: SessionKey, task: Prepared, now: Instant) -> TakenOver {
        if self.tasks.contains_key(&task.reference) {
            return TakenOver::Known;
        }
        if !self.sessions.get(&key).is_some_and(Session::is_live) {
            return TakenOver::SessionGone;
        }
        // It has started: schedule-to-start is over.
        let (reference, task) = (task.reference, Prepared { start_within: None, ..task });
        self.enter(task, now);
        let Some(entry) = self.tasks.get_mut(&reference) else { return TakenOver::SessionGone };
        let Some(session) = self.sessions.get_mut(&key) else { return TakenOver::SessionGone };
        let holder = Holder { session: key, lane: session.lane_of(entry.queue) };
        entry.wire = None;
        entry.place = Place::Sent(holder);
        session.held.insert(reference);
        if let Some(queue) = self.queues.get_mut(entry.queue) {
            queue.in_flight += 1;
        }
        let tenant = entry.tenant.clone();
        self.occupy(&tenant, holder);
        self.acknowledge(reference, now);
        TakenOver::Yes
    }

    /// The worker says that the stream of this session is gone for it. What it did not name, it does not have:
    /// its own word, so that even a task of `at_most_once` that was never acknowledged is known not to have started.
    fn replace(&mut self, old: SessionKey, now: Instant) {
        let Some(session) = self.sessions.get(&old) else { return };
        if session.is_live() && session.going_away {
            return;
        }
        let unacknowledged: Vec<TaskRef> = session
            .held
            .iter()
            .filter(|task| self.tasks.get(task).is_some_and(|entry| matches!(entry.place, Place::Sent(_))))
            .copied()
            .collect();
        for task in unacknowledged {
            self.lose(task, HowLost::NeverStarted, now);
        }
        let why = "the worker resumed this session on another stream";
        self.part(old, None, Some(Fault::new(Reason::StaleLease, why)), now);
    }
}
