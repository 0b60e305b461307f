//! The nouns everybody speaks: typed ids, names with their limits, instants and durations, JSON values, faults.
//!
//! A value of one of these types is valid; there is no `validate()`. This room does no I/O, reads no clock, and knows
//! neither the wire nor any database.

mod database;
mod epoch;
pub mod fault;
mod id;
pub mod json;
pub mod limits;
mod name;
mod role;
mod step_error;
mod time;

pub use database::{DATABASE_URL_MAX, DatabaseUrl, DatabaseUrlError};
pub use epoch::{ClaimEpoch, LeaseEpoch, PlacementEpoch, Shard};
pub use fault::{Fault, FieldProblem, Reason, StatusClass};
pub use id::{ContinuityId, InstanceId, ProcessId, SequenceId, TaskId};
pub use name::{
    BlockId, HandlerName, IdempotencyKey, NameProblem, Namespace, NodeName, SequenceName, SignalId,
    StoreName, TenantId, WorkerId,
};
pub use role::{Role, Roles};
pub use step_error::StepError;
pub use time::{Millis, TimeProblem, parse_duration, parse_instant};
