//! What do we store and why must it be durable? The instance row (birth and close), one journal row per turn, and what
//! waits: ready rows, far timers, the inbox. Everything else is memory and is rebuilt from these.
//!
//! Every write transaction asserts two fences inside the database: the shard's lease epoch, and the tenant's placement
//! epoch and mode. The operations here are the whole surface; Postgres will answer the same ones.

mod error;
mod rows;
pub mod sqlite;

pub use error::StoreError;
pub use rows::{
    BirthRow, Closing, Commit, Fence, FenceMode, InstanceFilter, InstanceRow, JournalRow, Lease, Loaded,
    Mail, MailBody, Message, NewSequence, PageAfter, Raised, Ready, Sent, SequencePublished, SequenceRow,
    Start, Started, TenantHandle, TimerRow, TurnAnswer, TurnWrite,
};
pub use sqlite::SqliteStore as Store;
