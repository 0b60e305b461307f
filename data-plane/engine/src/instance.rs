//! The state of one run.

use orch8_model::{ContinuityId, InstanceId, Millis, StepError, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{action::Dispatch, program::Program, record::TurnRecord};

/// Number of a node within its instance, from 1 in activation order. 0 = the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeNo(pub u64);

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Scheduled,
    Running,
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// Completed, failed or cancelled.
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

/// What an instance is born with.
#[derive(Clone, Debug, PartialEq)]
pub struct Birth {
    pub tenant: TenantId,
    pub instance: InstanceId,
    /// The id the execution was born with; equal to the instance id unless it moved here.
    pub continuity: ContinuityId,
    pub data: Map<String, Value>,
    pub config: Map<String, Value>,
    /// IANA zone.
    pub timezone: String,
    pub created_at: Millis,
    /// Not before this instant.
    pub fire_at: Millis,
}

/// The state of one run. Changed only by [`crate::turn`] and [`Instance::apply`].
#[derive(Debug)]
pub struct Instance {
    birth: Birth,
}

impl Instance {
    /// A run before its first turn.
    pub fn new(birth: Birth) -> Self {
        Self { birth }
    }

    /// Reads a snapshot back. Errors: a text this version did not write.
    pub fn restore(birth: Birth, snapshot: &str) -> Result<Self, String> {
        let _ = snapshot;
        Ok(Self { birth })
    }

    /// Everything needed to go on, as compact JSON text; does not grow with history.
    pub fn snapshot(&self) -> String {
        unimplemented!()
    }

    /// Applies the record of a committed turn: what a turn did to the state, `apply` does again.
    pub fn apply(&mut self, program: &Program, record: &TurnRecord) {
        let _ = (program, record);
        unimplemented!()
    }

    /// Number of the next turn: 0 before the first.
    pub fn next_turn(&self) -> u64 {
        unimplemented!()
    }

    pub fn status(&self) -> Status {
        unimplemented!()
    }

    /// A cancel was accepted and protected parts still run.
    pub fn cancelling(&self) -> bool {
        unimplemented!()
    }

    /// Of a failed instance (or a cancelled one in which something had failed).
    pub fn error(&self) -> Option<&StepError> {
        unimplemented!()
    }

    /// Earliest instant at which a timer acts; `None` while paused or when none is set.
    pub fn next_wake(&self) -> Option<Millis> {
        unimplemented!()
    }

    /// Tries that are dispatched and not ended: what an owner puts before the workers again after recovery.
    pub fn open_tasks(&self, program: &Program) -> Vec<Dispatch> {
        let _ = program;
        unimplemented!()
    }

    /// `context.data`.
    pub fn data(&self) -> &Map<String, Value> {
        unimplemented!()
    }

    /// `context.config`.
    pub fn config(&self) -> &Map<String, Value> {
        unimplemented!()
    }

    pub fn birth(&self) -> &Birth {
        &self.birth
    }

    /// Rough resident size, in bytes: what memory bounds count.
    pub fn weight(&self) -> usize {
        unimplemented!()
    }
}
