//! The alarm of a shard: which instance has to be woken when. One entry per instance, its earliest timer.

use std::collections::BTreeSet;

use orch8_model::{InstanceId, Millis};

/// Alarms in order of time.
#[derive(Debug, Default)]
pub struct Wheel {
    alarms: BTreeSet<(Millis, InstanceId)>,
}

impl Wheel {
    /// Moves an instance's alarm from `old` to `new`.
    pub fn set(&mut self, instance: InstanceId, old: Option<Millis>, new: Option<Millis>) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.alarms.remove(&(at, instance));
        }
        if let Some(at) = new {
            self.alarms.insert((at, instance));
        }
    }

    /// The earliest alarm.
    pub fn next(&self) -> Option<Millis> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Takes one alarm that is due.
    pub fn pop_due(&mut self, now: Millis) -> Option<InstanceId> {
        self.next().filter(|at| *at <= now)?;
        self.alarms.pop_first().map(|(_, instance)| instance)
    }
}
