//! What can happen to an instance. An acknowledgement or a lease renewal is not an event: it costs no turn.

use std::time::Duration;

use orch8_model::{ClaimEpoch, SignalId};
use serde_json::{Map, Value};

use crate::instance::NodeNo;

/// One thing that happened to one instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The first turn.
    Start,
    /// Some timers of the instance are due at the turn's `now`. Timers that are not due are left alone.
    Wake,
    /// The last turn stopped at its bound of transitions; go on.
    Continue,
    /// A worker reported how a try ended. Judged on (node, attempt, claim epoch): see [`Verdict`].
    Reported { node: NodeNo, attempt: u32, claim_epoch: ClaimEpoch, outcome: Outcome },
    /// A try's outcome was lost, or it never began.
    Lost { node: NodeNo, attempt: u32, claim_epoch: ClaimEpoch, how: HowLost },
    /// A message from the inbox.
    Signal(Signal),
}

/// How a worker says a try ended. Already within the limits of its edge; the JSON rules have been applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The output.
    Completed(Value),
    /// A reported failure.
    Failed { code: String, message: String, details: Value, retryable: bool, retry_after: Option<Duration> },
}

/// Why no outcome of a try will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowLost {
    /// The lease ended after the worker may have started. Counts as a try when there is a retry policy.
    LeaseEnded,
    /// Never acknowledged, or handed back unstarted: goes back to ready without burning an attempt.
    NeverStarted,
    /// `timeout` passed since the worker's acknowledgement.
    StartToClose,
    /// `schedule_to_start_timeout` passed and nobody had taken it.
    ScheduleToStart,
}

/// A message to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    pub id: SignalId,
    pub kind: SignalKind,
}

/// What the message asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalKind {
    Pause,
    Resume,
    /// With the reason the caller gave.
    Cancel {
        reason: String,
    },
    /// Merged shallowly into `context.data`.
    UpdateContext(Map<String, Value>),
    /// The sequence's own, for example `human_input:<block id>`.
    Custom {
        name: String,
        payload: Value,
    },
}

/// What a turn says of the report that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted; durable once the turn is committed.
    Committed,
    /// Accepted as a permanent failure, because the output broke the JSON rules or `output_schema`.
    Invalid,
    /// Accepted as a permanent failure, because the output is over its limit.
    TooLarge,
    /// Not the newest delivery of that try: nothing changed.
    StaleLease,
    /// The task had been cancelled: nothing but the receipt changed.
    TaskCancelled,
}
