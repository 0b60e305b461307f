//! What follows a commit: acknowledgements, dispatches, alarms. The one place where committed turns become deeds.

use orch8_engine::{Action, Dispatch, Event};
use orch8_model::InstanceId;
use orch8_proto::v1;
use tokio::time::Instant;

use super::{ACCEPTED_MAX, OFFER_AGAIN, Owner, RETRY, now};
use crate::{
    session::{Offered, ReadyTask, TaskRef},
    shard::{
        committer::{Fate, Settled},
        hot::{Cause, Flying, Hot},
    },
    store::TurnAnswer,
};

impl Owner {
    pub(super) fn settle(&mut self, settled: Settled) {
        let Some(hot) = self.hot.get_mut(&settled.instance) else { return };
        if hot.flying.front().is_none_or(|f| f.turn_no != settled.turn_no) {
            return;
        }
        match settled.fate {
            Fate::Answered(TurnAnswer::Done) => {
                if let Some(flying) = hot.flying.pop_front() {
                    self.done(settled.instance, flying);
                }
            }
            Fate::Answered(TurnAnswer::Fenced) => {
                tracing::warn!(shard.id = %self.lease.shard, instance.id = %settled.instance, "turn refused by a fence");
                self.doubt = true;
                self.drop_hot(settled.instance, Instant::now() + RETRY, false);
            }
            Fate::Answered(TurnAnswer::Lost | TurnAnswer::HasMail) => {
                self.drop_hot(settled.instance, Instant::now(), false)
            }
            Fate::Unknown => self.drop_hot(settled.instance, Instant::now() + RETRY, true),
        }
    }

    /// The one place where committed turns become deeds.
    pub(super) fn done(&mut self, id: InstanceId, flying: Flying) {
        self.forget_mail(&flying.cause.mail);
        let started = matches!(flying.cause.event, Event::Start);
        let mut closed = false;
        for answer in flying.answers {
            if answer.status == v1::ResultStatus::Committed {
                self.remember(answer.task);
            }
            answer.send();
        }
        for action in flying.actions {
            match action {
                Action::Dispatch(dispatch) => self.offer(id, *dispatch),
                Action::CancelTask { task, attempt, claim_epoch, reason, .. } => {
                    self.tasks.remove(&task);
                    self.held.remove(&task);
                    self.offers.retain(|offer| offer.dispatch.task != task);
                    self.sessions.withdraw(TaskRef { task, attempt, claim_epoch }, reason);
                }
                Action::Continue => {
                    if let Some(tenant) = self.hot.get(&id).map(|hot| hot.tenant.tenant.clone()) {
                        self.push(tenant, id, Cause::of(Event::Continue));
                    }
                }
                // The alarm below is the truth; the action only tells what to store.
                Action::WakeAt { .. } => {}
                Action::Closed => closed = true,
            }
        }
        self.watchers.changed(id);
        let Some(hot) = self.hot.get_mut(&id) else { return };
        if hot.ready && started {
            hot.ready = false;
            self.ready_taken.remove(&id);
        }
        if closed {
            self.remove_hot(id);
            return;
        }
        self.set_alarm(id);
        self.rest(id);
    }

    pub(super) fn remember(&mut self, task: TaskRef) {
        self.tasks.remove(&task.task);
        self.held.remove(&task.task);
        if self.accepted.insert(task.task, task.claim_epoch).is_none() {
            self.accepted_order.push_back(task.task);
        }
        if self.accepted_order.len() > ACCEPTED_MAX
            && let Some(oldest) = self.accepted_order.pop_front()
        {
            self.accepted.remove(&oldest);
        }
    }

    pub(super) fn offer(&mut self, id: InstanceId, dispatch: Dispatch) {
        let Some(hot) = self.hot.get(&id) else { return };
        self.tasks.insert(dispatch.task, (id, dispatch.node));
        let task = self.ready_task(hot, dispatch);
        self.offers.push(task);
    }

    /// Puts committed tries before the workers, many at a time.
    pub(super) fn offer_all(&mut self) {
        if self.offers.is_empty() || self.offer_again.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.offer_again = None;
        for refused in self.sessions.offer_all(std::mem::take(&mut self.offers)) {
            match refused {
                Offered::Queued => {}
                Offered::Full(task) => {
                    // Withdrawn meanwhile, or still wanted: the table of open tries knows.
                    self.offers.push(task);
                    self.offer_again = Some(Instant::now() + OFFER_AGAIN);
                }
                // This node is leaving; the next owner holds the task open and sends it.
                Offered::Draining(_) => {}
            }
        }
    }

    pub(super) fn ready_task(&self, hot: &Hot, dispatch: Dispatch) -> ReadyTask {
        let birth = hot.instance.birth();
        ReadyTask {
            tenant: hot.tenant.tenant.clone(),
            weight: 1,
            priority: hot.priority,
            instance: birth.instance,
            continuity: birth.continuity,
            sequence: hot.compiled.name.clone(),
            shard: self.lease.shard,
            placement: hot.tenant.placement,
            dispatch: Box::new(dispatch),
        }
    }

    pub(super) fn set_alarm(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get_mut(&id) {
            let wake = hot.instance.next_wake();
            self.wheel.set(id, hot.alarm, wake);
            hot.alarm = wake;
        }
    }

    pub(super) fn wake_due(&mut self) {
        let at = now();
        while let Some(id) = self.wheel.pop_due(at) {
            if let Some(hot) = self.hot.get_mut(&id) {
                hot.alarm = None;
                let tenant = hot.tenant.tenant.clone();
                self.push(tenant, id, Cause::of(Event::Wake));
            }
        }
    }
}
