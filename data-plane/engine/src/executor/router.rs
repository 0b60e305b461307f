//! router: the first route whose condition holds, judged once.

use super::{Run, view::Place};
use crate::{expr::Expr, instance::NodeNo, program::BodyIx};

impl Run<'_> {
    pub(super) fn activate_router(&mut self, no: NodeNo, routes: &[(Expr, BodyIx)], default: Option<BodyIx>) {
        for (branch, (condition, _)) in (0..).zip(routes) {
            match self.holds(Place::node(no), condition) {
                Ok(true) => return self.take_route(no, branch),
                Ok(false) => {}
                Err(error) => return self.fail_composite(no, error.code, &error.message),
            }
        }
        match (default, u32::try_from(routes.len())) {
            (Some(_), Ok(branch)) => self.take_route(no, branch),
            (Some(_), Err(_)) | (None, _) => self.end_composite(no),
        }
    }

    fn take_route(&mut self, no: NodeNo, branch: u32) {
        if self.has_room(1) {
            self.open_all(no, std::iter::once((branch, None)));
        } else {
            self.refuse_room(no);
        }
    }
}
