//! A step's way from its activation to its handler: `when`, delay, gate, then the handler, each once per activation.

use super::{Run, own_error, view::Place};
use crate::{
    instance::{NodeNo, Phase},
    program::{Handler, Step},
    record::{Change, How},
};

impl Run<'_> {
    pub(super) fn activate_step(&mut self, no: NodeNo, step: &Step) {
        match &step.when {
            None => {}
            Some(Err(syntax)) => return self.refuse_step(no, "EXPRESSION_SYNTAX", &syntax.to_string()),
            Some(Ok(when)) => match self.holds(Place::node(no), when) {
                Err(error) => return self.refuse_step(no, error.code, &error.message),
                Ok(false) => return self.end(no, How::Skipped, None, false),
                Ok(true) => {}
            },
        }
        match &step.delay {
            Some(delay) => {
                let until = self.delay_until(delay);
                self.set_timer(no, Change::Delay(no, until));
            }
            None => {
                if step.deadline_ms.is_some() {
                    self.timed.insert(no);
                }
                self.pass_gate(no, step);
            }
        }
    }

    /// The delay is over.
    pub(super) fn delay_passed(&mut self, no: NodeNo) {
        let Some(step) = self.step_of(no) else { return };
        self.set_timer(no, Change::Ready(no));
        self.pass_gate(no, step);
    }

    fn pass_gate(&mut self, no: NodeNo, step: &Step) {
        match &step.gate {
            Some(gate) => self.open_gate(no, gate),
            None => self.run_handler(no, step),
        }
    }

    /// Work left from an earlier turn: the step has everything it waited for.
    pub(super) fn run_ready(&mut self, no: NodeNo) {
        if let (Some(Phase::Ready), Some(step)) =
            (self.step_node(no).map(|step| step.phase), self.step_of(no))
        {
            self.run_handler(no, step);
        }
    }

    /// Runs a try here, or queues it for the workers.
    pub(super) fn run_handler(&mut self, no: NodeNo, step: &Step) {
        if self.deadline_passed(no) {
            return self.deadline_breached(no);
        }
        match &step.handler {
            Handler::Worker(_) => drop(self.fresh.insert(no)),
            Handler::Noop
            | Handler::Log
            | Handler::Sleep
            | Handler::Fail
            | Handler::Transform(_)
            | Handler::Assert { .. }
            | Handler::Invalid { .. }
            | Handler::Unsupported(_) => self.run_in_process(no, step),
        }
    }

    pub(super) fn deadline_passed(&self, no: NodeNo) -> bool {
        self.step_node(no).and_then(|step| step.deadline_at).is_some_and(|at| at <= self.now)
    }

    /// Ends a step that failed before or beside its tries: no retry helps.
    pub(super) fn refuse_step(&mut self, no: NodeNo, code: &str, message: &str) {
        let (Some(block), Some(step)) = (self.block_of(no), self.step_node(no)) else { return };
        let mut error = own_error(block, code, message);
        error.attempt = step.attempt;
        self.end(no, How::Failed(error), None, false);
    }
}
