//! Shard owners: one task per shard, one path for every event.
//!
//! mailbox → (fair between tenants) → pure turn → group commit → actions. Nothing leaves before its commit returned:
//! no dispatch, no acknowledgement, no wake. Nothing here decides what a workflow does; nothing here speaks SQL.

mod committer;
mod config;
mod hot;
mod mailbox;
mod owner;
mod programs;
mod room;
mod wheel;

pub use config::ShardConfig;
pub(crate) use hot::rebuild;
pub use mailbox::{Mailboxes, Post};
pub use programs::{Compiled, Programs};
pub use room::StoreRoom;
