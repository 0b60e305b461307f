//! Pure judgements of the control plane. No store, no clock, no wire: facts in, verdict out.

mod credential;
mod placement;

pub use credential::{CredentialProblem, NotYours, judge_credential, judge_granter};
pub use placement::{Advance, judge_placement};
