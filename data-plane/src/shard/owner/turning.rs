//! From a cause to a turn on its way to the committer. Everything is decided here and nothing is done.

use orch8_engine::{Action, Event, Instance, Turn, Verdict, turn};
use orch8_model::{InstanceId, Millis, json};
use orch8_proto::v1;

use super::{MAIL_TAKEN_MAX, Owner, now};
use crate::{
    shard::{
        committer::Submitted,
        config::ShardConfig,
        hot::{Answer, Cause, Flying, Hot, Report, status_of},
    },
    store::{Closing, Lease, TimerRow, TurnWrite},
};

impl Owner {
    /// Applies one cause. `None`: nothing to commit.
    pub(super) fn turn(&mut self, id: InstanceId, cause: Cause) -> Option<Submitted> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (seed, at, lease) = (self.seed, now(), self.lease);
        let Some(hot) = self.hot.get_mut(&id) else {
            // Dropped since it was queued: what was mail is still in the store, the rest waits until it is read again.
            self.forget_mail(&cause.mail);
            self.mail_after = 0;
            if let Some((_, dropped)) = self.again.get_mut(&id) {
                if cause.mail.is_empty() {
                    dropped.causes.push(cause);
                }
            } else if let Some(report) = cause.report {
                self.answer_unknown(report);
            }
            return None;
        };
        hot.used += 1;
        hot.queued = hot.queued.saturating_sub(1);
        self.horizon = self.horizon.max(at.plus(far_of(&self.config)));
        let (turn_no, weight) = (hot.instance.next_turn(), hot.instance.weight());
        let Turn { record, actions, verdict } =
            turn(&hot.compiled.program, &mut hot.instance, cause.event.clone(), at, seed);
        self.bytes = self.bytes.saturating_sub(weight) + hot.instance.weight();
        let Cause { event, mail, report } = cause;

        let Some(record) = record else {
            self.nothing_changed(id, mail, report, verdict);
            return None;
        };
        let decided = Decided {
            turn_no,
            at,
            body: json_of(&record),
            actions: &actions,
            mail: &mail,
            starts: matches!(event, Event::Start),
        };
        let write = write_of(hot, id, lease, decided, &self.config);
        let mut flying =
            Flying { turn_no, actions, answers: Vec::new(), cause: Cause { event, mail, report: None } };
        if let (Some(report), Some(verdict)) = (report, verdict) {
            flying.answers.push(Answer {
                task: report.task,
                status: status_of(verdict),
                answer: report.answer,
            });
        }
        hot.flying.push_back(flying);
        Some(Submitted { lease, turn: write })
    }

    /// An event that changed nothing. Its answer still waits for turns of the same instance that are on their way.
    pub(super) fn nothing_changed(
        &mut self,
        id: InstanceId,
        mail: Vec<i64>,
        report: Option<Report>,
        verdict: Option<Verdict>,
    ) {
        self.forget_mail(&mail);
        self.answer_after_flying(id, report, verdict);
        // No commit follows that would set its alarm and let it rest.
        if self.hot.get(&id).is_some_and(|hot| hot.flying.is_empty()) {
            self.set_alarm(id);
            self.rest(id);
        }
    }

    fn answer_after_flying(&mut self, id: InstanceId, report: Option<Report>, verdict: Option<Verdict>) {
        let Some(report) = report else { return };
        let duplicate = self.accepted.get(&report.task.task) == Some(&report.task.claim_epoch);
        let status = match verdict {
            Some(verdict) if !duplicate => status_of(verdict),
            Some(_) | None => v1::ResultStatus::Duplicate,
        };
        let answer = Answer { task: report.task, status, answer: report.answer };
        match self.hot.get_mut(&id).and_then(|hot| hot.flying.back_mut()) {
            Some(last) => last.answers.push(answer),
            None => answer.send(),
        }
    }

    pub(super) fn forget_mail(&mut self, mail: &[i64]) {
        for seq in mail {
            self.mail_taken.remove(seq);
        }
        if self.mail_waits && self.mail_taken.len() < MAIL_TAKEN_MAX / 2 {
            self.mail_waits = false;
            self.look = true;
        }
    }
}

fn json_of(record: &orch8_engine::TurnRecord) -> String {
    serde_json::to_value(record).map(|v| json::print(&v)).unwrap_or_default()
}

/// How far away a timer is stored, in milliseconds.
pub(super) fn far_of(config: &ShardConfig) -> i64 {
    i64::try_from(config.far.as_millis()).unwrap_or(i64::MAX)
}

/// A turn as the engine decided it.
struct Decided<'a> {
    turn_no: u64,
    at: Millis,
    /// JSON text of its record.
    body: String,
    actions: &'a [Action],
    mail: &'a [i64],
    /// It is the start itself.
    starts: bool,
}

fn write_of(
    hot: &mut Hot,
    instance: InstanceId,
    lease: Lease,
    decided: Decided<'_>,
    config: &ShardConfig,
) -> TurnWrite {
    let Decided { turn_no, at, body, actions, mail, starts } = decided;
    let far = far_of(config);
    let (status, closed) = (hot.instance.status(), hot.instance.status().is_terminal());
    let snapshot = snapshot_due(hot, body.len(), closed, config).then(|| hot.instance.snapshot());
    if snapshot.is_some() {
        hot.tail = (0, 0);
    }
    let timers = actions.iter().filter_map(|action| match action {
        Action::WakeAt { node, at: due } if *due > at.plus(far) => {
            Some(TimerRow { instance, node: node.0, due_at: *due })
        }
        Action::WakeAt { .. }
        | Action::Dispatch(_)
        | Action::CancelTask { .. }
        | Action::Continue
        | Action::Closed => None,
    });
    TurnWrite {
        shard: lease.shard,
        tenant: hot.tenant.clone(),
        instance,
        turn_no,
        at,
        body,
        snapshot,
        status: (status != hot.stored).then(|| {
            hot.stored = status;
            status
        }),
        closing: closed.then(|| Closing { closed_at: at, error: error_of(&hot.instance) }),
        mail: mail.to_vec(),
        timers: timers.collect(),
        // A message may come before the start; the ready row stays until the start itself, or the end.
        ready: hot.ready && (starts || closed),
    }
}

fn snapshot_due(hot: &mut Hot, bytes: usize, closed: bool, config: &ShardConfig) -> bool {
    hot.tail.0 += 1;
    hot.tail.1 += bytes;
    !closed && (hot.tail.0 >= config.snapshot_turns || hot.tail.1 >= config.snapshot_bytes)
}

fn error_of(instance: &Instance) -> Option<String> {
    instance.error().map(|error| json::print(&error.to_value()))
}
