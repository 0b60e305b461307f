//! What goes on by itself until the control plane closes: seeing what other replicas wrote, and leading the fleet.

mod follow_others;
mod lead;

pub use follow_others::follow_others;
pub use lead::lead;
