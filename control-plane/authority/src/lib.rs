//! Pure judgements of the control plane. No store, no clock, no wire: facts in, verdict out.

mod assign;
mod confirm;
mod credential;
mod placement;
mod store;

pub use assign::{Given, Holder, Lease, Node, assign};
pub use confirm::{Confirmed, EPOCH_LEAP_MAX, Hearing, is_believable, judge_confirmation};
pub use credential::{CredentialProblem, NotYours, judge_credential, judge_granter};
pub use placement::{Advance, judge_placement};
pub use store::{OfferProblem, StoreKind, StoreShape, judge_offer};
