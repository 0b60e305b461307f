//! The tree of activated blocks, folded from turn records: what `GetTimeline` and `GetInstance` answer.

use orch8_model::{Millis, StepError};
use serde_json::Value;

use crate::{instance::NodeNo, program::Program, record::TurnRecord};

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Pending,
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
    Skipped,
}

/// Why a node waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    Worker { handler: String, attempt: u32 },
    Sleep { until: Millis },
    Delay { until: Millis },
    Gate { prompt: String, choices: Vec<String>, until: Option<Millis> },
    Backoff { until: Millis, attempt: u32 },
    UnknownEffect { handler: String },
    Children,
    Poll { until: Millis },
}

/// One activation of a block, as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineNode {
    pub node: NodeNo,
    /// 0 = the root body.
    pub parent: NodeNo,
    pub block_id: String,
    pub block_type: &'static str,
    pub iteration: String,
    /// Which branch, route or phase of the parent (try 0, catch 1, finally 2).
    pub branch: u32,
    pub state: NodeState,
    /// Empty for composites.
    pub handler: String,
    pub attempt: u32,
    pub activated_at: Millis,
    pub started_at: Option<Millis>,
    pub completed_at: Option<Millis>,
    pub error: Option<StepError>,
    pub wait: Option<Wait>,
    pub decision: Value,
    pub params: Value,
}

/// Nodes in activation order.
#[derive(Debug, Default)]
pub struct Timeline {}

impl Timeline {
    /// Adds a committed turn.
    pub fn fold(&mut self, program: &Program, record: &TurnRecord) {
        let _ = (program, record);
        unimplemented!()
    }

    /// All nodes, in activation order.
    pub fn nodes(&self) -> impl Iterator<Item = &TimelineNode> {
        std::iter::empty()
    }
}
