//! The doing: shard owners claim instances from stores, turn them with the pure engine, and put steps before workers.
//!
//! - [`store`]: the only room with sqlx. Fences are asserted where the write happens.
//! - [`shard`]: one owner per shard; one path for every event: mailbox → turn → group commit → actions.
//! - [`session`]: workers, their credit and their leases; one ready queue.
//! - [`app`]: one file per operation of the client API. `grpc` holds the thin handlers.

pub mod app;
pub mod directory;
pub mod grpc;
pub mod join;
pub mod plane;
pub mod replicas;
pub mod router;
pub mod session;
pub mod shard;
pub mod store;
pub mod watch;
