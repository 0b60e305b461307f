//! The door of results: a `TaskResult` becomes a [`Report`] for the owner, or an answer that says why it cannot.
//!
//! What a handler returned and what breaks the rules is not a broken stream but a failed step: the owner gets a
//! permanent failure instead of the value, and the worker reads `INVALID` or `TOO_LARGE` once that is committed.

use std::time::Duration;

use orch8_engine::Outcome;
use orch8_model::{
    Shard,
    limits::{ERROR_DETAILS_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX, NAME_BYTES_MAX, OUTPUT_BYTES_MAX},
};
use orch8_proto::{door, v1};
use serde_json::{Value, json};

use super::{TaskRef, task};

/// A worker may ask for this much patience, and no more.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The code of a failure that names none.
const CODE_DEFAULT: &str = "FAILED";

/// What a worker said of one task, within all limits.
#[derive(Debug)]
pub(super) struct Report {
    pub task: TaskRef,
    pub lease: v1::Lease,
    /// Where the worker says the owner is; the board knows better when it knows the task.
    pub shard: Shard,
    pub outcome: Outcome,
    /// Said instead of COMMITTED, when the outcome is not the one the worker sent.
    pub instead: Option<(v1::ResultStatus, String)>,
}

impl Report {
    /// Errors: the answer to a result that names no task, so that nobody can be told of it.
    pub fn parse(result: v1::TaskResult) -> Result<Self, v1::ResultAck> {
        let lease = result.lease.clone().unwrap_or_default();
        let Some(task) = task::reference(result.lease.as_ref()) else {
            return Err(unplaceable(lease, "lease must name a task, an attempt and a claim epoch"));
        };
        let Some(route) = result.route else { return Err(unplaceable(lease, "route is required")) };
        let Ok(shard) = u16::try_from(route.shard) else {
            return Err(unplaceable(lease, "route.shard must be below 65,536"));
        };
        let (outcome, instead) = match outcome(result.outcome) {
            Ok(outcome) => (outcome, None),
            Err(Refused { status, code, message }) => {
                let failed = Outcome::Failed {
                    code: code.to_owned(),
                    message: message.clone(),
                    details: Value::Null,
                    retryable: false,
                    retry_after: None,
                };
                (failed, Some((status, message)))
            }
        };
        Ok(Self { task, lease, shard: Shard(shard), outcome, instead })
    }
}

/// The answer to one result, from this node.
pub(super) fn ack(lease: v1::Lease, status: v1::ResultStatus, message: impl Into<String>) -> v1::ResultAck {
    v1::ResultAck { lease: Some(lease), status: status.into(), message: message.into() }
}

fn unplaceable(lease: v1::Lease, message: &str) -> v1::ResultAck {
    ack(lease, v1::ResultStatus::Invalid, message)
}

/// A value that fails the step instead of completing it.
struct Refused {
    status: v1::ResultStatus,
    code: &'static str,
    message: String,
}

impl Refused {
    fn invalid(message: String) -> Self {
        Self { status: v1::ResultStatus::Invalid, code: "INVALID_OUTPUT", message: cut(message) }
    }
}

fn outcome(outcome: Option<v1::task_result::Outcome>) -> Result<Outcome, Refused> {
    use v1::task_result::Outcome as Wire;
    match outcome {
        Some(Wire::Completed(payload)) => output(payload).map(Outcome::Completed),
        Some(Wire::Failed(failure)) => failed(failure),
        None => Err(Refused::invalid("outcome is required: completed or failed".to_owned())),
    }
}

fn output(payload: v1::Payload) -> Result<Value, Refused> {
    let bytes = payload.data.len();
    if bytes > OUTPUT_BYTES_MAX {
        return Err(Refused {
            status: v1::ResultStatus::TooLarge,
            code: "OUTPUT_TOO_LARGE",
            message: format!("output has {bytes} bytes, at most {OUTPUT_BYTES_MAX} are allowed"),
        });
    }
    json_rules("output", payload)
}

fn failed(failure: v1::TaskFailure) -> Result<Outcome, Refused> {
    if failure.code.len() > NAME_BYTES_MAX || failure.code.chars().any(char::is_control) {
        let rule = format!("code must be at most {NAME_BYTES_MAX} bytes without control characters");
        return Err(Refused::invalid(rule));
    }
    let code = if failure.code.is_empty() { CODE_DEFAULT.to_owned() } else { failure.code };
    Ok(Outcome::Failed {
        code,
        // The message will be part of a JSON value, which has no U+0000.
        message: cut(failure.message.replace('\0', "\u{fffd}")),
        details: match failure.details {
            None => Value::Null,
            Some(details) if details.data.is_empty() => Value::Null,
            Some(details) if details.data.len() > ERROR_DETAILS_BYTES_MAX => {
                json!({ "details_omitted": details.data.len() })
            }
            Some(details) => json_rules("details", details)?,
        },
        retryable: failure.retryable,
        retry_after: door::duration("retry_after", failure.retry_after)
            .ok()
            .flatten()
            .map(|after| after.min(RETRY_AFTER_MAX)),
    })
}

fn json_rules(what: &str, payload: v1::Payload) -> Result<Value, Refused> {
    let v1::Payload { data, content_type } = payload;
    if !content_type.is_empty() && content_type != door::JSON {
        return Err(Refused::invalid(format!("{what} must have content type {} or none", door::JSON)));
    }
    orch8_model::json::parse(&data).map_err(|problem| {
        let place = if problem.pointer.is_empty() { "the root" } else { problem.pointer.as_str() };
        let reason = problem.reason.as_str();
        Refused::invalid(format!(
            "{what} at {place} (byte {}): {reason}: {}",
            problem.offset, problem.message
        ))
    })
}

/// Within the limit of messages; what was longer ends in `…`.
fn cut(mut message: String) -> String {
    if message.len() > ERROR_MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(ERROR_MESSAGE_BYTES_MAX - '…'.len_utf8()));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orch8_model::{ClaimEpoch, TaskId};

    use super::*;

    fn wire(outcome: Option<v1::task_result::Outcome>) -> v1::TaskResult {
        let epoch = ClaimEpoch::new(3).expect("small");
        let reference = TaskRef { task: TaskId(uuid::Uuid::nil()), attempt: 1, claim_epoch: epoch };
        v1::TaskResult {
            lease: Some(task::lease(reference)),
            route: Some(v1::Route { shard: 7, placement_epoch: 1 }),
            outcome,
        }
    }

    fn completed(data: Vec<u8>, content_type: &str) -> v1::TaskResult {
        let payload = v1::Payload { data: Bytes::from(data), content_type: content_type.to_owned() };
        wire(Some(v1::task_result::Outcome::Completed(payload)))
    }

    fn failure(failure: v1::TaskFailure) -> v1::TaskResult {
        wire(Some(v1::task_result::Outcome::Failed(failure)))
    }

    #[test]
    fn a_value_that_breaks_the_rules_fails_the_step_for_good() {
        let quoted = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2)).into_bytes();
        let cases = [
            (completed(b"{".to_vec(), ""), v1::ResultStatus::Invalid, "INVALID_OUTPUT"),
            (completed(b"{}".to_vec(), "text/html"), v1::ResultStatus::Invalid, "INVALID_OUTPUT"),
            (completed(quoted(OUTPUT_BYTES_MAX + 1), ""), v1::ResultStatus::TooLarge, "OUTPUT_TOO_LARGE"),
            (wire(None), v1::ResultStatus::Invalid, "INVALID_OUTPUT"),
            (
                failure(v1::TaskFailure { code: "x".repeat(257), ..Default::default() }),
                v1::ResultStatus::Invalid,
                "INVALID_OUTPUT",
            ),
        ];
        for (result, status, expected) in cases {
            let report = Report::parse(result).expect("names a task");
            assert_eq!(report.instead.as_ref().map(|(status, _)| *status), Some(status));
            let Outcome::Failed { code, retryable, .. } = report.outcome else { panic!("{expected}") };
            assert_eq!((code.as_str(), retryable), (expected, false));
        }
        let at_limit = Report::parse(completed(quoted(OUTPUT_BYTES_MAX), "")).expect("names a task");
        assert!(matches!(at_limit.outcome, Outcome::Completed(_)));
    }

    #[test]
    fn a_too_large_output_names_both_numbers() {
        let report = Report::parse(completed(vec![b'1'; OUTPUT_BYTES_MAX + 5], "")).expect("names a task");
        let Some((_, message)) = report.instead else { panic!("too large") };
        assert!(message.contains("2097157") && message.contains("2097152"), "{message}");
    }

    #[test]
    fn a_failure_is_held_within_its_limits() {
        let report = Report::parse(failure(v1::TaskFailure {
            message: "é".repeat(ERROR_MESSAGE_BYTES_MAX),
            details: Some(v1::Payload { data: vec![b'7'; 20_000].into(), content_type: String::new() }),
            retry_after: Some(prost_types::Duration { seconds: 1_000_000, nanos: 0 }),
            retryable: true,
            ..Default::default()
        }))
        .expect("names a task");
        let Outcome::Failed { code, message, details, retryable, retry_after } = report.outcome else {
            panic!("a failure")
        };
        assert_eq!((code.as_str(), retryable), ("FAILED", true));
        assert!(message.len() <= ERROR_MESSAGE_BYTES_MAX && message.ends_with('…'));
        assert_eq!(details, json!({ "details_omitted": 20_000 }));
        assert_eq!(retry_after, Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn a_result_that_names_no_task_is_answered_at_once() {
        let good = completed(b"1".to_vec(), "");
        let lease = |lease: v1::Lease| v1::TaskResult { lease: Some(lease), ..good.clone() };
        let named = good.lease.clone().unwrap_or_default();
        for result in [
            v1::TaskResult { lease: None, ..good.clone() },
            v1::TaskResult { route: None, ..good.clone() },
            v1::TaskResult { route: Some(v1::Route { shard: 65_536, placement_epoch: 0 }), ..good.clone() },
            lease(v1::Lease { task_id: "'; DROP".to_owned(), ..named.clone() }),
            lease(v1::Lease { claim_epoch: u64::MAX, ..named }),
        ] {
            let ack = Report::parse(result).expect_err("names no task");
            assert_eq!(ack.status(), v1::ResultStatus::Invalid);
            assert!(!ack.message.is_empty());
        }
    }
}
