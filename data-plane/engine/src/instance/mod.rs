//! The state of one run: what is live, what live blocks can still see, and nothing of the past.
//!
//! The parts: [`frame`] (activations of bodies), [`node`] (activations of blocks), [`data`] (`context.data`),
//! [`results`] (what a loop has gathered). [`apply`] is the only writer.
//!
//! **Invariant:** the size of the state and the cost of a turn do not depend on how much has already run. A block that
//! has ended leaves the state; its story is in the journal.

mod apply;
mod data;
mod frame;
mod index;
mod kind;
mod node;
mod results;
mod shared;
mod try_node;

use std::collections::{BTreeMap, VecDeque};

use orch8_model::{ClaimEpoch, ContinuityId, InstanceId, Millis, StepError, TaskId, TenantId, json};
use orch8_seal::task_id;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    action::Dispatch,
    executor,
    program::Program,
    record::{KeptAnswer, TurnRecord, Work},
};

pub(crate) use data::Data;
pub(crate) use frame::{Ended, Frame};
pub(crate) use index::Index;
pub(crate) use kind::{CATCH, FINALLY, TRY};
pub(crate) use node::{EachNode, LoopNode, Node, NodeKind, ParallelNode, Phase, RouterNode, StepNode};
pub(crate) use shared::Shared;
pub(crate) use try_node::TryNode;

/// Number of a node within its instance, from 1 in activation order. 0 = the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeNo(pub u64);

/// Number of a frame (one activation of a body) within its instance, from 1 in the order they opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FrameNo(pub u64);

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Scheduled,
    Running,
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// Completed, failed or cancelled.
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

/// What an instance is born with.
#[derive(Clone, Debug, PartialEq)]
pub struct Birth {
    pub tenant: TenantId,
    pub instance: InstanceId,
    /// The id the execution was born with; equal to the instance id unless it moved here.
    pub continuity: ContinuityId,
    pub data: Map<String, Value>,
    pub config: Map<String, Value>,
    /// IANA zone.
    pub timezone: String,
    pub created_at: Millis,
    /// Not before this instant.
    pub fire_at: Millis,
}

/// The state of one run. Changed only by [`crate::turn`] and [`Instance::apply`].
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    birth: Birth,
    pub(crate) state: State,
    /// Derived from `state`.
    pub(crate) index: Index,
    /// Bytes of `context.config` as JSON text. Derived.
    config_bytes: usize,
}

/// What a snapshot holds. Blocks and bodies are named by their place in the program, which follows the document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Turns so far.
    #[serde(rename = "t")]
    pub turns: u64,
    /// Instant of the first turn.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(rename = "p", default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// A cancel was accepted, for this reason.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// How it ended.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Status>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<StepError>>,
    /// Numbers given so far.
    #[serde(rename = "nf", default, skip_serializing_if = "is_default")]
    pub frames_made: u64,
    #[serde(rename = "nn", default, skip_serializing_if = "is_default")]
    pub nodes_made: u64,
    #[serde(rename = "no", default, skip_serializing_if = "is_default")]
    pub rows_made: u64,
    #[serde(rename = "d")]
    pub data: Data,
    #[serde(rename = "f", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub frames: BTreeMap<FrameNo, Frame>,
    #[serde(rename = "n", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<NodeNo, Node>,
    /// How the root body ended.
    #[serde(rename = "z", default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Ended>,
    /// Work left at a turn's bound; the last is next.
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<Work>,
    /// Work to do on resume; the first is next.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Work>,
    /// Human answers that came before their gates.
    #[serde(rename = "a", default, skip_serializing_if = "VecDeque::is_empty")]
    pub answers: VecDeque<KeptAnswer>,
    /// Newest cancelled deliveries: their late reports are told so.
    #[serde(rename = "c", default, skip_serializing_if = "VecDeque::is_empty")]
    pub cancelled: VecDeque<Delivery>,
}

/// One delivery of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery(pub NodeNo, pub u32, pub ClaimEpoch);

impl Instance {
    /// A run before its first turn.
    pub fn new(birth: Birth) -> Self {
        let state = State { data: Data::new(birth.data.clone()), ..State::default() };
        Self { config_bytes: data::map_bytes(&birth.config), birth, state, index: Index::default() }
    }

    /// Reads a snapshot back. Errors: a text this version did not write.
    pub fn restore(birth: Birth, snapshot: &str) -> Result<Self, String> {
        let mut state: State = json::decode(snapshot.as_bytes()).map_err(|problem| problem.message)?;
        let index = Index::rebuild(&mut state)?;
        Ok(Self { config_bytes: data::map_bytes(&birth.config), birth, state, index })
    }

    /// Everything needed to go on, as compact JSON text; does not grow with history.
    pub fn snapshot(&self) -> String {
        // Every part is a map with text or number keys, or a scalar: nothing in it can fail to be written.
        serde_json::to_string(&self.state).unwrap_or_default()
    }

    /// Applies the record of a committed turn: what a turn did to the state, `apply` does again.
    pub fn apply(&mut self, program: &Program, record: &TurnRecord) {
        let mut rows = record.outputs.iter();
        for change in &record.changes {
            self.change(program, record.at, change, &mut rows);
        }
        self.state.turns += 1;
    }

    /// Number of the next turn: 0 before the first.
    pub fn next_turn(&self) -> u64 {
        self.state.turns
    }

    pub fn status(&self) -> Status {
        if let Some(status) = self.state.finished {
            return status;
        }
        if self.state.paused {
            return Status::Paused;
        }
        if self.state.work.is_empty() && self.index.waiting > 0 { Status::Waiting } else { Status::Scheduled }
    }

    /// A cancel was accepted and protected parts still run.
    pub fn cancelling(&self) -> bool {
        self.state.cancel.is_some() && self.state.finished.is_none()
    }

    /// Of a failed instance (or a cancelled one in which something had failed).
    pub fn error(&self) -> Option<&StepError> {
        self.state.error.as_deref()
    }

    /// The start has acted: the root body was opened.
    pub fn begun(&self) -> bool {
        self.state.frames_made > 0
    }

    /// Work was left at a turn's bound, which only [`crate::Event::Continue`] takes up: no timer and no message has to
    /// come.
    pub fn has_work(&self) -> bool {
        !self.state.paused && self.state.finished.is_none() && !self.state.work.is_empty()
    }

    /// Earliest instant at which a timer acts; `None` while paused or when none is set.
    pub fn next_wake(&self) -> Option<Millis> {
        if self.state.paused {
            return None;
        }
        self.index.timers.first().map(|(at, _)| *at)
    }

    /// Tries that are dispatched and not ended: what an owner puts before the workers again after recovery.
    pub fn open_tasks(&self, program: &Program) -> Vec<Dispatch> {
        self.index.sent.iter().filter_map(|no| executor::dispatch_of(program, self, *no)).collect()
    }

    /// Ids of those tries, without their params: cheap.
    pub fn open_task_ids(&self) -> impl Iterator<Item = TaskId> {
        self.index.sent.iter().filter_map(|no| {
            let attempt = self.state.nodes.get(no)?.step()?.attempt;
            Some(task_id(self.birth.instance, no.0, attempt))
        })
    }

    /// `context.data`.
    pub fn data(&self) -> &Map<String, Value> {
        self.state.data.map()
    }

    /// `context.config`.
    pub fn config(&self) -> &Map<String, Value> {
        &self.birth.config
    }

    pub fn birth(&self) -> &Birth {
        &self.birth
    }

    pub(crate) fn config_bytes(&self) -> usize {
        self.config_bytes
    }

    /// Rough resident size, in bytes: what memory bounds count. Costs one look at each live block and visible output.
    pub fn weight(&self) -> usize {
        let nodes: usize = self.state.nodes.values().map(Node::weight).sum();
        let frames: usize = self.state.frames.values().map(Frame::weight).sum();
        size_of::<Self>() + 2 * self.state.data.bytes() + nodes + frames
    }

    /// The frames in which a block's rows may lie, seen from `frame`: innermost iteration first, the root last.
    pub(crate) fn homes(&self, frame: FrameNo) -> impl Iterator<Item = &Frame> {
        let mut at = Some(frame);
        std::iter::from_fn(move || {
            let home = self.state.frames.get(&at?).map(|frame| frame.home)?;
            let home = self.state.frames.get(&home)?;
            at = self.state.nodes.get(&home.owner).map(|owner| owner.frame);
            Some(home)
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
