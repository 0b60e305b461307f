//! The owner of a shard.

mod mailbox;

pub use mailbox::{Mailboxes, Post};
