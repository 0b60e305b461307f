//! What may be written, and what is answered. Pure: facts in, answers out; both databases ask here.

pub(super) mod messages;
pub(super) mod starts;
pub(super) mod turns;
