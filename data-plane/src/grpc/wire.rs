//! What both halves of the client API write.

use orch8_engine::{
    publish::Warning,
    timeline::{NodeState, Wait},
};
use orch8_model::{Fault, Reason, StepError};
use orch8_proto::{door, v1};
use serde_json::Value;

use crate::app::NodeView;

/// Rows of a page when nobody says, and at most.
pub const PAGE: u32 = 50;
pub const PAGE_MAX: u32 = 500;

pub fn bad_token() -> Fault {
    Fault::field(Reason::BadPageToken, "page_token", "is not a token of this query")
}

pub fn warning(warning: Warning) -> v1::Warning {
    v1::Warning { code: warning.code.to_owned(), path: warning.path, message: warning.message }
}

pub fn step_error(error: &StepError) -> v1::StepError {
    v1::StepError {
        code: error.code.clone(),
        message: error.message.clone(),
        retryable: error.retryable,
        details: json_or_none(&error.details),
        attempt: error.attempt,
        source: error.source.clone(),
        block_id: error.block_id.clone(),
        leaf_block: error.leaf_block.clone(),
    }
}

/// Null is not worth a payload.
pub fn json_or_none(value: &Value) -> Option<v1::Payload> {
    (!value.is_null()).then(|| door::wire_json(value))
}

pub fn node_state(state: NodeState) -> v1::NodeState {
    match state {
        NodeState::Pending => v1::NodeState::Pending,
        NodeState::Running => v1::NodeState::Running,
        NodeState::Waiting => v1::NodeState::Waiting,
        NodeState::Completed => v1::NodeState::Completed,
        NodeState::Failed => v1::NodeState::Failed,
        NodeState::Cancelled => v1::NodeState::Cancelled,
        NodeState::Skipped => v1::NodeState::Skipped,
    }
}

pub fn node_wait(view: &NodeView) -> Option<v1::NodeWait> {
    let mut wire = v1::NodeWait {
        block_id: view.node.block_id.clone(),
        iteration: view.node.iteration.clone(),
        handler: view.node.handler.clone(),
        attempt: view.node.attempt,
        note: view.note.clone(),
        ..Default::default()
    };
    let (kind, until) = match view.node.wait.as_ref()? {
        Wait::Worker { .. } => (v1::WaitKind::Worker, None),
        Wait::Sleep { until } => (v1::WaitKind::Sleep, Some(*until)),
        Wait::Delay { until } => (v1::WaitKind::Delay, Some(*until)),
        Wait::Gate { prompt, choices, until } => {
            wire.prompt.clone_from(prompt);
            wire.choices.clone_from(choices);
            (v1::WaitKind::Gate, *until)
        }
        Wait::Backoff { until, .. } => (v1::WaitKind::Backoff, Some(*until)),
        Wait::UnknownEffect { .. } => (v1::WaitKind::UnknownEffect, None),
        Wait::Children => (v1::WaitKind::Children, None),
        Wait::Poll { until } => (v1::WaitKind::Poll, Some(*until)),
    };
    wire.kind = kind.into();
    wire.until = until.map(door::wire_instant);
    Some(wire)
}

pub fn node(view: &NodeView, output: Option<&Value>, with_values: bool) -> v1::TimelineNode {
    let node = &view.node;
    v1::TimelineNode {
        node: node.node.0,
        parent: node.parent.0,
        block_id: node.block_id.clone(),
        block_type: node.block_type.to_owned(),
        iteration: node.iteration.clone(),
        branch: node.branch,
        state: node_state(node.state).into(),
        handler: node.handler.clone(),
        attempt: node.attempt,
        activated_at: Some(door::wire_instant(node.activated_at)),
        started_at: node.started_at.map(door::wire_instant),
        completed_at: node.completed_at.map(door::wire_instant),
        error: node.error.as_ref().map(step_error),
        wait: node_wait(view),
        decision: json_or_none(&node.decision),
        output: output.map(door::wire_json),
        params: if with_values { json_or_none(&node.params) } else { None },
    }
}
