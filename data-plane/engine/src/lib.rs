//! Pure decisions: events in, state and actions out. No clock, no randomness, no I/O; everything arrives as an argument.
//!
//! - [`publish`] turns a submitted document into a [`Program`], or says everything that is wrong with it.
//! - [`Instance`] is the state of one run; [`turn`] applies one [`Event`] to it and answers a [`Turn`]:
//!   the record to append to the journal, and the [`Action`]s to perform once that is committed.
//! - [`expr`] and [`template`] are the language inside documents: one parser for publishing and running.
//! - [`Fair`](fairness::Fair) is the deficit round robin that every queue shared by tenants uses.

pub mod action;
pub mod event;
pub mod executor;
pub mod expr;
pub mod fairness;
pub mod instance;
pub mod nearest;
pub mod program;
pub mod publish;
pub mod record;
pub mod retry;
pub mod scope;
pub mod template;
pub mod timeline;

pub use action::{Action, Dispatch};
pub use event::{Event, HowLost, Outcome, Signal, SignalKind, Verdict};
pub use executor::{Turn, turn};
pub use instance::{Birth, Instance, NodeNo, Status};
pub use program::Program;
pub use record::TurnRecord;
