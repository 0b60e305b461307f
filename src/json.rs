//! Wire messages as JSON for scripts: proto field names, states as lower-case words, instants as RFC 3339, payloads
//! as the JSON they hold.

use chrono::{DateTime, Utc};
use orch8_proto::v1::{
    HandlerStatus, Instance, InstanceState, NodeState, NodeWait, OutputRow, Payload, Priority, Sequence,
    StepError, TimelineNode, WaitKind, Warning, WorkerSession,
};
use prost_types::Timestamp;
use serde_json::{Value, json};

/// The instant, if there is one and the calendar has it.
pub fn instant(at: Option<&Timestamp>) -> Option<DateTime<Utc>> {
    let at = at?;
    DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?)
}

/// Milliseconds since 1970.
pub fn millis(at: Option<&Timestamp>) -> Option<i64> {
    instant(at).map(|at| at.timestamp_millis())
}

/// As scripts read it; null when there is none.
pub fn rfc3339(at: Option<&Timestamp>) -> Value {
    instant(at).map(|at| json!(at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())).unwrap_or_default()
}

/// What a payload holds; text that is no JSON becomes a string.
pub fn value(payload: Option<&Payload>) -> Value {
    let Some(payload) = payload.filter(|payload| !payload.data.is_empty()) else { return Value::Null };
    serde_json::from_slice(&payload.data)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&payload.data).into_owned()))
}

/// A JSON payload.
pub fn payload(value: &Value) -> Payload {
    Payload { data: value.to_string().into(), content_type: String::new() }
}

/// `completed`; what this build does not know is `unspecified`.
pub fn instance_state(state: i32) -> &'static str {
    match InstanceState::try_from(state).unwrap_or_default() {
        InstanceState::Unspecified => "unspecified",
        InstanceState::Scheduled => "scheduled",
        InstanceState::Running => "running",
        InstanceState::Waiting => "waiting",
        InstanceState::Paused => "paused",
        InstanceState::Completed => "completed",
        InstanceState::Failed => "failed",
        InstanceState::Cancelled => "cancelled",
    }
}

/// As [`instance_state`].
pub fn node_state(state: NodeState) -> &'static str {
    match state {
        NodeState::Unspecified => "unspecified",
        NodeState::Pending => "pending",
        NodeState::Running => "running",
        NodeState::Waiting => "waiting",
        NodeState::Completed => "completed",
        NodeState::Failed => "failed",
        NodeState::Cancelled => "cancelled",
        NodeState::Skipped => "skipped",
    }
}

fn priority(priority: i32) -> &'static str {
    match Priority::try_from(priority).unwrap_or_default() {
        Priority::Unspecified | Priority::Normal => "normal",
        Priority::Low => "low",
        Priority::High => "high",
        Priority::Critical => "critical",
    }
}

fn wait_kind(kind: i32) -> &'static str {
    match WaitKind::try_from(kind).unwrap_or_default() {
        WaitKind::Unspecified => "unspecified",
        WaitKind::Worker => "worker",
        WaitKind::Sleep => "sleep",
        WaitKind::Delay => "delay",
        WaitKind::Gate => "gate",
        WaitKind::Backoff => "backoff",
        WaitKind::UnknownEffect => "unknown_effect",
        WaitKind::Children => "children",
        WaitKind::Poll => "poll",
    }
}

pub fn instance(instance: &Instance) -> Value {
    json!({
        "instance_id": instance.instance_id,
        "continuity_id": instance.continuity_id,
        "namespace": instance.namespace,
        "sequence_id": instance.sequence_id,
        "sequence_name": instance.sequence_name,
        "sequence_version": instance.sequence_version,
        "state": instance_state(instance.state),
        "cancelling": instance.cancelling,
        "priority": priority(instance.priority),
        "created_at": rfc3339(instance.created_at.as_ref()),
        "closed_at": rfc3339(instance.closed_at.as_ref()),
        "next_fire_at": rfc3339(instance.next_fire_at.as_ref()),
        "turns": instance.turns,
        "error": instance.error.as_ref().map(step_error),
        "data": value(instance.data.as_ref()),
        "config": value(instance.config.as_ref()),
        "metadata": value(instance.metadata.as_ref()),
        "waits": instance.waits.iter().map(wait).collect::<Vec<_>>(),
    })
}

fn step_error(error: &StepError) -> Value {
    json!({
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "details": value(error.details.as_ref()),
        "attempt": error.attempt,
        "source": error.source,
        "block_id": error.block_id,
        "leaf_block": error.leaf_block,
    })
}

fn wait(wait: &NodeWait) -> Value {
    json!({
        "block_id": wait.block_id,
        "iteration": wait.iteration,
        "kind": wait_kind(wait.kind),
        "until": rfc3339(wait.until.as_ref()),
        "handler": wait.handler,
        "attempt": wait.attempt,
        "note": wait.note,
        "prompt": wait.prompt,
        "choices": wait.choices,
    })
}

pub fn node(node: &TimelineNode) -> Value {
    json!({
        "node": node.node,
        "parent": node.parent,
        "block_id": node.block_id,
        "block_type": node.block_type,
        "iteration": node.iteration,
        "branch": node.branch,
        "state": node_state(node.state()),
        "handler": node.handler,
        "attempt": node.attempt,
        "activated_at": rfc3339(node.activated_at.as_ref()),
        "started_at": rfc3339(node.started_at.as_ref()),
        "completed_at": rfc3339(node.completed_at.as_ref()),
        "error": node.error.as_ref().map(step_error),
        "wait": node.wait.as_ref().map(wait),
        "decision": value(node.decision.as_ref()),
        "output": value(node.output.as_ref()),
        "params": value(node.params.as_ref()),
    })
}

pub fn output_row(row: &OutputRow) -> Value {
    json!({
        "seq": row.seq,
        "block_id": row.block_id,
        "iteration": row.iteration,
        "attempt": row.attempt,
        "created_at": rfc3339(row.created_at.as_ref()),
        "output": value(row.output.as_ref()),
    })
}

/// Without the document.
pub fn sequence(sequence: &Sequence) -> Value {
    json!({
        "sequence_id": sequence.sequence_id,
        "namespace": sequence.namespace,
        "name": sequence.name,
        "version": sequence.version,
        "content_sha256": sequence.content_sha256,
        "deprecated": sequence.deprecated,
        "created_at": rfc3339(sequence.created_at.as_ref()),
    })
}

pub fn warnings(warnings: &[Warning]) -> Value {
    warnings
        .iter()
        .map(|w| json!({ "code": w.code, "path": w.path, "message": w.message }))
        .collect::<Vec<_>>()
        .into()
}

pub fn session(session: &WorkerSession) -> Value {
    let lanes: Vec<Value> = session
        .lanes
        .iter()
        .map(|lane| {
            json!({
                "name": lane.name,
                "handlers": lane.handlers,
                "credit": lane.credit,
                "in_flight": lane.in_flight,
            })
        })
        .collect();
    json!({
        "session_id": session.session_id,
        "worker_id": session.worker_id,
        "version": session.version,
        "lanes": lanes,
        "opened_at": rfc3339(session.opened_at.as_ref()),
        "last_frame_at": rfc3339(session.last_frame_at.as_ref()),
        "draining": session.draining,
    })
}

pub fn handler(handler: &HandlerStatus) -> Value {
    json!({
        "handler": handler.handler,
        "queued": handler.queued,
        "in_flight": handler.in_flight,
        "sessions": handler.sessions,
        "oldest_ms": handler.oldest.as_ref().map(duration_ms),
        "nearest": handler.nearest,
    })
}

/// Whole milliseconds.
pub fn duration_ms(duration: &prost_types::Duration) -> i64 {
    duration.seconds.saturating_mul(1_000).saturating_add(i64::from(duration.nanos) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_payloads_survive() {
        let text = r#"{"big":9007199254740993,"one":1,"float":1.0}"#;
        let payload = Payload { data: text.into(), content_type: String::new() };
        assert_eq!(value(Some(&payload)).to_string(), text);
    }

    #[test]
    fn hostile_answers_become_values_and_not_panics() {
        let broken = Payload { data: vec![0xff, b'{'].into(), content_type: String::new() };
        assert!(value(Some(&broken)).is_string());
        assert_eq!(value(None), Value::Null);
        for (seconds, nanos) in [(i64::MAX, 0), (0, -1), (0, i32::MAX), (i64::MIN, 0)] {
            assert_eq!(instant(Some(&Timestamp { seconds, nanos })), None);
        }
        assert_eq!(instance_state(99), "unspecified");
        let extreme = prost_types::Duration { seconds: i64::MAX, nanos: i32::MAX };
        assert_eq!(duration_ms(&extreme), i64::MAX);
    }

    #[test]
    fn an_instance_is_one_flat_object() {
        let at = Timestamp { seconds: 1_700_000_000, nanos: 5_000_000 };
        let it = Instance {
            instance_id: "i".into(),
            state: InstanceState::Completed.into(),
            created_at: Some(at),
            data: Some(payload(&json!({ "delay": 47 }))),
            ..Instance::default()
        };
        let json = instance(&it);
        assert_eq!(json["state"], "completed");
        assert_eq!(json["created_at"], "2023-11-14T22:13:20.005Z");
        assert_eq!(json["closed_at"], Value::Null);
        assert_eq!(json["data"]["delay"], 47);
    }
}
