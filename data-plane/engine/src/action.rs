//! What is to be done after a turn is committed. Data only; the rim performs it.

use orch8_model::{ClaimEpoch, Millis, TaskId};
use serde_json::Value;

use crate::instance::NodeNo;

/// One thing to do once the turn is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put a try before the workers.
    Dispatch(Box<Dispatch>),
    /// A try is no longer wanted: withdraw it from the queue, or revoke it from its worker.
    CancelTask { node: NodeNo, task: TaskId, attempt: u32, claim_epoch: ClaimEpoch, reason: &'static str },
    /// The instance must be woken at this instant (its earliest timer moved). Also derivable from
    /// [`crate::Instance::next_wake`]; given so that the rim can store far timers.
    WakeAt { node: NodeNo, at: Millis },
    /// Run [`crate::Event::Continue`] at once.
    Continue,
    /// The instance is terminal.
    Closed,
}

/// One try of a worker step.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    pub node: NodeNo,
    pub task: TaskId,
    pub attempt: u32,
    pub claim_epoch: ClaimEpoch,
    pub handler: String,
    pub block_id: String,
    /// Block ids from root to step.
    pub block_path: Vec<String>,
    /// Text `0.2`; empty outside loops.
    pub iteration: String,
    /// Frozen: all tries and redeliveries send the same.
    pub params: Value,
    /// `{"data": …, "config": …}` with scoped variables laid over data.
    pub context: Value,
    /// Lower hex.
    pub idempotency_key: String,
    pub at_most_once: bool,
    /// Start-to-close, from the worker's acknowledgement; milliseconds.
    pub timeout_ms: Option<i64>,
    /// From enqueue to acknowledgement; milliseconds.
    pub schedule_to_start_ms: Option<i64>,
}
