//! loop: one iteration after another while the condition holds.

use orch8_model::json;

use super::{Run, view::Place};
use crate::{
    instance::{Ended, NodeKind, NodeNo},
    program::Loop,
    record::{Change, How},
};

impl Run<'_> {
    /// Begins the next iteration, or ends the loop.
    pub(super) fn iterate(&mut self, no: NodeNo, looping: &Loop) {
        let Some(NodeKind::Loop(node)) = self.node(no).map(|node| &node.kind) else { return };
        let index = node.done;
        if index >= looping.max_iterations {
            return self.capped(no, looping);
        }
        match self.holds(Place { node: no, iteration: Some(index) }, &looping.condition) {
            Err(error) => self.fail_composite(no, error.code, &error.message),
            Ok(false) => self.end_iterations(no, false),
            Ok(true) if !self.has_room(1) => self.refuse_room(no),
            Ok(true) => self.open_all(no, std::iter::once((0, Some(index)))),
        }
    }

    pub(super) fn iteration_ended(&mut self, no: NodeNo, looping: &Loop, index: u32, ended: &Ended) {
        let stops = match ended {
            Ended::Completed => false,
            Ended::Failed(_) => !looping.continue_on_error,
            Ended::Cancelled => true,
        };
        if stops || self.doomed(no) {
            return self.end_composite(no);
        }
        if let Some(break_on) = &looping.break_on {
            match self.holds(Place { node: no, iteration: Some(index) }, break_on) {
                Err(error) => return self.fail_composite(no, error.code, &error.message),
                Ok(true) => return self.end_iterations(no, false),
                Ok(false) => {}
            }
        }
        match looping.poll_ms {
            Some(ms) if ms > 0 && index + 1 < looping.max_iterations => {
                self.set_timer(no, Change::Poll(no, self.now.plus(ms)));
            }
            Some(_) | None => self.iterate(no, looping),
        }
    }

    fn capped(&mut self, no: NodeNo, looping: &Loop) {
        if looping.fail_on_max {
            let message = format!("still running after {} iterations", looping.max_iterations);
            self.fail_composite(no, "MAX_ITERATIONS", &message);
        } else {
            self.end_iterations(no, true);
        }
    }

    /// Ends a loop or for_each that did not fail: its row is stored now, once.
    pub(super) fn end_iterations(&mut self, no: NodeNo, capped: bool) {
        if self.doomed(no) {
            return self.end_composite(no);
        }
        let item_var = self.item_var(no);
        let Some(row) = self.node(no).and_then(|node| node.live_row(capped, item_var)) else { return };
        // The row puts two levels around each result.
        if let Err(problem) = json::check_value(&row) {
            let message = format!("{} of the results {}", problem.pointer, problem.message);
            return self.fail_composite(no, "INVALID_OUTPUT", &message);
        }
        self.end(no, How::Completed, Some(row), false);
    }
}
