//! parallel: all branches start together, each goes its own way, and the block ends when all have.

use super::Run;
use crate::{
    instance::{Ended, NodeNo},
    program::BodyIx,
};

impl Run<'_> {
    /// Opens every branch that has something to run.
    pub(super) fn activate_parallel(&mut self, no: NodeNo, branches: &[BodyIx]) {
        let busy: Vec<u32> = (0..)
            .zip(branches)
            .filter(|(_, body)| !self.is_empty(**body))
            .map(|(branch, _)| branch)
            .collect();
        if busy.is_empty() {
            self.end_composite(no);
        } else if !self.has_room(busy.len()) {
            self.refuse_room(no);
        } else {
            self.open_all(no, busy.into_iter().map(|branch| (branch, None)));
        }
    }

    /// The first failure decides which error the block hands up; with `fail_fast` it also cancels the others.
    pub(super) fn branch_ended(&mut self, no: NodeNo, fail_fast: bool, ended: &Ended) {
        let Some(node) = self.node(no) else { return };
        if node.open.is_empty() {
            self.end_composite(no);
        } else if fail_fast && matches!(ended, Ended::Failed(_)) {
            self.cancel_bodies(no, "fail_fast");
        }
    }
}
