//! The tree of activated blocks, folded from turn records: what `GetTimeline` and `GetInstance` answer.
//!
//! It reads the same changes as the state does, from the first on, and keeps what the state forgets. It decides nothing.

use std::collections::HashMap;

use orch8_model::{Millis, StepError};
use serde_json::{Value, json};

use crate::{
    instance::{Ended, FrameNo, NodeNo, Shared, TryNode},
    program::{Block, BlockIx, BodyIx, Kind, Program},
    record::{Change, How, TurnRecord},
};

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
    /// A worker has it, or the next free one will.
    Worker {
        handler: String,
        attempt: u32,
    },
    Sleep {
        until: Millis,
    },
    Delay {
        until: Millis,
    },
    /// `choices`: the values to answer with; one that is not text is shown as JSON.
    Gate {
        prompt: String,
        choices: Vec<String>,
        until: Option<Millis>,
    },
    /// `attempt`: the try that comes next.
    Backoff {
        until: Millis,
        attempt: u32,
    },
    UnknownEffect {
        handler: String,
    },
    /// The blocks inside.
    Children,
    Poll {
        until: Millis,
    },
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
    /// Router: `{"route": i | "default"}`; for_each: `{"total", "capped"}`; a gate that was answered:
    /// `{"value", "comment"?}`. Else null.
    pub decision: Value,
    /// As a worker got them; null when they were, or when the step ran in the turn.
    pub params: Value,
}

/// Nodes in activation order.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Node n is at n − 1: numbers are given in activation order.
    nodes: Vec<TimelineNode>,
    /// Which block each node is an activation of, and in which body it stands.
    places: Vec<(BlockIx, FrameNo)>,
    frames: HashMap<FrameNo, Stand>,
    frames_made: u64,
    /// What bodies have handed up to nodes that are still open.
    handed: HashMap<NodeNo, Handed>,
}

/// Where an open body stands.
#[derive(Debug)]
struct Stand {
    owner: NodeNo,
    branch: u32,
    body: BodyIx,
    iteration: String,
    cursor: usize,
    last: Ended,
    doomed: bool,
}

/// What a composite inherits when it ends.
#[derive(Debug, Default)]
struct Handed {
    ended: Ended,
    trying: TryNode,
}

impl Timeline {
    /// Adds a committed turn.
    pub fn fold(&mut self, program: &Program, record: &TurnRecord) {
        record.changes.iter().for_each(|change| self.change(program, record.at, change));
    }

    /// All nodes, in activation order.
    pub fn nodes(&self) -> impl Iterator<Item = &TimelineNode> {
        self.nodes.iter()
    }

    fn change(&mut self, program: &Program, at: Millis, change: &Change) {
        match change {
            Change::Open { owner, branch, index } => self.open(program, *owner, *branch, *index),
            Change::Start(frame) => self.start(program, at, *frame),
            Change::Close(frame) => self.close(program, *frame),
            Change::Doom(frame) => {
                if let Some(stand) = self.frames.get_mut(frame) {
                    stand.doomed = true;
                }
            }
            Change::Delay(no, until) => {
                self.wait(*no, NodeState::Waiting, Some(Wait::Delay { until: *until }))
            }
            Change::Ready(no) => self.wait(*no, NodeState::Pending, None),
            Change::Gate(no) => self.gate(program, at, *no),
            Change::Answer { node, choice, comment, kept: _ } => {
                self.answer(program, *node, *choice, comment.as_deref());
            }
            Change::Queue(no) => self.wait_for_worker(program, *no, NodeState::Pending),
            Change::Send { node, params } => {
                self.wait_for_worker(program, *node, NodeState::Waiting);
                self.began(*node, at, params);
            }
            Change::Freeze(no, params) => self.began(*no, at, params),
            Change::Sleep(no, until) => {
                self.wait(*no, NodeState::Waiting, Some(Wait::Sleep { until: *until }));
                self.began(*no, at, &Value::Null);
            }
            Change::Backoff { node, until, lost: _, error } => {
                let attempt = error.attempt.saturating_add(1);
                self.wait(*node, NodeState::Waiting, Some(Wait::Backoff { until: *until, attempt }));
                if let Some(node) = self.node(*node) {
                    node.error = Some((**error).clone());
                }
            }
            Change::Again(no) => {
                self.wait(*no, NodeState::Pending, None);
                if let Some(node) = self.node(*no) {
                    node.attempt = node.attempt.saturating_add(1);
                }
            }
            Change::LeaseLost(no) => self.wait_for_worker(program, *no, NodeState::Pending),
            Change::Park(no) => {
                let handler = self.node(*no).map(|node| node.handler.clone()).unwrap_or_default();
                self.wait(*no, NodeState::Waiting, Some(Wait::UnknownEffect { handler }));
            }
            Change::Items { node, items, capped } => {
                if let Some(node) = self.node(*node) {
                    node.decision = json!({"total": items.len(), "capped": capped});
                }
            }
            Change::Poll(no, until) => self.wait(*no, NodeState::Waiting, Some(Wait::Poll { until: *until })),
            Change::End { node, how, row: _, merge: _ } => self.end(at, *node, how),
            Change::Finish { status: _, error: _ } => self.finish(at),
            Change::Keep(_)
            | Change::Write { .. }
            | Change::Update(_)
            | Change::Pause
            | Change::Resume
            | Change::Cancel(_)
            | Change::Hold(_)
            | Change::Leave { .. }
            | Change::Mourn(_) => {}
        }
    }

    fn open(&mut self, program: &Program, owner: NodeNo, branch: u32, index: Option<u32>) {
        self.frames_made += 1;
        let mut stand = Stand {
            owner,
            branch,
            body: Program::ROOT,
            iteration: String::new(),
            cursor: 0,
            last: Ended::Completed,
            doomed: false,
        };
        if let Some(block) = self.block(program, owner) {
            let Some(body) = block.kind.body(branch) else { return };
            stand.body = body;
            let Some(node) = self.node(owner) else { return };
            stand.iteration = match index {
                Some(index) if node.iteration.is_empty() => index.to_string(),
                Some(index) => format!("{}.{index}", node.iteration),
                None => node.iteration.clone(),
            };
            if let Kind::Router { routes, default: _ } = &block.kind {
                let chosen = branch as usize;
                node.decision =
                    json!({"route": if chosen < routes.len() { json!(chosen) } else { json!("default") }});
            }
            node.state = NodeState::Running;
            node.wait = Some(Wait::Children);
        }
        self.frames.insert(FrameNo(self.frames_made), stand);
    }

    fn start(&mut self, program: &Program, at: Millis, frame: FrameNo) {
        let Some(stand) = self.frames.get_mut(&frame) else { return };
        let Some(ix) = program.body(stand.body).blocks.get(stand.cursor).copied() else { return };
        stand.cursor += 1;
        let block = program.block(ix);
        let step = block.kind.step();
        self.nodes.push(TimelineNode {
            node: NodeNo(self.nodes.len() as u64 + 1),
            parent: stand.owner,
            block_id: block.id.to_string(),
            block_type: block.kind.name(),
            iteration: stand.iteration.clone(),
            branch: stand.branch,
            state: if step.is_some() { NodeState::Pending } else { NodeState::Running },
            handler: step.map(|step| step.handler.name().to_owned()).unwrap_or_default(),
            attempt: 0,
            activated_at: at,
            started_at: None,
            completed_at: None,
            error: None,
            wait: None,
            decision: Value::Null,
            params: Value::Null,
        });
        self.places.push((ix, frame));
    }

    fn close(&mut self, program: &Program, frame: FrameNo) {
        let Some(stand) = self.frames.remove(&frame) else { return };
        let Some(block) = self.block(program, stand.owner) else { return };
        let ended = if stand.doomed { Ended::Cancelled } else { stand.last };
        let handed = self.handed.entry(stand.owner).or_default();
        match block.kind {
            Kind::TryCatch { .. } => {
                let blocks = &program.body(stand.body).blocks;
                let last = stand.cursor.checked_sub(1).and_then(|at| blocks.get(at));
                let failed = last.map(|ix| program.block(*ix).id.clone());
                handed.trying.closed(&block.id, stand.branch, ended, failed.as_deref(), None);
            }
            Kind::Step(_)
            | Kind::Parallel { .. }
            | Kind::Router { .. }
            | Kind::Loop(_)
            | Kind::ForEach(_) => {
                handed.ended.and(&ended);
            }
        }
    }

    fn gate(&mut self, program: &Program, at: Millis, no: NodeNo) {
        let Some(block) = self.block(program, no) else { return };
        let Some(gate) = block.kind.step().and_then(|step| step.gate.as_ref()) else { return };
        let wait = Wait::Gate {
            prompt: gate.prompt.clone(),
            choices: gate.choices.iter().map(|(_, value)| shown(value)).collect(),
            until: gate.timeout_ms.map(|ms| at.plus(ms)),
        };
        self.wait(no, NodeState::Waiting, Some(wait));
    }

    fn answer(&mut self, program: &Program, no: NodeNo, choice: u32, comment: Option<&str>) {
        self.wait(no, NodeState::Pending, None);
        let gate = self.block(program, no).and_then(|block| block.kind.step()?.gate.as_ref());
        let value = gate.and_then(|gate| gate.choices.get(choice as usize)).map(|(_, value)| value);
        if let Some(node) = self.node(no) {
            node.decision = match comment {
                Some(comment) => json!({"value": value, "comment": comment}),
                None => json!({"value": value}),
            };
        }
    }

    fn end(&mut self, at: Millis, no: NodeNo, how: &How) {
        let handed = self.handed.remove(&no).unwrap_or_default();
        let inherited = [handed.ended, handed.trying.ended].into_iter().find(|ended| !ended.is_fine());
        let ended = match how {
            How::Completed | How::Skipped => Ended::Completed,
            How::Inherited => inherited.unwrap_or_default(),
            How::Failed(error) => Ended::Failed(Shared::new((**error).clone())),
            How::Cancelled => Ended::Cancelled,
        };
        let frame = Self::place(no).and_then(|at| self.places.get(at)).map(|(_, frame)| *frame);
        if let Some(stand) = frame.and_then(|frame| self.frames.get_mut(&frame)) {
            stand.last = ended.clone();
        }
        let Some(node) = self.node(no) else { return };
        node.wait = None;
        node.completed_at = Some(at);
        if *how != How::Skipped {
            node.started_at.get_or_insert(at);
        }
        (node.state, node.error) = match &ended {
            Ended::Completed if *how == How::Skipped => (NodeState::Skipped, None),
            Ended::Completed => (NodeState::Completed, None),
            Ended::Failed(error) => (NodeState::Failed, Some((**error).clone())),
            Ended::Cancelled => (NodeState::Cancelled, None),
        };
    }

    fn finish(&mut self, at: Millis) {
        for node in &mut self.nodes {
            if node.completed_at.is_none() {
                (node.state, node.completed_at, node.wait) = (NodeState::Cancelled, Some(at), None);
            }
        }
        self.frames.clear();
        self.handed.clear();
    }

    fn wait_for_worker(&mut self, program: &Program, no: NodeNo, state: NodeState) {
        let Some(block) = self.block(program, no) else { return };
        let handler = block.kind.step().map(|step| step.handler.name().to_owned()).unwrap_or_default();
        let attempt = self.node(no).map_or(0, |node| node.attempt);
        self.wait(no, state, Some(Wait::Worker { handler, attempt }));
    }

    fn wait(&mut self, no: NodeNo, state: NodeState, wait: Option<Wait>) {
        if let Some(node) = self.node(no) {
            (node.state, node.wait) = (state, wait);
        }
    }

    /// A try began; params are in the record of the first one only.
    fn began(&mut self, no: NodeNo, at: Millis, params: &Value) {
        if let Some(node) = self.node(no) {
            node.started_at.get_or_insert(at);
            if !params.is_null() {
                node.params = params.clone();
            }
        }
    }

    fn place(no: NodeNo) -> Option<usize> {
        no.0.checked_sub(1).and_then(|at| usize::try_from(at).ok())
    }

    fn node(&mut self, no: NodeNo) -> Option<&mut TimelineNode> {
        self.nodes.get_mut(Self::place(no)?)
    }

    fn block<'p>(&self, program: &'p Program, no: NodeNo) -> Option<&'p Block> {
        self.places.get(Self::place(no)?).map(|(ix, _)| program.block(*ix))
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            orch8_model::json::print(value)
        }
    }
}
