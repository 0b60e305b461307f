//! Write an Orch8 worker: a handler, a credential, run.
//!
//! ```no_run
//! use orch8_worker::{StepContext, StepError, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Charge {
//!     customer: String,
//!     cents: u64,
//! }
//!
//! #[derive(Serialize)]
//! struct Receipt {
//!     charge_id: String,
//! }
//!
//! # async fn ask_the_bank(_: &Charge, key: &str) -> Result<String, std::io::Error> { Ok(key.to_owned()) }
//! #[tokio::main]
//! async fn main() -> Result<(), orch8_worker::WorkerError> {
//!     Worker::builder("http://127.0.0.1:7233")
//!         .credential("the worker's key")
//!         .handler("charge", |ctx: StepContext, input: Charge| async move {
//!             if input.cents == 0 {
//!                 return Err(StepError::permanent("there is nothing to charge").code("EMPTY_CHARGE"));
//!             }
//!             // The same key for every try of this step: the bank charges once, however often we ask.
//!             let charge_id = ask_the_bank(&input, ctx.idempotency_key()).await?;
//!             Ok(Receipt { charge_id })
//!         })
//!         .max_in_flight(16)
//!         .run(orch8_worker::termination())
//!         .await
//! }
//! ```
//!
//! What the crate does so that a handler need not: it reconnects with jittered back-off and keeps what runs, sends
//! results again until they are committed, cancels the context of a step that is no longer wanted, turns a panic
//! into a retryable failure, and on shutdown finishes what it has.
//!
//! A step may run more than once (its worker can vanish at any moment). [`StepContext::idempotency_key`] is what makes
//! that harmless.

mod backoff;
mod builder;
mod context;
mod error;
mod handler;
mod ledger;
mod link;
mod runner;

pub use builder::{Worker, WorkerBuilder, termination};
pub use context::{ProgressError, StepContext};
pub use error::{StepError, WorkerError};
