//! The rules every body follows: its blocks in order; it ends with the first block that fails or is cancelled.

use orch8_model::limits::{ACTIVATIONS_MAX, LIVE_NODES_MAX};

use super::{Run, own_error};
use crate::{
    instance::{Ended, Frame, FrameNo, NodeNo},
    program::{Block, BodyIx, Kind},
    record::{Change, How, Work},
};

impl Run<'_> {
    /// Goes on with a body whose current block has ended: starts the next block, or ends the body.
    pub(super) fn next(&mut self, no: FrameNo) {
        let Some(frame) = self.instance.state.frames.get(&no) else { return };
        if frame.node.is_some() {
            return;
        }
        let blocks = &self.program.body(BodyIx(frame.body)).blocks;
        if frame.doomed || !frame.last.is_fine() || frame.cursor as usize >= blocks.len() {
            self.close_body(no);
        } else if self.instance.state.nodes_made >= ACTIVATIONS_MAX {
            self.step_limit();
        } else {
            self.commit(Change::Start(no));
            self.activate(NodeNo(self.instance.state.nodes_made));
        }
    }

    fn activate(&mut self, no: NodeNo) {
        let Some(block) = self.block_of(no) else { return };
        match &block.kind {
            Kind::Step(step) => self.activate_step(no, step),
            Kind::Parallel { branches, .. } => self.activate_parallel(no, branches),
            Kind::Router { routes, default } => self.activate_router(no, routes, *default),
            Kind::TryCatch { .. } => self.activate_try(no),
            Kind::Loop(looping) => self.iterate(no, looping),
            Kind::ForEach(each) => self.activate_each(no, each),
        }
    }

    /// Ends a body and tells the block whose body it is.
    fn close_body(&mut self, no: FrameNo) {
        let Some(frame) = self.instance.state.frames.get(&no) else { return };
        let (owner, branch, index) = (frame.owner, frame.branch, frame.path.last().copied());
        let ended = frame.ended();
        self.mourn(no);
        self.commit(Change::Close(no));
        if owner == NodeNo::default() {
            return self.finish_root(ended);
        }
        let Some(block) = self.block_of(owner) else { return };
        match &block.kind {
            Kind::Step(_) => {}
            Kind::Parallel { fail_fast, .. } => self.branch_ended(owner, *fail_fast, &ended),
            Kind::Router { .. } => self.end_composite(owner),
            Kind::TryCatch { .. } => self.phase_ended(owner, branch),
            Kind::Loop(looping) => self.iteration_ended(owner, looping, index.unwrap_or(0), &ended),
            Kind::ForEach(each) => self.item_ended(owner, each),
        }
    }

    /// Ends a composite as its bodies say, or cancelled when it stands in a cancelled body.
    pub(super) fn end_composite(&mut self, no: NodeNo) {
        let Some(node) = self.node(no) else { return };
        let how = match node.ended() {
            Ended::Failed(error) if self.doomed(no) => {
                self.mourn_error(&error);
                How::Cancelled
            }
            Ended::Completed if self.doomed(no) => How::Cancelled,
            Ended::Completed => How::Completed,
            Ended::Failed(_) => How::Inherited,
            Ended::Cancelled => How::Cancelled,
        };
        self.end(no, how, None, false);
    }

    /// Ends a composite with an error of its own.
    pub(super) fn fail_composite(&mut self, no: NodeNo, code: &str, message: &str) {
        let Some(block) = self.block_of(no) else { return };
        let how = match self.doomed(no) {
            true => How::Cancelled,
            false => How::Failed(own_error(block, code, message)),
        };
        self.end(no, how, None, false);
    }

    /// Whether `count` more bodies may be live. A live body holds at most one live block, so bounding bodies bounds
    /// blocks.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.instance.state.frames.len() + count <= LIVE_NODES_MAX
    }

    /// Ends a composite that would need more live bodies than an instance may have.
    pub(super) fn refuse_room(&mut self, no: NodeNo) {
        let live = self.instance.state.frames.len();
        let message = format!("{live} blocks are live, at most {LIVE_NODES_MAX} are allowed at a time");
        self.fail_composite(no, "TOO_MANY_NODES", &message);
    }

    /// Opens bodies and puts them to work, the first one first.
    pub(super) fn open_all(&mut self, owner: NodeNo, bodies: impl Iterator<Item = (u32, Option<u32>)>) {
        let frames: Vec<FrameNo> = bodies.map(|(branch, index)| self.open(owner, branch, index)).collect();
        frames.into_iter().rev().for_each(|frame| self.go_on(Work::Next(frame)));
    }

    /// Keeps the error of a protected part that failed after a cancel.
    fn mourn(&mut self, no: FrameNo) {
        if let Some(Frame { doomed: true, last: Ended::Failed(error), .. }) =
            self.instance.state.frames.get(&no)
        {
            let error = error.clone();
            self.mourn_error(&error);
        }
    }

    fn mourn_error(&mut self, error: &orch8_model::StepError) {
        if self.instance.state.cancel.is_some() {
            self.commit(Change::Mourn(Box::new(error.clone())));
        }
    }

    /// Whether a body has nothing to run.
    pub(super) fn is_empty(&self, body: BodyIx) -> bool {
        self.program.body(body).blocks.is_empty()
    }
}

/// The parts of a try_catch, or nothing for another block.
pub(super) fn try_parts(block: &Block) -> Option<(BodyIx, Option<BodyIx>)> {
    match &block.kind {
        Kind::TryCatch { try_: _, catch, finally } => Some((*catch, *finally)),
        Kind::Step(_) | Kind::Parallel { .. } | Kind::Router { .. } | Kind::Loop(_) | Kind::ForEach(_) => {
            None
        }
    }
}
