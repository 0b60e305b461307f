//! How sessions end, and what becomes of what they held.
//!
//! | the task was | stream broke | lease passed, or the process restarted |
//! |---|---|---|
//! | not written | back into the queue where it stood | the same |
//! | written, not acknowledged, `at_least_once` | never started | never started |
//! | written, not acknowledged, `at_most_once` | kept for the grace, then lease ended | lease ended |
//! | acknowledged | kept for the grace, then lease ended | lease ended |
//! | reported | kept for the grace: the owner's answer decides | lease ended; the owner knows better |

use std::time::{Duration, Instant};

use orch8_engine::HowLost;
use orch8_model::{Fault, Reason, Shard, TenantId};

use super::{
    Board, Door, Due, Entry, Place, SessionKey,
    session::{Outbox, Phase, Session},
};
use crate::session::{SessionConfig, TaskRef};

/// Wait before the node is asked again: about as long as it takes to ask the others.
const ELSEWHERE: Duration = Duration::from_millis(200);

impl Board {
    /// The stream of a session is gone, or is to go: `why` is what the worker reads. With a grace, what the worker
    /// acknowledged keeps its lease for so long.
    pub fn part(&mut self, key: SessionKey, grace: Option<Duration>, why: Option<Fault>, now: Instant) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.is_live() {
            let until = grace.and_then(|grace| now.checked_add(grace)).unwrap_or(now);
            session.phase = Phase::Broken { until };
            session.line.end(why);
            self.unbatch(key);
            self.live -= 1;
            self.forget_stream(key);
            self.lose_where(key, now, |entry| match entry {
                Place::Sent(_) => Some(HowLost::NeverStarted),
                Place::Queued | Place::Batched(..) | Place::Acked(_) | Place::Reported(_) => None,
            });
        } else if grace.is_some() {
            return;
        }
        let empty = self.sessions.get(&key).is_some_and(|session| session.held.is_empty());
        if grace.is_none() || empty {
            self.give_up(key, now);
        } else {
            self.rearm(key, now);
        }
    }

    /// A cut stream, as its reader sees it.
    pub fn cut(&mut self, key: SessionKey, why: Option<Fault>, now: Instant) {
        if self.sessions.get(&key).is_some_and(Session::is_live) {
            self.part(key, Some(self.config.grace), why, now);
            self.pump();
        }
    }

    /// Ends every session at once: nobody waits any longer.
    pub fn end_all(&mut self, now: Instant) {
        let keys: Vec<SessionKey> = self.sessions.keys().copied().collect();
        for key in keys {
            self.part(key, None, Some(Fault::new(Reason::Draining, "this node is shutting down")), now);
        }
    }

    /// This node owns no shard of the store any more: every stream ends, so that the workers find the node that does,
    /// and what waited or ran here is forgotten, for that node to offer or to adopt.
    pub fn stand_by(&mut self, now: Instant) {
        if self.door == Door::Open {
            self.door = Door::StandingBy;
        }
        let keys: Vec<SessionKey> = self.sessions.keys().copied().collect();
        for key in keys {
            self.part(key, None, Some(elsewhere()), now);
        }
        let tasks: Vec<TaskRef> = self.tasks.keys().copied().collect();
        for task in tasks {
            self.remove(task);
        }
        // The owners these were for are gone.
        self.posts.clear();
    }

    /// The shard is another owner's: what was not sent yet is not sent.
    pub fn forget(&mut self, shard: Shard) {
        let unsent = |entry: &Entry| match entry.place {
            Place::Queued | Place::Batched(..) => entry.shard == shard,
            Place::Sent(_) | Place::Acked(_) | Place::Reported(_) => false,
        };
        let tasks: Vec<TaskRef> =
            self.tasks.iter().filter(|(_, entry)| unsent(entry)).map(|(task, _)| *task).collect();
        for task in tasks {
            self.remove(task);
        }
        self.pump();
    }

    /// A tenant is placed in another store: the streams of its workers end, so that they come back and find it.
    pub fn send_away(&mut self, tenant: &TenantId, now: Instant) {
        let keys: Vec<SessionKey> =
            self.tenants.get(tenant).into_iter().flat_map(|tenant| tenant.sessions.iter().copied()).collect();
        for key in keys {
            self.part(key, None, Some(placed_elsewhere()), now);
        }
        self.pump();
    }

    /// This node owns shards of the store.
    pub fn stand_up(&mut self) {
        if self.door == Door::StandingBy {
            self.door = Door::Open;
        }
    }

    /// A session's timer fired: what is due?
    pub(super) fn check_session(&mut self, key: SessionKey, now: Instant) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.timer = None;
        let silent = now.saturating_duration_since(session.heard);
        match session.phase {
            Phase::Broken { until } if until <= now => return self.give_up(key, now),
            Phase::Broken { .. } => return self.rearm(key, now),
            Phase::Opening | Phase::Open | Phase::Draining | Phase::Closing => {}
        }
        if silent >= self.config.lease {
            let lease = self.config.lease.as_millis();
            let why = format!("no frame for {lease} ms: the lease of this session has passed");
            return self.part(key, None, Some(Fault::new(Reason::StaleLease, why)), now);
        }
        if now.saturating_duration_since(session.spoke) >= self.config.ping {
            session.outbox.ping = true;
            session.line.bell.notify_one();
        }
        if !session.quiet && silent >= quiet_after(&self.config) {
            session.quiet = true;
            self.unbatch(key);
        }
        self.check_acknowledgements(key, now);
        self.rearm(key, now);
    }

    /// What was not acknowledged in time never arrived; `at_most_once` may have, and waits for the worker's word.
    fn check_acknowledgements(&mut self, key: SessionKey, now: Instant) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let mut missed: Vec<TaskRef> = Vec::new();
        for sent in session.unacked.iter_mut().filter(|sent| !sent.overdue) {
            if now.saturating_duration_since(sent.at) < self.config.ack {
                break;
            }
            sent.overdue = true;
            session.deaf_since = Some(sent.seq);
            missed.extend(&sent.tasks);
        }
        if missed.is_empty() {
            return;
        }
        self.unbatch(key);
        for task in missed {
            let Some(entry) = self.tasks.get(&task) else { continue };
            let place = entry.place;
            let Place::Sent(holder) = place else { continue };
            if holder.session == key && !entry.at_most_once {
                self.lose(task, HowLost::NeverStarted, now);
                self.revoke(place, task, "it was not acknowledged in time and is sent again");
            }
        }
    }

    /// Sets the session's timer to when something is due next.
    pub(super) fn rearm(&mut self, key: SessionKey, now: Instant) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Some(at) = next_check(session, &self.config, now) else { return };
        if session.timer.is_some_and(|(armed, _)| armed <= at) {
            return;
        }
        if let Some(later) = session.timer.take() {
            self.timers.cancel(later);
        }
        let timer = self.set_timer(at, Due::Session(key));
        if let Some(session) = self.sessions.get_mut(&key) {
            session.timer = Some(timer);
        }
    }

    /// Nothing is offered or sent on this stream any more.
    fn forget_stream(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.outbox = Outbox::default();
        session.unacked.clear();
        let offers = std::mem::take(&mut session.offers);
        if let Some(tenant) = self.tenants.get_mut(&session.tenant) {
            tenant.sessions.remove(&key);
        }
        for offer in offers {
            if let Some(queue) = self.queues.get_mut(offer.queue) {
                queue.offered_by = queue.offered_by.saturating_sub(1);
                if let Some(listed) = offer.listed {
                    queue.idle.remove(&listed);
                }
            }
            self.queues.sweep(offer.queue);
        }
    }

    /// What a session held is lost, and the session forgotten.
    fn give_up(&mut self, key: SessionKey, now: Instant) {
        self.lose_where(key, now, |place| match place {
            Place::Sent(_) | Place::Acked(_) | Place::Reported(_) => Some(HowLost::LeaseEnded),
            Place::Queued | Place::Batched(..) => None,
        });
        let Some(session) = self.sessions.remove(&key) else { return };
        if let Some(timer) = session.timer {
            self.timers.cancel(timer);
        }
        let who = (session.tenant, session.worker);
        if let Some(worker) = self.workers.get_mut(&who) {
            worker.sessions.retain(|other| *other != key);
            if worker.sessions.is_empty() {
                self.workers.remove(&who);
            }
        }
        self.sweep_tenant(&who.0);
    }

    /// Loses what the session holds, where `how` says so; of `at_most_once` never by "never started".
    fn lose_where(&mut self, key: SessionKey, now: Instant, how: impl Fn(Place) -> Option<HowLost>) {
        let Some(session) = self.sessions.get(&key) else { return };
        let held: Vec<TaskRef> = session.held.iter().copied().collect();
        for task in held {
            let Some(entry) = self.tasks.get(&task) else { continue };
            match how(entry.place) {
                Some(HowLost::NeverStarted) if entry.at_most_once => {}
                Some(how) => self.lose(task, how, now),
                None => {}
            }
        }
    }
}

/// What a worker reads that has come to a node without the shards of its tenant.
pub(super) fn elsewhere() -> Fault {
    let text = "this node stands by: another one owns the shards of this tenant's store; give the worker the addresses of all nodes (FleetService.FindEndpoints names the owner)";
    Fault::new(Reason::ShardMoving, text).retry_after(ELSEWHERE)
}

fn placed_elsewhere() -> Fault {
    let text = "this tenant is placed in another store; open the session again";
    Fault::new(Reason::ShardMoving, text).retry_after(ELSEWHERE)
}

fn quiet_after(config: &SessionConfig) -> Duration {
    config.ping.saturating_mul(config.missed_pings)
}

/// When a session has to be looked at again. `None`: never.
fn next_check(session: &Session, config: &SessionConfig, now: Instant) -> Option<Instant> {
    if let Phase::Broken { until } = session.phase {
        return Some(until);
    }
    // A ping that waits in the outbox is not due again at once.
    let spoke = if session.outbox.ping { now } else { session.spoke };
    let ping = spoke.checked_add(config.ping);
    let quiet = (!session.quiet).then(|| session.heard.checked_add(quiet_after(config))).flatten();
    let lease = session.heard.checked_add(config.lease);
    let overdue = session.unacked.iter().find(|sent| !sent.overdue);
    let ack = overdue.and_then(|sent| sent.at.checked_add(config.ack));
    [ping, quiet, lease, ack].into_iter().flatten().min()
}
