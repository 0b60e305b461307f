//! A live node: one activation of a block that has not ended. What it has ended with is in the journal.

use std::collections::BTreeSet;

use orch8_model::{ClaimEpoch, Millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{FrameNo, frame::Ended, results::Results, shared::Shared, try_node::TryNode};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// The body it stands in.
    #[serde(rename = "f")]
    pub frame: FrameNo,
    /// Index of the block in the program.
    #[serde(rename = "b")]
    pub block: u32,
    #[serde(rename = "t")]
    pub activated_at: Millis,
    #[serde(rename = "k")]
    pub kind: NodeKind,
    /// Bodies of this node that have not ended. Derived.
    #[serde(skip)]
    pub open: BTreeSet<FrameNo>,
}

/// What a node has to remember, by kind of block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum NodeKind {
    #[serde(rename = "s")]
    Step(StepNode),
    #[serde(rename = "p")]
    Parallel(ParallelNode),
    #[serde(rename = "r")]
    Router(RouterNode),
    #[serde(rename = "t")]
    TryCatch(TryNode),
    #[serde(rename = "l")]
    Loop(LoopNode),
    #[serde(rename = "e")]
    ForEach(EachNode),
}

/// A step between its activation and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepNode {
    #[serde(rename = "p")]
    pub phase: Phase,
    /// When it was ready: after its delay.
    #[serde(rename = "r")]
    pub ready_at: Millis,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Millis>,
    /// Zero-based try.
    #[serde(rename = "a", default, skip_serializing_if = "super::is_default")]
    pub attempt: u32,
    /// Deliveries so far, over all tries: the newest one's claim epoch.
    #[serde(rename = "s", default, skip_serializing_if = "super::is_default")]
    pub sends: u64,
    /// Leases lost by this try, when there is no retry policy.
    #[serde(rename = "u", default, skip_serializing_if = "super::is_default")]
    pub leases_lost: u32,
    /// Frozen at the first try.
    #[serde(
        rename = "v",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::shared::present"
    )]
    pub params: Option<Shared<Value>>,
}

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Nothing: it runs in this turn, or when the instance is resumed.
    #[serde(rename = "r")]
    Ready,
    #[serde(rename = "d")]
    Delay(Millis),
    /// A human, at most until then.
    #[serde(rename = "g")]
    Gate(Option<Millis>),
    /// One of the instance's places among the workers.
    #[serde(rename = "q")]
    Queued,
    #[serde(rename = "w")]
    Sent,
    /// `timeout_at`: when the try times out before it wakes.
    #[serde(rename = "z")]
    Sleep {
        #[serde(rename = "u")]
        until: Millis,
        #[serde(rename = "t")]
        timeout_at: Option<Millis>,
    },
    #[serde(rename = "b")]
    Backoff {
        #[serde(rename = "u")]
        until: Millis,
        /// The last try's outcome was lost: a late success still counts.
        #[serde(rename = "l")]
        lost: bool,
    },
    /// An at-most-once try whose outcome nobody knows.
    #[serde(rename = "k")]
    Parked,
}

/// What an open node means for the state of its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Waits for somebody or something outside.
    Waiting,
    /// Waits for its own timer or turn.
    Guarded,
    /// A composite: what is inside it counts.
    Inner,
}

impl StepNode {
    pub(crate) fn claim_epoch(&self) -> ClaimEpoch {
        ClaimEpoch::new(self.sends).unwrap_or_default()
    }

    /// A try was sent, or slept, and may have had an effect: what `cancellable: false` protects.
    pub(crate) fn is_active(&self) -> bool {
        match self.phase {
            Phase::Sent | Phase::Sleep { .. } | Phase::Backoff { .. } | Phase::Parked => true,
            Phase::Queued | Phase::Ready => self.sends > 0,
            Phase::Delay(_) | Phase::Gate(_) => false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParallelNode {
    #[serde(rename = "e", default, skip_serializing_if = "Ended::is_fine")]
    pub ended: Ended,
    /// Results by branch; kept inside loops only.
    #[serde(rename = "v", default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Option<Shared<Value>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouterNode {
    #[serde(rename = "e", default, skip_serializing_if = "Ended::is_fine")]
    pub ended: Ended,
    #[serde(
        rename = "v",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::shared::present"
    )]
    pub result: Option<Shared<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoopNode {
    /// Iterations that have ended.
    #[serde(rename = "n", default, skip_serializing_if = "super::is_default")]
    pub done: u32,
    #[serde(rename = "e", default, skip_serializing_if = "Ended::is_fine")]
    pub ended: Ended,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Millis>,
    #[serde(rename = "r", default)]
    pub results: Results,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EachNode {
    /// The snapshot, cut to the limit of iterations.
    #[serde(rename = "v", default)]
    pub items: Items,
    /// The collection was longer.
    #[serde(rename = "c", default, skip_serializing_if = "super::is_default")]
    pub capped: bool,
    /// The next item to begin.
    #[serde(rename = "i", default, skip_serializing_if = "super::is_default")]
    pub next: u32,
    /// Iterations that have ended.
    #[serde(rename = "n", default, skip_serializing_if = "super::is_default")]
    pub done: u32,
    #[serde(rename = "e", default, skip_serializing_if = "Ended::is_fine")]
    pub ended: Ended,
    #[serde(rename = "r", default)]
    pub results: Results,
}

/// The elements of a for_each and the bytes of their text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Items {
    #[serde(rename = "v", default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    #[serde(rename = "n", default)]
    pub bytes: usize,
}

impl Node {
    /// When its timer acts next.
    pub(crate) fn wake_at(&self) -> Option<Millis> {
        match &self.kind {
            NodeKind::Step(step) => earliest(step.phase.wake_at(), step.deadline_at),
            NodeKind::Loop(looping) => looping.poll,
            NodeKind::Parallel(_) | NodeKind::Router(_) | NodeKind::TryCatch(_) | NodeKind::ForEach(_) => {
                None
            }
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match &self.kind {
            NodeKind::Step(step) => match step.phase {
                Phase::Sent | Phase::Sleep { .. } | Phase::Gate(_) | Phase::Parked => Standing::Waiting,
                Phase::Ready | Phase::Delay(_) | Phase::Queued | Phase::Backoff { .. } => Standing::Guarded,
            },
            NodeKind::Parallel(_)
            | NodeKind::Router(_)
            | NodeKind::TryCatch(_)
            | NodeKind::Loop(_)
            | NodeKind::ForEach(_) => Standing::Inner,
        }
    }

    pub(crate) fn step(&self) -> Option<&StepNode> {
        match &self.kind {
            NodeKind::Step(step) => Some(step),
            NodeKind::Parallel(_)
            | NodeKind::Router(_)
            | NodeKind::TryCatch(_)
            | NodeKind::Loop(_)
            | NodeKind::ForEach(_) => None,
        }
    }

    pub(crate) fn step_mut(&mut self) -> Option<&mut StepNode> {
        match &mut self.kind {
            NodeKind::Step(step) => Some(step),
            NodeKind::Parallel(_)
            | NodeKind::Router(_)
            | NodeKind::TryCatch(_)
            | NodeKind::Loop(_)
            | NodeKind::ForEach(_) => None,
        }
    }

    /// How its bodies say it ends. A step has none: completed.
    pub(crate) fn ended(&self) -> Ended {
        match &self.kind {
            NodeKind::Step(_) => Ended::Completed,
            NodeKind::Parallel(node) => node.ended.clone(),
            NodeKind::Router(node) => node.ended.clone(),
            NodeKind::TryCatch(node) => node.ended.clone(),
            NodeKind::Loop(node) => node.ended.clone(),
            NodeKind::ForEach(node) => node.ended.clone(),
        }
    }

    /// The result it hands up when it completes without an output row of its own.
    pub(crate) fn result(&self) -> Option<Shared<Value>> {
        match &self.kind {
            NodeKind::Step(_) => None,
            NodeKind::Parallel(node) => {
                let results = node.results.iter();
                let values = results.map(|result| result.as_deref().cloned().unwrap_or(Value::Null));
                Some(Shared::new(values.collect()))
            }
            NodeKind::Router(node) => node.result.clone(),
            NodeKind::TryCatch(node) => node.result.clone(),
            NodeKind::Loop(node) => Some(Shared::new(node.results.value())),
            NodeKind::ForEach(node) => Some(Shared::new(node.results.value())),
        }
    }

    /// The output row as it is now, of a loop or for_each.
    pub(crate) fn live_row(&self, capped: bool, item_var: &str) -> Option<Value> {
        let mut row = Map::new();
        match &self.kind {
            NodeKind::Loop(node) => {
                row.insert("_iterations".to_owned(), json!(node.done));
                row.insert("capped".to_owned(), json!(capped));
                node.results.describe(&mut row);
            }
            NodeKind::ForEach(node) => {
                row.insert("_index".to_owned(), json!(node.done));
                row.insert("_total".to_owned(), json!(node.items.values.len()));
                row.insert("_item_var".to_owned(), json!(item_var));
                row.insert("capped".to_owned(), json!(node.capped));
                node.results.describe(&mut row);
            }
            NodeKind::Step(_) | NodeKind::Parallel(_) | NodeKind::Router(_) | NodeKind::TryCatch(_) => {
                return None;
            }
        }
        Some(Value::Object(row))
    }

    /// Rough resident size.
    pub(crate) fn weight(&self) -> usize {
        let held = match &self.kind {
            NodeKind::Step(step) => step.params.as_ref().map_or(0, Shared::bytes),
            NodeKind::Parallel(node) => node.results.len() * size_of::<usize>(),
            NodeKind::Router(_) | NodeKind::TryCatch(_) => 0,
            NodeKind::Loop(node) => node.results.weight(),
            NodeKind::ForEach(node) => node.results.weight() + 2 * node.items.bytes,
        };
        size_of::<Self>() + held
    }
}

impl Phase {
    fn wake_at(self) -> Option<Millis> {
        match self {
            Phase::Delay(until) | Phase::Backoff { until, .. } => Some(until),
            Phase::Gate(until) => until,
            Phase::Sleep { until, timeout_at } => earliest(Some(until), timeout_at),
            Phase::Ready | Phase::Queued | Phase::Sent | Phase::Parked => None,
        }
    }
}

fn earliest(a: Option<Millis>, b: Option<Millis>) -> Option<Millis> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}
