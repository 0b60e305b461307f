//! What a try_catch knows between its bodies.

use orch8_model::StepError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    frame::Ended,
    kind::{CATCH, FINALLY, TRY},
    shared::Shared,
};

/// Links of a chain of causes that are kept; each nesting of blocks may add one.
const CAUSES_MAX: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TryNode {
    /// How it ends, by what is known so far.
    #[serde(rename = "e", default, skip_serializing_if = "Ended::is_fine")]
    pub ended: Ended,
    /// What `_error` is in the bodies still to come: set when try has failed.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Shared<StepError>>,
    #[serde(
        rename = "v",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::shared::present"
    )]
    pub result: Option<Shared<Value>>,
}

impl TryNode {
    /// A body has ended. `failed`: the direct child that ended last. A failed try counts as completed from here on,
    /// unless a catch says otherwise.
    pub(crate) fn closed(
        &mut self,
        block_id: &str,
        branch: u32,
        ended: Ended,
        failed: Option<&str>,
        result: Option<Shared<Value>>,
    ) {
        match (branch, ended) {
            (TRY | CATCH, ended @ (Ended::Completed | Ended::Cancelled)) => {
                self.ended = ended;
                self.result = result;
            }
            (TRY, Ended::Failed(error)) => {
                let mut caught = (*error).clone();
                caught.failed_blocks = failed.map(str::to_owned).into_iter().collect();
                caught.source = "try_catch".to_owned();
                caught.block_id = block_id.to_owned();
                self.seen = Some(Shared::new(caught));
            }
            (CATCH, Ended::Failed(error)) => {
                let error = Shared::new(caused_by(&error, self.seen.as_deref()));
                self.seen = Some(error.clone());
                self.ended = Ended::Failed(error);
            }
            (FINALLY, Ended::Failed(error)) => {
                let earlier = match &self.ended {
                    Ended::Failed(earlier) => Some(&**earlier),
                    Ended::Completed | Ended::Cancelled => None,
                };
                self.ended = Ended::Failed(Shared::new(caused_by(&error, earlier)));
            }
            (_, ended) => self.ended.and(&ended),
        }
    }
}

/// The later error, with the earlier one at the end of its causes.
fn caused_by(later: &StepError, earlier: Option<&StepError>) -> StepError {
    let mut error = later.clone();
    let mut last = &mut error;
    for _ in 0..CAUSES_MAX {
        match &mut last.cause {
            Some(cause) => last = cause,
            end @ None => {
                *end = earlier.map(|earlier| Box::new(StepError { cause: None, ..earlier.clone() }));
                break;
            }
        }
    }
    error
}
