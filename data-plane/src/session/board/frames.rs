//! What a worker said, and what is sent to it next.

use std::time::{Duration, Instant};

use orch8_engine::HowLost;
use orch8_model::{Fault, Reason, Shard, TenantId};
use orch8_proto::{door, v1};

use super::{
    Board, Door, Due, Place, SessionKey,
    session::{Phase, Sent},
};
use crate::session::TaskRef;

/// Answers in one ResultAcks: with the longest messages still below a frame.
const ACKS_MAX: usize = 256;

/// Leases in one Revoke. They share one reason; a few kilobytes.
const REVOKES_MAX: usize = 256;

impl Board {
    /// A frame arrived: the lease of the session is renewed.
    pub fn heard(&mut self, key: SessionKey, now: Instant) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.heard = now;
        if session.quiet {
            session.quiet = false;
            self.consider(key);
            self.pump();
        }
    }

    /// More work is wanted. Errors: no such lane, no task.
    pub fn credit(&mut self, key: SessionKey, credit: &v1::Credit) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if credit.tasks == 0 {
            return Err(Fault::invalid("credit.tasks", "must be at least 1"));
        }
        let Some(lane) = session.lanes.iter_mut().find(|lane| lane.name == credit.lane) else {
            return Err(Fault::invalid("credit.lane", "is not a lane of hello.lanes"));
        };
        lane.credit.grant(u64::from(credit.tasks), credit.bytes);
        self.consider(key);
        self.pump();
        Ok(())
    }

    /// Everything up to this Dispatch arrived. Errors: a number that was not sent yet.
    pub fn received(&mut self, key: SessionKey, up_to: u64, now: Instant) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if up_to > session.seq {
            let limit = session.seq;
            let says = format!("is {up_to}, but the last Dispatch of this session has number {limit}");
            return Err(Fault::invalid("received.up_to_seq", says).with("limit", limit));
        }
        let arrived = session.unacked.iter().take_while(|sent| sent.seq <= up_to).count();
        let arrived: Vec<Sent> = session.unacked.drain(..arrived).collect();
        let heard_again = session.deaf_since.is_some_and(|seq| seq <= up_to);
        if heard_again {
            session.deaf_since = None;
        }
        for task in arrived.into_iter().flat_map(|sent| sent.tasks) {
            if self.holder_of(task) == Some(key) {
                self.acknowledge(task, now);
            }
        }
        if heard_again {
            self.consider(key);
            self.pump();
        }
        Ok(())
    }

    /// One task shows life. It need not have been acknowledged before.
    pub fn progress(&mut self, key: SessionKey, task: TaskRef, now: Instant) {
        if self.holder_of(task) == Some(key) {
            self.acknowledge(task, now);
        }
    }

    /// Tasks come back that never started; only what this session holds.
    pub fn release(&mut self, key: SessionKey, tasks: impl IntoIterator<Item = TaskRef>, now: Instant) {
        for task in tasks {
            if self.holder_of(task) == Some(key) {
                self.lose(task, HowLost::NeverStarted, now);
            }
        }
        self.pump();
    }

    /// A result is on its way to the owner. Answers the shard of the task, when it is known here and of this tenant.
    pub fn reported(&mut self, tenant: &TenantId, task: TaskRef) -> Option<Shard> {
        let entry = self.tasks.get_mut(&task).filter(|entry| entry.tenant == *tenant)?;
        let shard = entry.shard;
        if let Place::Sent(holder) | Place::Acked(holder) = entry.place {
            entry.place = Place::Reported(holder);
            if let Some(timer) = entry.timer.take() {
                self.timers.cancel(timer);
            }
            self.vacate_at(tenant, holder);
        }
        Some(shard)
    }

    /// Owners answered. The answers go to this session, if its stream still stands.
    pub fn answered(&mut self, key: SessionKey, answers: Vec<(TaskRef, v1::ResultAck)>, now: Instant) {
        let mut acks = Vec::with_capacity(answers.len());
        for (task, ack) in answers {
            self.settle(task, ack.status());
            acks.push(ack);
        }
        self.acks(key, acks, now);
    }

    /// Answers that this node gives by itself.
    pub fn acks(&mut self, key: SessionKey, acks: Vec<v1::ResultAck>, now: Instant) {
        let limit = self.config.unread_answers;
        if let Some(session) = self.sessions.get_mut(&key).filter(|session| session.is_live()) {
            session.outbox.acks.extend(acks);
            session.line.bell.notify_one();
            if session.outbox.acks.len() > limit {
                let why = Fault::new(Reason::Overloaded, format!("over {limit} answers were not read"));
                self.part(key, Some(self.config.grace), Some(why.with("limit", limit)), now);
            }
        }
        self.pump();
    }

    /// The verdict on a result: the task is done with, unless the owner could not judge it.
    pub fn settle(&mut self, task: TaskRef, status: v1::ResultStatus) {
        let Some(entry) = self.tasks.get_mut(&task) else { return };
        let Place::Reported(holder) = entry.place else { return };
        match status {
            v1::ResultStatus::RetryLater | v1::ResultStatus::Unspecified => {
                entry.place = Place::Acked(holder);
                let tenant = entry.tenant.clone();
                self.occupy(&tenant, holder);
            }
            v1::ResultStatus::Committed
            | v1::ResultStatus::Duplicate
            | v1::ResultStatus::StaleLease
            | v1::ResultStatus::TaskCancelled
            | v1::ResultStatus::TooLarge
            | v1::ResultStatus::Invalid => {
                self.remove(task);
            }
        }
    }

    /// The worker wants no new tasks.
    pub fn drain(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if matches!(session.phase, Phase::Opening | Phase::Open) {
            session.phase = Phase::Draining;
            self.unbatch(key);
            self.pump();
        }
    }

    /// The worker has nothing more to say: the stream ends once the outbox is empty.
    pub fn hang_up(&mut self, key: SessionKey) {
        self.drain(key);
        if let Some(session) = self.sessions.get_mut(&key).filter(|session| session.is_live()) {
            session.phase = Phase::Closing;
            session.line.bell.notify_one();
        }
    }

    /// Every session is told to leave; none gets anything new.
    pub fn go_away(&mut self, deadline: Duration, reason: &str) {
        self.door = Door::Leaving;
        let keys: Vec<SessionKey> = self.sessions.keys().copied().collect();
        for key in keys {
            let Some(session) = self.sessions.get_mut(&key).filter(|session| session.is_live()) else {
                continue;
            };
            session.going_away = true;
            session.outbox.go_away = Some((deadline, reason.to_owned()));
            session.line.bell.notify_one();
            self.unbatch(key);
        }
    }

    /// The session is open once this is written.
    pub fn welcome(&mut self, key: SessionKey, welcome: v1::Welcome) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.outbox.welcome = Some(welcome);
            session.line.bell.notify_one();
        }
    }

    /// What to send now. `None`: nothing, or the stream has ended.
    pub fn next_frame(&mut self, key: SessionKey, now: Instant) -> Option<v1::session_response::Frame> {
        use v1::session_response::Frame;
        let session = self.sessions.get_mut(&key).filter(|session| session.is_live())?;
        let outbox = &mut session.outbox;
        if let Some(welcome) = outbox.welcome.take() {
            session.spoke = now;
            if session.phase == Phase::Opening {
                session.phase = Phase::Open;
            }
            self.consider(key);
            self.pump();
            return Some(Frame::Welcome(welcome));
        }
        if session.phase == Phase::Opening {
            return None;
        }
        let frame = if !outbox.revokes.is_empty() {
            Some(Frame::Revoke(take_revoke(&mut outbox.revokes)))
        } else if !outbox.acks.is_empty() {
            let first = outbox.acks.len().min(ACKS_MAX);
            Some(Frame::ResultAcks(v1::ResultAcks { acks: outbox.acks.drain(..first).collect() }))
        } else if let Some((deadline, reason)) = outbox.go_away.take() {
            Some(Frame::GoAway(v1::GoAway { deadline: Some(door::wire_duration(deadline)), reason }))
        } else if let Some(dispatch) = self.take_batch(key, now) {
            Some(Frame::Dispatch(dispatch))
        } else {
            let session = self.sessions.get_mut(&key)?;
            std::mem::take(&mut session.outbox.ping).then_some(Frame::Ping(v1::Ping { at: None }))
        };
        let session = self.sessions.get_mut(&key)?;
        if frame.is_some() {
            session.spoke = now;
            session.outbox.ping = false;
        } else if session.phase == Phase::Closing {
            self.part(key, Some(self.config.grace), None, now);
            self.pump();
        }
        frame
    }

    fn take_batch(&mut self, key: SessionKey, now: Instant) -> Option<v1::Dispatch> {
        let session = self.sessions.get_mut(&key)?;
        let batch = std::mem::take(&mut session.outbox.batch);
        session.outbox.batch_bytes = 0;
        session.outbox.batch_full = false;
        let mut sent = Sent {
            seq: session.seq.saturating_add(1),
            at: now,
            tasks: Vec::with_capacity(batch.len()),
            overdue: false,
        };
        let mut tasks = Vec::with_capacity(batch.len());
        for task in batch {
            // Withdrawn since it was put here: gone, or somebody else's.
            let Some(entry) = self.tasks.get_mut(&task) else { continue };
            let Place::Batched(holder, _) = entry.place else { continue };
            let Some(lane) = session.lanes.get(holder.lane).filter(|_| holder.session == key) else {
                continue;
            };
            let Some(mut wire) = entry.wire.take() else { continue };
            wire.lane.clone_from(&lane.name);
            entry.place = Place::Sent(holder);
            sent.tasks.push(task);
            tasks.push(*wire);
        }
        if tasks.is_empty() {
            return None;
        }
        let seq = sent.seq;
        session.seq = seq;
        session.unacked.push_back(sent);
        self.rearm(key, now);
        self.consider(key);
        self.pump();
        Some(v1::Dispatch { seq, tasks })
    }

    /// The task arrived; its start-to-close time begins.
    pub(super) fn acknowledge(&mut self, task: TaskRef, now: Instant) {
        let Some(entry) = self.tasks.get_mut(&task) else { return };
        let Place::Sent(holder) = entry.place else { return };
        entry.place = Place::Acked(holder);
        if let Some(timer) = entry.timer.take() {
            self.timers.cancel(timer);
        }
        let ends = entry.timeout.and_then(|timeout| now.checked_add(timeout));
        if let Some(at) = ends {
            let timer = self.set_timer(at, Due::Task(task));
            if let Some(entry) = self.tasks.get_mut(&task) {
                entry.timer = Some(timer);
            }
        }
    }

    /// The session that was sent the task and has not reported on it.
    fn holder_of(&self, task: TaskRef) -> Option<SessionKey> {
        match self.tasks.get(&task)?.place {
            Place::Sent(holder) | Place::Acked(holder) => Some(holder.session),
            Place::Queued | Place::Batched(..) | Place::Reported(_) => None,
        }
    }
}

/// The first revokes that share their reason.
fn take_revoke(revokes: &mut Vec<(v1::Lease, String)>) -> v1::Revoke {
    let reason = revokes.first().map(|(_, reason)| reason.clone()).unwrap_or_default();
    let same = revokes.iter().take(REVOKES_MAX).take_while(|(_, why)| *why == reason).count();
    v1::Revoke { leases: revokes.drain(..same).map(|(lease, _)| lease).collect(), reason }
}
