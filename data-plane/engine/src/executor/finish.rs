//! The one way an instance ends, whatever ended it. It happens once: afterwards the instance takes no event.

use orch8_model::{StepError, limits::ACTIVATIONS_MAX};
use serde_json::Value;

use super::Run;
use crate::{
    action::Action,
    instance::{Ended, NodeNo, Status},
    record::Change,
};

impl Run<'_> {
    /// The root body has ended.
    pub(super) fn finish_root(&mut self, ended: Ended) {
        match ended {
            Ended::Completed => self.finish(Status::Completed, None),
            Ended::Failed(error) => self.finish(Status::Failed, Some(Box::new((*error).clone()))),
            Ended::Cancelled => self.finish(Status::Cancelled, None),
        }
    }

    /// More activations than one instance may have.
    pub(super) fn step_limit(&mut self) {
        let message = format!("{ACTIVATIONS_MAX} blocks have been activated, more are not allowed");
        let mut error = StepError::new("STEP_LIMIT", &message, false, Value::Null);
        error.source = "engine".to_owned();
        self.finish(Status::Failed, Some(Box::new(error)));
    }

    /// Ends the instance. An accepted cancel always ends cancelled; an error is kept to be shown.
    pub(super) fn finish(&mut self, status: Status, error: Option<Box<StepError>>) {
        if self.ended() {
            return;
        }
        let status = if self.instance.state.cancel.is_some() { Status::Cancelled } else { status };
        let open: Vec<NodeNo> = self.instance.index.sent.iter().copied().collect();
        open.into_iter().for_each(|no| self.withdraw(no, "instance_ended"));
        self.fresh.clear();
        self.commit_to_work(Change::Finish { status, error });
        self.actions.push(Action::Closed);
    }
}
