//! The only writer of the state: one [`Change`] at a time, in a turn as in recovery.
//!
//! It decides nothing and evaluates nothing. A change that does not fit the state (only a damaged journal has one)
//! changes nothing; it never panics.

use std::slice;

use orch8_model::{Millis, StepError, json};
use serde_json::Value;

use super::{
    Delivery, EachNode, Ended, Frame, FrameNo, Instance, LoopNode, Node, NodeKind, NodeNo, ParallelNode,
    Phase, RouterNode, Shared, StepNode, TryNode, index::link_live_row, node::Items,
};
use crate::{
    program::{BlockIx, BodyIx, Kind, Program},
    record::{Change, How, OutputRecord, Work},
};

/// Cancelled deliveries that are remembered, so that a late report is told the truth. An older one is told that its
/// lease is stale, which makes the worker drop it just the same.
const CANCELLED_MAX: usize = 1_024;

impl Instance {
    /// Applies one change. `rows`: the record's rows that no earlier change has taken.
    pub(crate) fn change(
        &mut self,
        program: &Program,
        at: Millis,
        change: &Change,
        rows: &mut slice::Iter<'_, OutputRecord>,
    ) {
        match change {
            Change::Open { owner, branch, index } => self.open(program, at, *owner, *branch, *index),
            Change::Start(frame) => self.start(program, at, *frame),
            Change::Close(frame) => self.close(program, *frame),
            Change::Doom(frame) => {
                if let Some(frame) = self.state.frames.get_mut(frame) {
                    frame.doomed = true;
                }
            }
            Change::Delay(node, until) => self.phase(*node, Phase::Delay(*until)),
            Change::Ready(node) => self.ready(program, at, *node),
            Change::Gate(node) => self.gate(program, at, *node),
            Change::Answer { node, choice, comment: _, kept } => {
                self.answer(program, *node, *choice, *kept);
            }
            Change::Keep(answer) => self.state.answers.push_back(answer.clone()),
            Change::Queue(node) => self.phase(*node, Phase::Queued),
            Change::Send { node, params } => self.edit_step(*node, |step| {
                step.params.get_or_insert_with(|| Shared::new(params.clone()));
                step.sends += 1;
                step.phase = Phase::Sent;
            }),
            Change::Freeze(node, params) => self.edit_step(*node, |step| {
                step.params.get_or_insert_with(|| Shared::new(params.clone()));
            }),
            Change::Sleep(node, until) => self.sleep(program, at, *node, *until),
            Change::Backoff { node, until, lost, error: _ } => {
                self.phase(*node, Phase::Backoff { until: *until, lost: *lost });
            }
            Change::Again(node) => self.edit_step(*node, |step| {
                step.attempt = step.attempt.saturating_add(1);
                step.leases_lost = 0;
                step.phase = Phase::Ready;
            }),
            Change::LeaseLost(node) => self.edit_step(*node, |step| {
                step.leases_lost = step.leases_lost.saturating_add(1);
                step.phase = Phase::Queued;
            }),
            Change::Park(node) => self.phase(*node, Phase::Parked),
            Change::Items { node, items, capped } => self.edit(*node, |node| {
                if let NodeKind::ForEach(each) = &mut node.kind {
                    each.items = Items { bytes: items.iter().map(json::size).sum(), values: items.clone() };
                    each.capped = *capped;
                }
            }),
            Change::Poll(node, until) => self.edit(*node, |node| {
                if let NodeKind::Loop(looping) = &mut node.kind {
                    looping.poll = Some(*until);
                }
            }),
            Change::End { node, how, row, merge } => {
                let row = if *row { rows.next() } else { None };
                self.end(*node, how, row, *merge);
            }
            Change::Write { path, value } => self.state.data.write(path, value.clone()),
            Change::Update(patch) => {
                patch.iter().for_each(|(key, value)| self.state.data.set(key, value.clone()));
            }
            Change::Pause => self.state.paused = true,
            Change::Resume => self.resume(),
            Change::Cancel(reason) => {
                self.state.cancel = Some(reason.clone());
                self.resume();
            }
            Change::Hold(work) => self.state.held.push(*work),
            Change::Leave { keep, push } => {
                self.state.work.truncate(*keep);
                self.state.work.extend(push);
            }
            Change::Mourn(error) => self.state.error = Some(error.clone()),
            Change::Finish { status, error } => self.finish(*status, error.as_deref()),
        }
    }

    fn open(&mut self, program: &Program, at: Millis, owner: NodeNo, branch: u32, index: Option<u32>) {
        let no = FrameNo(self.state.frames_made + 1);
        let mut frame = Frame {
            owner,
            branch,
            body: Program::ROOT.0,
            path: Vec::new(),
            iteration: index.is_some(),
            home: no,
            cursor: 0,
            node: None,
            last: Ended::Completed,
            doomed: false,
            error: None,
            result: None,
            rows: Default::default(),
            errors: Default::default(),
            live: Default::default(),
        };
        if owner == NodeNo::default() {
            self.state.started_at.get_or_insert(at);
        } else {
            let Some(node) = self.state.nodes.get(&owner) else { return };
            let Some(around) = self.state.frames.get(&node.frame) else { return };
            let Some(body) = program.block(BlockIx(node.block)).kind.body(branch) else { return };
            frame.body = body.0;
            frame.path = around.path.iter().copied().chain(index).collect();
            frame.home = if index.is_some() { no } else { around.home };
            frame.error = node.error_for_bodies();
            self.edit(owner, |node| {
                node.open.insert(no);
                node.begun(index);
            });
        }
        self.state.frames.insert(no, frame);
        self.state.frames_made = no.0;
    }

    fn start(&mut self, program: &Program, at: Millis, no: FrameNo) {
        let Some(frame) = self.state.frames.get_mut(&no) else { return };
        let Some(block) = program.body(BodyIx(frame.body)).blocks.get(frame.cursor as usize) else { return };
        let node_no = NodeNo(self.state.nodes_made + 1);
        frame.cursor += 1;
        frame.node = Some(node_no);
        let kind = match &program.block(*block).kind {
            Kind::Step(step) => NodeKind::Step(StepNode {
                phase: Phase::Ready,
                ready_at: at,
                deadline_at: step.deadline_ms.filter(|_| step.delay.is_none()).map(|ms| at.plus(ms)),
                attempt: 0,
                sends: 0,
                leases_lost: 0,
                params: None,
            }),
            Kind::Parallel { branches, .. } => NodeKind::Parallel(ParallelNode {
                results: if frame.wants_results() { vec![None; branches.len()] } else { Vec::new() },
                ..ParallelNode::default()
            }),
            Kind::Router { .. } => NodeKind::Router(RouterNode::default()),
            Kind::TryCatch { .. } => NodeKind::TryCatch(TryNode::default()),
            Kind::Loop(_) => NodeKind::Loop(LoopNode::default()),
            Kind::ForEach(_) => NodeKind::ForEach(EachNode::default()),
        };
        let node = Node { frame: no, block: block.0, activated_at: at, kind, open: Default::default() };
        self.index.add(node_no, &node);
        self.state.nodes.insert(node_no, node);
        self.state.nodes_made = node_no.0;
        link_live_row(&mut self.state, node_no, true);
    }

    fn close(&mut self, program: &Program, no: FrameNo) {
        let Some(frame) = self.state.frames.remove(&no) else { return };
        let ended = frame.ended();
        if frame.owner == NodeNo::default() {
            self.state.root = Some(ended);
            return;
        }
        let body = program.body(BodyIx(frame.body));
        let failed =
            frame.current().and_then(|at| body.blocks.get(at)).map(|ix| program.block(*ix).id.clone());
        let result = frame.result.clone().filter(|_| ended.is_fine());
        let block = self.state.nodes.get(&frame.owner).map(|node| program.block(BlockIx(node.block)));
        let Some(block) = block else { return };
        self.edit(frame.owner, |node| {
            node.open.remove(&no);
            match &mut node.kind {
                NodeKind::Step(_) => {}
                NodeKind::Parallel(parallel) => {
                    parallel.ended.and(&ended);
                    if let Some(slot) = parallel.results.get_mut(frame.branch as usize) {
                        *slot = result.filter(|value| !value.is_null());
                    }
                }
                NodeKind::Router(router) => {
                    router.ended = ended;
                    router.result = result;
                }
                NodeKind::TryCatch(node) => {
                    node.closed(&block.id, frame.branch, ended, failed.as_deref(), result);
                }
                NodeKind::Loop(node) => {
                    let index = frame.path.last().copied().unwrap_or(0);
                    node.done += 1;
                    node.results.put(index, result, block.kind.retain_iterations());
                    if let Ended::Failed(error) = &ended {
                        node.results.put_error(index, &error.code);
                    }
                    if !block.kind.continues_on_error() || ended == Ended::Cancelled {
                        node.ended.and(&ended);
                    }
                }
                NodeKind::ForEach(node) => {
                    let index = frame.path.last().copied().unwrap_or(0);
                    node.done += 1;
                    node.results.put(index, result, block.kind.retain_iterations());
                    if let Ended::Failed(error) = &ended {
                        node.results.put_error(index, &error.code);
                    }
                    if !block.kind.continues_on_error() || ended == Ended::Cancelled {
                        node.ended.and(&ended);
                    }
                }
            }
        });
    }

    fn ready(&mut self, program: &Program, at: Millis, no: NodeNo) {
        let deadline = self.step_of(program, no).and_then(|step| step.deadline_ms);
        self.edit_step(no, |step| {
            step.phase = Phase::Ready;
            step.ready_at = at;
            step.deadline_at = deadline.map(|ms| at.plus(ms));
        });
    }

    fn gate(&mut self, program: &Program, at: Millis, no: NodeNo) {
        let timeout = self.step_of(program, no).and_then(|step| step.gate.as_ref()?.timeout_ms);
        self.phase(no, Phase::Gate(timeout.map(|ms| at.plus(ms))));
    }

    fn answer(&mut self, program: &Program, no: NodeNo, choice: u32, kept: Option<u32>) {
        if let Some(kept) = kept {
            self.state.answers.remove(kept as usize);
        }
        let Some(node) = self.state.nodes.get(&no) else { return };
        let block = program.block(BlockIx(node.block));
        if let Some(gate) = block.kind.step().and_then(|step| step.gate.as_ref())
            && let Some((_, value)) = gate.choices.get(choice as usize)
        {
            self.state.data.set(gate.store_as.as_deref().unwrap_or(&block.id), value.clone());
        }
        self.phase(no, Phase::Ready);
    }

    fn sleep(&mut self, program: &Program, at: Millis, no: NodeNo, until: Millis) {
        let timeout = self.step_of(program, no).and_then(|step| step.timeout_ms).map(|ms| at.plus(ms));
        let timeout_at = timeout.filter(|timeout| *timeout < until);
        self.phase(no, Phase::Sleep { until, timeout_at });
    }

    fn end(&mut self, no: NodeNo, how: &How, row: Option<&OutputRecord>, merge: bool) {
        link_live_row(&mut self.state, no, false);
        let Some(node) = self.state.nodes.remove(&no) else { return };
        self.index.remove(no, &node);
        let value = row.map(|row| Shared::new(row.output.clone()));
        if let Some(row) = row {
            self.state.rows_made = row.seq;
        }
        let ended = match how {
            How::Completed | How::Skipped => Ended::Completed,
            How::Inherited => node.ended(),
            How::Failed(error) => Ended::Failed(Shared::new(error.as_ref().clone())),
            How::Cancelled => Ended::Cancelled,
        };
        if let (How::Cancelled, Some(step)) = (how, node.step())
            && step.phase == Phase::Sent
        {
            self.remember(Delivery(no, step.attempt, step.claim_epoch()));
        }
        if let (true, Some(Value::Object(output))) = (merge, value.as_deref()) {
            let kept = output.iter().filter(|(key, _)| !key.starts_with('_'));
            kept.for_each(|(key, value)| self.state.data.set(key, value.clone()));
        }
        self.show(&node, value.as_ref(), &ended);
        let Some(frame) = self.state.frames.get_mut(&node.frame) else { return };
        frame.node = None;
        if ended.is_fine() && frame.wants_results() && *how != How::Skipped {
            frame.result = match &node.kind {
                NodeKind::Step(_) => value,
                NodeKind::Parallel(_)
                | NodeKind::Router(_)
                | NodeKind::TryCatch(_)
                | NodeKind::Loop(_)
                | NodeKind::ForEach(_) => node.result(),
            };
        }
        frame.last = ended;
    }

    /// Makes a row and an error visible to whoever may see them: in every enclosing iteration and in the root.
    fn show(&mut self, node: &Node, row: Option<&Shared<Value>>, ended: &Ended) {
        let error = match ended {
            Ended::Failed(error) => Some(Shared::new(error.to_value())),
            Ended::Completed | Ended::Cancelled => None,
        };
        let mut at = Some(node.frame);
        while let Some(home) = at.and_then(|at| self.state.frames.get(&at)).map(|frame| frame.home) {
            let Some(frame) = self.state.frames.get_mut(&home) else { return };
            if let Some(row) = row {
                frame.rows.insert(node.block, row.clone());
            }
            if let Some(error) = &error {
                frame.errors.insert(node.block, error.clone());
            }
            at = self.state.nodes.get(&frame.owner).map(|owner| owner.frame);
        }
    }

    fn resume(&mut self) {
        self.state.paused = false;
        let held = std::mem::take(&mut self.state.held);
        self.state.work.extend::<Vec<Work>>(held.into_iter().rev().collect());
    }

    fn finish(&mut self, status: super::Status, error: Option<&StepError>) {
        let sent: Vec<NodeNo> = self.index.sent.iter().copied().collect();
        for no in sent {
            if let Some(step) = self.state.nodes.get(&no).and_then(Node::step) {
                let delivery = Delivery(no, step.attempt, step.claim_epoch());
                self.remember(delivery);
            }
        }
        let state = &mut self.state;
        state.finished = Some(status);
        if let Some(error) = error {
            state.error = Some(Box::new(error.clone()));
        }
        state.paused = false;
        state.frames.clear();
        state.nodes.clear();
        state.root = None;
        state.work.clear();
        state.held.clear();
        state.answers.clear();
        self.index = Default::default();
    }

    fn remember(&mut self, delivery: Delivery) {
        if self.state.cancelled.len() >= CANCELLED_MAX {
            self.state.cancelled.pop_front();
        }
        self.state.cancelled.push_back(delivery);
    }

    fn phase(&mut self, no: NodeNo, phase: Phase) {
        self.edit_step(no, |step| step.phase = phase);
    }

    fn edit_step(&mut self, no: NodeNo, edit: impl FnOnce(&mut StepNode)) {
        self.edit(no, |node| {
            if let Some(step) = node.step_mut() {
                edit(step);
            }
        });
    }

    /// Every change of a node that stays goes through here, so that the index cannot fall behind.
    fn edit(&mut self, no: NodeNo, edit: impl FnOnce(&mut Node)) {
        let Some(node) = self.state.nodes.get_mut(&no) else { return };
        self.index.remove(no, node);
        edit(node);
        self.index.add(no, node);
    }

    fn step_of<'p>(&self, program: &'p Program, no: NodeNo) -> Option<&'p crate::program::Step> {
        program.block(BlockIx(self.state.nodes.get(&no)?.block)).kind.step()
    }
}

impl Node {
    /// `_error` for a body of this node that begins now.
    fn error_for_bodies(&self) -> Option<Shared<Value>> {
        match &self.kind {
            NodeKind::TryCatch(node) => node.seen.as_ref().map(|error| Shared::new(error.to_value())),
            NodeKind::Step(_)
            | NodeKind::Parallel(_)
            | NodeKind::Router(_)
            | NodeKind::Loop(_)
            | NodeKind::ForEach(_) => None,
        }
    }

    /// A body of this node has begun.
    fn begun(&mut self, index: Option<u32>) {
        match &mut self.kind {
            NodeKind::Loop(node) => node.poll = None,
            NodeKind::ForEach(node) => node.next = index.map_or(node.next, |index| index + 1),
            NodeKind::Step(_) | NodeKind::Parallel(_) | NodeKind::Router(_) | NodeKind::TryCatch(_) => {}
        }
    }
}
