//! The fields of a step.

use super::{code, delay, gate, handler, object::Object, report::Report, retry, texts::Texts};
use crate::program::{Handler, Step};

const DELIVERIES: &[&str] = &["at_least_once", "at_most_once"];

/// Fields that only matter when a worker runs the step.
const WORKER_FIELDS: &[&str] = &["schedule_to_start_timeout", "merge_output", "delivery"];

pub(super) fn read(object: &Object<'_>, texts: &Texts<'_>, report: &mut Report) -> Option<Step> {
    let when = texts.when(object, report);
    let delay = delay::read(object, report);
    let retry = retry::read(object, texts, report);
    let timeout_ms = object.duration("timeout", report);
    let schedule_to_start_ms = object.duration("schedule_to_start_timeout", report);
    let deadline_ms = object.duration("deadline", report);
    let gate = gate::read(object, report);
    let cancellable = object.flag("cancellable", true, report);
    let at_most_once = object.word("delivery", DELIVERIES, report) == 1;
    let merge_output = object.flag("merge_output", true, report);
    let (handler, params) = handler::read(object, texts, report)?;
    let step = Step {
        handler,
        params,
        when,
        delay,
        retry,
        timeout_ms,
        schedule_to_start_ms,
        deadline_ms,
        gate,
        cancellable,
        at_most_once,
        merge_output,
    };
    warn_of_limits(object, &step, report);
    warn_of_worker_fields(object, &step.handler, report);
    Some(step)
}

/// A step that always fails when it is reached.
pub(super) fn always_fails(step: &Step) -> bool {
    step.when.is_none() && matches!(step.handler, Handler::Fail)
}

/// A limit longer than the deadline never acts.
fn warn_of_limits(object: &Object<'_>, step: &Step, report: &mut Report) {
    let Some(deadline) = step.deadline_ms else { return };
    let gate = step.gate.as_ref().and_then(|gate| gate.timeout_ms);
    for (field, limit) in [
        ("timeout", step.timeout_ms),
        ("schedule_to_start_timeout", step.schedule_to_start_ms),
        ("wait_for_input", gate),
    ] {
        if limit.is_some_and(|limit| limit > deadline) {
            let message = format!("{field} is longer than the deadline of {deadline} ms and never acts");
            report.warn(code::TIMEOUT_OVER_DEADLINE, object.at(field), message);
        }
    }
}

fn warn_of_worker_fields(object: &Object<'_>, handler: &Handler, report: &mut Report) {
    if matches!(handler, Handler::Worker(_)) {
        return;
    }
    for field in WORKER_FIELDS {
        if object.optional(field).is_some() {
            let message = format!("{field} does nothing for {}, which no worker runs", handler.name());
            report.warn(code::NO_EFFECT, object.at(field), message);
        }
    }
}
