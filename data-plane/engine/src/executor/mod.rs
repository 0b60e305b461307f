//! The one executor: applies one event to one instance.
//!
//! A turn is: take the event ([`outcome`], [`timer`], [`signal`]), advance what can advance ([`body`] walks the frames
//! by a work-list, never by recursion; each kind of block has its own file), send what is ready ([`dispatch`], the one
//! place where a try leaves), and close the record. [`outcome`] is the one place where a try ends, [`finish`] the one
//! place where an instance ends.
//!
//! **Invariant:** the state is changed by [`Run::commit`] only, which applies a change and records it: replaying the
//! record gives the state. **Invariant:** nothing here looks at a block that has ended.

mod body;
mod cancel;
mod delay;
mod depth;
mod dispatch;
mod finish;
mod for_each;
mod gate;
mod in_process;
mod looping;
mod outcome;
mod parallel;
mod rng;
mod router;
mod signal;
mod step;
mod timer;
mod try_catch;
mod view;

use std::collections::BTreeSet;

use orch8_model::{Millis, StepError};
use serde_json::Value;

pub(crate) use dispatch::dispatch_of;

use crate::{
    action::Action,
    event::{Event, Verdict},
    expr::{EvalError, Expr},
    instance::{FrameNo, Instance, Node, NodeNo, StepNode},
    program::{Block, BlockIx, Program, Step},
    record::{Cause, Change, How, Note, OutputRecord, TurnRecord, Work},
    template::Template,
};
use rng::Rng;
use view::{Place, View};

/// Node transitions of one turn. A longer way is gone in several turns, so that no instance holds its owner for long
/// and no record grows without bound.
pub const TRANSITIONS_MAX: usize = 1_000;

/// What one event did.
#[derive(Debug)]
pub struct Turn {
    /// What to append to the journal. `None`: nothing changed, nothing is to be committed.
    pub record: Option<TurnRecord>,
    /// What to do after the commit, in order.
    pub actions: Vec<Action>,
    /// Present for [`Event::Reported`].
    pub verdict: Option<Verdict>,
}

/// Applies `event` at `now`. `seed` feeds `random()`, `uuid()` and jitter. The state has moved on when this returns;
/// a turn that is not committed is undone by reading the instance again.
pub fn turn(program: &Program, instance: &mut Instance, event: Event, now: Millis, seed: u64) -> Turn {
    let mut run = Run::new(program, instance, event.cause(), now, seed);
    run.take(event);
    run.settle();
    run.close()
}

/// One turn in the making.
struct Run<'a> {
    program: &'a Program,
    instance: &'a mut Instance,
    now: Millis,
    rng: Rng,
    record: TurnRecord,
    actions: Vec<Action>,
    verdict: Option<Verdict>,
    transitions: usize,
    /// Steps that became ready for the workers in this turn.
    fresh: BTreeSet<NodeNo>,
    /// A step whose delivery never began: it goes out again before anything else.
    resend: Option<NodeNo>,
    /// Nodes whose timer was set in this turn.
    timed: BTreeSet<NodeNo>,
    /// Length of the work-list as a replay has it before this turn's own [`Change::Leave`], and how far down this
    /// turn has reached into it.
    work_base: usize,
    work_floor: usize,
    /// The event deserves a record even if it changed nothing: a message was consumed.
    consumed: bool,
}

impl Event {
    fn cause(&self) -> Cause {
        match self {
            Event::Start => Cause::Start,
            Event::Wake => Cause::Wake,
            Event::Continue => Cause::Continue,
            Event::Reported { .. } => Cause::Reported,
            Event::Lost { .. } => Cause::Lost,
            Event::Signal(_) => Cause::Signal,
        }
    }
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, instance: &'a mut Instance, cause: Cause, now: Millis, seed: u64) -> Self {
        Self {
            program,
            now,
            rng: Rng::new(seed),
            record: TurnRecord { at: now, cause, ..TurnRecord::default() },
            actions: Vec::new(),
            verdict: None,
            transitions: 0,
            fresh: BTreeSet::new(),
            resend: None,
            timed: BTreeSet::new(),
            work_base: instance.state.work.len(),
            work_floor: instance.state.work.len(),
            consumed: false,
            instance,
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Start => self.begin(),
            Event::Wake | Event::Continue => self.fire_due_timers(),
            Event::Reported { node, attempt, claim_epoch, outcome } => {
                self.verdict = Some(self.reported(node, attempt, claim_epoch, outcome));
            }
            Event::Lost { node, attempt, claim_epoch, how } => self.lost(node, attempt, claim_epoch, how),
            Event::Signal(signal) => self.receive(signal),
        }
    }

    /// Opens the root body, once.
    fn begin(&mut self) {
        if !self.ended() && self.instance.state.frames_made == 0 {
            let root = self.open(NodeNo::default(), 0, None);
            self.go_on(Work::Next(root));
        }
    }

    /// Advances what can advance and sends what is ready, until neither is left or the turn is full.
    fn settle(&mut self) {
        loop {
            self.drain();
            if self.paused() || self.ended() || !self.send_one() {
                return;
            }
        }
    }

    /// Works the list down.
    fn drain(&mut self) {
        while !self.full() && !self.paused() && !self.ended() {
            let Some(work) = self.instance.state.work.pop() else { return };
            self.work_floor = self.work_floor.min(self.instance.state.work.len());
            self.transitions += 1;
            match work {
                Work::Next(frame) => self.next(frame),
                Work::Run(node) => self.run_ready(node),
            }
        }
    }

    /// Completes the record and says what follows from the state that was reached.
    fn close(mut self) -> Turn {
        for no in std::mem::take(&mut self.fresh).into_iter().chain(self.resend.take()) {
            if self.node(no).is_some() {
                self.commit(Change::Queue(no));
            }
        }
        self.leave_work();
        for no in std::mem::take(&mut self.timed) {
            if let Some(at) = self.node(no).and_then(Node::wake_at) {
                self.actions.push(Action::WakeAt { node: no, at });
            }
        }
        if self.has_more() {
            self.actions.push(Action::Continue);
        }
        let record = &self.record;
        let unchanged = record.changes.is_empty() && record.outputs.is_empty() && record.notes.is_empty();
        if unchanged && !self.consumed {
            return Turn { record: None, actions: self.actions, verdict: self.verdict };
        }
        self.instance.state.turns += 1;
        Turn { record: Some(self.record), actions: self.actions, verdict: self.verdict }
    }

    /// Records what is left of the work-list: how much of the old one, and what is new on top of it.
    fn leave_work(&mut self) {
        let work = &self.instance.state.work;
        let keep = self.work_floor.min(work.len());
        if keep < self.work_base || work.len() > keep {
            let push = work[keep..].to_vec();
            self.record.changes.push(Change::Leave { keep, push });
        }
    }

    /// Applies a change and records it.
    fn commit(&mut self, change: Change) {
        self.instance.change(self.program, self.now, &change, &mut [].iter());
        self.record.changes.push(change);
    }

    /// Applies a change that rewrites the work-list itself.
    fn commit_to_work(&mut self, change: Change) {
        self.commit(change);
        self.work_base = self.instance.state.work.len();
        self.work_floor = self.work_base;
    }

    /// Ends a node: its row, if it has one, is written, and its body goes on.
    fn end(&mut self, no: NodeNo, how: How, row: Option<Value>, merge: bool) {
        let Some(node) = self.instance.state.nodes.get(&no) else { return };
        let frame = node.frame;
        let rows = row.map(|output| self.output_record(no, node, output));
        let change = Change::End { node: no, how, row: rows.is_some(), merge };
        self.instance.change(self.program, self.now, &change, &mut rows.as_slice().iter());
        self.record.outputs.extend(rows);
        self.record.changes.push(change);
        self.go_on(Work::Next(frame));
    }

    fn output_record(&self, no: NodeNo, node: &Node, output: Value) -> OutputRecord {
        let frame = self.instance.state.frames.get(&node.frame);
        OutputRecord {
            seq: self.instance.state.rows_made + 1,
            node: no,
            block_id: self.program.block(BlockIx(node.block)).id.to_string(),
            iteration: frame.map(|frame| frame.iteration_text()).unwrap_or_default(),
            attempt: node.step().map_or(0, |step| step.attempt),
            output,
        }
    }

    /// Opens a body below a node.
    fn open(&mut self, owner: NodeNo, branch: u32, index: Option<u32>) -> FrameNo {
        self.commit(Change::Open { owner, branch, index });
        FrameNo(self.instance.state.frames_made)
    }

    /// Puts work on top of the list; a paused instance keeps it for later.
    fn go_on(&mut self, work: Work) {
        if self.paused() {
            self.commit(Change::Hold(work));
        } else {
            self.instance.state.work.push(work);
        }
    }

    /// Sets a timer of a node.
    fn set_timer(&mut self, no: NodeNo, change: Change) {
        self.commit(change);
        self.timed.insert(no);
    }

    fn note(&mut self, code: &str, message: String) {
        self.record.notes.push(Note { code: code.to_owned(), message });
    }

    fn eval(&self, place: Place, expr: &Expr) -> Result<Value, EvalError> {
        expr.eval(&View::new(self.program, self.instance, place, self.now, &self.rng, None))
    }

    /// Evaluates a condition.
    fn holds(&self, place: Place, expr: &Expr) -> Result<bool, EvalError> {
        expr.holds(&View::new(self.program, self.instance, place, self.now, &self.rng, None))
    }

    fn render(&self, place: Place, template: &Template) -> Result<Value, EvalError> {
        template.render(&View::new(self.program, self.instance, place, self.now, &self.rng, None))
    }

    fn node(&self, no: NodeNo) -> Option<&Node> {
        self.instance.state.nodes.get(&no)
    }

    fn step_node(&self, no: NodeNo) -> Option<&StepNode> {
        self.node(no)?.step()
    }

    fn block_of(&self, no: NodeNo) -> Option<&'a Block> {
        self.node(no).map(|node| self.program.block(BlockIx(node.block)))
    }

    fn step_of(&self, no: NodeNo) -> Option<&'a Step> {
        self.block_of(no)?.kind.step()
    }

    /// The body in which a node stands is cancelled.
    fn doomed(&self, no: NodeNo) -> bool {
        self.node(no).and_then(|node| self.instance.state.frames.get(&node.frame)).is_some_and(|at| at.doomed)
    }

    fn full(&self) -> bool {
        self.transitions >= TRANSITIONS_MAX
    }

    fn paused(&self) -> bool {
        self.instance.state.paused
    }

    fn ended(&self) -> bool {
        self.instance.state.finished.is_some()
    }

    /// Something is left that could go on at once.
    fn has_more(&self) -> bool {
        let due = self.instance.index.timers.first().is_some_and(|(at, _)| *at <= self.now);
        let asked = matches!(self.record.cause, Cause::Wake | Cause::Continue) || self.full();
        !self.paused() && !self.ended() && (!self.instance.state.work.is_empty() || due && asked)
    }
}

/// An error that a block reports of itself.
fn own_error(block: &Block, code: &str, message: &str) -> Box<StepError> {
    let mut error = StepError::new(code, message, false, Value::Null);
    let source = match block.kind.step() {
        Some(_) => "step",
        None => block.kind.name(),
    };
    error.source = source.to_owned();
    error.block_id = block.id.to_string();
    error.leaf_block = block.id.to_string();
    Box::new(error)
}
