//! The one place where a try ends: judged, then completed, tried again, or failed for good.

use std::time::Duration;

use orch8_model::{
    ClaimEpoch, StepError, json,
    limits::{NAME_BYTES_MAX, OUTPUT_BYTES_MAX},
};
use serde_json::Value;

use super::{
    Run,
    depth::depth,
    gate::cut,
    view::{Place, View},
};
use crate::{
    event::{HowLost, Outcome, Verdict},
    instance::{Delivery, NodeNo, Phase},
    program::{Handler, Retry},
    record::{Change, How},
    retry::backoff_ms,
};

/// Deliveries of a try that has no retry policy and whose leases keep ending.
const DELIVERIES_MAX: u32 = 6;
/// Nesting of an error's details, so that the error fits into data wherever it is shown.
const DETAILS_DEPTH_MAX: usize = 32;

impl Run<'_> {
    /// A worker reported.
    pub(super) fn reported(
        &mut self,
        no: NodeNo,
        attempt: u32,
        claim_epoch: ClaimEpoch,
        outcome: Outcome,
    ) -> Verdict {
        if self.instance.state.cancelled.contains(&Delivery(no, attempt, claim_epoch)) {
            return Verdict::TaskCancelled;
        }
        let Some(step) = self.step_node(no) else { return Verdict::StaleLease };
        if (step.attempt, step.claim_epoch()) != (attempt, claim_epoch) || step.sends == 0 {
            return Verdict::StaleLease;
        }
        match (step.phase, outcome) {
            (Phase::Sent | Phase::Parked | Phase::Backoff { lost: true, .. }, Outcome::Completed(output)) => {
                self.completed(no, output, true)
            }
            (
                Phase::Sent | Phase::Parked,
                Outcome::Failed { code, message, details, retryable, retry_after },
            ) => {
                let error = error(&code, &message, retryable, details);
                self.failed(no, error, retry_after, false);
                Verdict::Committed
            }
            (
                Phase::Ready
                | Phase::Delay(_)
                | Phase::Gate(_)
                | Phase::Queued
                | Phase::Sleep { .. }
                | Phase::Backoff { .. },
                Outcome::Completed(_) | Outcome::Failed { .. },
            ) => Verdict::StaleLease,
        }
    }

    /// A try's outcome will not come. Stale news is no news.
    pub(super) fn lost(&mut self, no: NodeNo, attempt: u32, claim_epoch: ClaimEpoch, how: HowLost) {
        let (Some(state), Some(step)) = (self.step_node(no), self.step_of(no)) else { return };
        let newest = (state.attempt, state.claim_epoch()) == (attempt, claim_epoch);
        if !newest || state.phase != Phase::Sent {
            return;
        }
        let deliveries = state.leases_lost + 1;
        let lease_ended =
            || error("WORKER_LOST", "the worker's lease ended without a report", true, Value::Null);
        match how {
            HowLost::NeverStarted => self.resend = Some(no),
            HowLost::ScheduleToStart => {
                let message =
                    format!("no worker took it within {} ms", step.schedule_to_start_ms.unwrap_or(0));
                self.withdraw(no, "schedule_to_start_timeout");
                self.refuse_step(no, "SCHEDULE_TO_START_TIMEOUT", &message);
            }
            HowLost::StartToClose => {
                self.withdraw(no, "timeout");
                if step.at_most_once {
                    self.commit(Change::Park(no));
                } else {
                    self.timed_out(no);
                }
            }
            HowLost::LeaseEnded if step.at_most_once => self.commit(Change::Park(no)),
            HowLost::LeaseEnded if step.retry.is_none() && deliveries < DELIVERIES_MAX => {
                self.commit(Change::LeaseLost(no));
            }
            HowLost::LeaseEnded => self.failed(no, lease_ended(), None, true),
        }
    }

    /// `timeout` of a try has passed.
    pub(super) fn timed_out(&mut self, no: NodeNo) {
        let limit = self.step_of(no).and_then(|step| step.timeout_ms).unwrap_or(0);
        let error = error("TIMEOUT", &format!("no outcome within {limit} ms"), true, Value::Null);
        self.failed(no, error, None, true);
    }

    /// A handler has an output. `from_worker`: its keys may be merged into data.
    pub(super) fn completed(&mut self, no: NodeNo, output: Value, from_worker: bool) -> Verdict {
        if let Err(problem) = json::check_value(&output) {
            let message = format!("{} of the output {}", problem.pointer, problem.message);
            self.refuse_step(no, "INVALID_OUTPUT", &message);
            return Verdict::Invalid;
        }
        let bytes = json::size(&output);
        if bytes > OUTPUT_BYTES_MAX {
            let message = format!("the output has {bytes} bytes, at most {OUTPUT_BYTES_MAX} are allowed");
            self.refuse_step(no, "OUTPUT_TOO_LARGE", &message);
            return Verdict::TooLarge;
        }
        let merge = from_worker && self.merges(no, &output);
        self.end(no, How::Completed, Some(output), merge);
        Verdict::Committed
    }

    /// Whether an output is merged into data: it is an object, the step wants it, and the context has room for all of
    /// it.
    fn merges(&mut self, no: NodeNo, output: &Value) -> bool {
        let Some(step) = self.step_of(no) else { return false };
        let (true, Handler::Worker(_), Value::Object(output)) = (step.merge_output, &step.handler, output)
        else {
            return false;
        };
        let mut patch = output.iter().filter(|(key, _)| !key.starts_with('_')).peekable();
        if patch.peek().is_none() {
            return false;
        }
        let bytes = self.instance.state.data.bytes_after(patch);
        match self.over_context_limit(bytes) {
            None => true,
            Some(message) => {
                self.note("MERGE_SKIPPED", message);
                false
            }
        }
    }

    /// A try failed. `lost`: nobody reported it.
    pub(super) fn failed(
        &mut self,
        no: NodeNo,
        mut error: StepError,
        retry_after: Option<Duration>,
        lost: bool,
    ) {
        let (Some(block), Some(state)) = (self.block_of(no), self.step_node(no)) else { return };
        error.attempt = state.attempt;
        error.source = "step".to_owned();
        error.block_id = block.id.to_string();
        error.leaf_block = block.id.to_string();
        let attempt = state.attempt;
        let policy = block.kind.step().and_then(|step| step.retry.as_ref());
        let error = Box::new(error);
        match policy.filter(|policy| self.tries_again(no, policy, attempt, &error)) {
            None => self.end(no, How::Failed(error), None, false),
            Some(policy) => {
                let after = retry_after.map(|after| i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
                let wait = backoff_ms(policy, attempt, self.rng.unit(), after);
                let until = self.now.plus(wait);
                self.set_timer(no, Change::Backoff { node: no, until, lost, error });
            }
        }
    }

    /// Whether the policy has another try for this failure.
    fn tries_again(&self, no: NodeNo, policy: &Retry, attempt: u32, error: &StepError) -> bool {
        let final_code = |code: &str| policy.non_retryable_codes.iter().any(|listed| listed == code);
        let listed = ["error_code", "code", "status"].into_iter().filter_map(|key| error.details.get(key));
        if !error.retryable
            || attempt.saturating_add(1) >= policy.max_attempts
            || final_code(&error.code)
            || listed.map(as_text).any(|code| final_code(&code))
        {
            return false;
        }
        let Some(retry_if) = &policy.retry_if else { return true };
        let shown = error.to_value();
        let view = View::new(self.program, self.instance, Place::node(no), self.now, &self.rng, Some(&shown));
        retry_if.holds(&view).unwrap_or(false)
    }

    /// The whole activation took longer than `deadline`.
    pub(super) fn deadline_breached(&mut self, no: NodeNo) {
        let (Some(state), Some(step)) = (self.step_node(no), self.step_of(no)) else { return };
        let (limit, elapsed) = (step.deadline_ms.unwrap_or(0), self.now.since(state.ready_at));
        let attempt = state.attempt;
        let row = serde_json::json!({"_error": "sla_deadline_breached", "_deadline_ms": limit, "_elapsed_ms": elapsed});
        let Some(block) = self.block_of(no) else { return };
        let mut error = super::own_error(block, "DEADLINE", &format!("not done within {limit} ms"));
        error.attempt = attempt;
        self.withdraw(no, "deadline");
        self.end(no, How::Failed(error), Some(row), false);
    }
}

/// An error as a handler gave it, made fit to be stored.
pub(super) fn error(code: &str, message: &str, retryable: bool, details: Value) -> StepError {
    let code = if code.is_empty() { "FAILED" } else { code };
    let code = cut(code, NAME_BYTES_MAX).replace('\0', "\u{fffd}");
    let fit = json::check_value(&details).is_ok() && depth(&details) <= DETAILS_DEPTH_MAX;
    let details = if fit { details } else { serde_json::json!({ "details_omitted": json::size(&details) }) };
    StepError::new(&code, &message.replace('\0', "\u{fffd}"), retryable, details)
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
