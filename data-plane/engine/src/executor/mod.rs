//! The one executor: applies one event to one instance.

use orch8_model::Millis;

use crate::{
    action::Action,
    event::{Event, Verdict},
    instance::Instance,
    program::Program,
    record::TurnRecord,
};

/// What one event did.
#[derive(Debug)]
pub struct Turn {
    /// What to append to the journal. `None`: nothing changed, nothing is to be committed.
    pub record: Option<TurnRecord>,
    /// What to do after the commit, in order.
    pub actions: Vec<Action>,
    /// Present for [`Event::Reported`].
    pub verdict: Option<Verdict>,
}

/// Applies `event` at `now`. `seed` feeds `random()`, `uuid()` and jitter. The state has moved on when this returns;
/// a turn that is not committed is undone by reading the instance again.
pub fn turn(program: &Program, instance: &mut Instance, event: Event, now: Millis, seed: u64) -> Turn {
    let _ = (program, instance, event, now, seed);
    unimplemented!()
}
