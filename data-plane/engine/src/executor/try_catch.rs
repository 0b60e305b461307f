//! try_catch: try, then catch if it failed, then finally whatever happened.

use super::{Run, body::try_parts};
use crate::instance::{CATCH, Ended, FINALLY, NodeKind, NodeNo, TRY};

impl Run<'_> {
    pub(super) fn activate_try(&mut self, no: NodeNo) {
        if self.has_room(1) {
            self.open_all(no, std::iter::once((TRY, None)));
        } else {
            self.refuse_room(no);
        }
    }

    /// What follows a body. A try that failed shows as an error that is seen while nothing has ended badly yet; a
    /// cancelled one shows none, so that after a cancel no catch starts.
    pub(super) fn phase_ended(&mut self, no: NodeNo, branch: u32) {
        let Some((catch, finally)) = self.block_of(no).and_then(try_parts) else { return };
        let Some(NodeKind::TryCatch(node)) = self.node(no).map(|node| &node.kind) else { return };
        let failed = branch == TRY && node.seen.is_some() && node.ended == Ended::Completed;
        if failed && !self.is_empty(catch) && !self.doomed(no) {
            self.open_all(no, std::iter::once((CATCH, None)));
        } else if branch != FINALLY && finally.is_some() {
            self.open_all(no, std::iter::once((FINALLY, None)));
        } else {
            self.end_composite(no);
        }
    }
}
