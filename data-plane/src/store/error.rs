//! What a store can answer when it cannot do its work. Lost races are not errors: they are values.

use std::sync::Arc;

/// A store operation failed as a whole; nothing of it was written (or it is not known, see `OutcomeUnknown`).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused or went away.
    #[error("the store {doing} failed")]
    Database {
        /// What was being done, for the log.
        doing: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// The database was told to commit and did not say that it had: read again before acting on what was written.
    #[error("the store {doing} ended without an answer")]
    OutcomeUnknown {
        /// What was being done, for the log.
        doing: &'static str,
        /// Shared by everything that went into the same transaction.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A row that this version cannot read.
    #[error("corrupt row in {table}, column {column}, key {key}")]
    Corrupt { table: &'static str, column: &'static str, key: String },
    /// Another process has the file open.
    #[error("{path} is in use by another process; stop it first")]
    InUse { path: String },
    /// The file, or the lock beside it, cannot be made or opened.
    #[error("{path} cannot be opened")]
    NotWritable {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// Somebody holds a lock that has to be raised over, and this user may not end their connection.
    #[error(
        "the store {doing} is blocked by a connection that this database user may not end: grant it pg_signal_backend, or end that connection"
    )]
    InTheWay {
        doing: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// A database that cannot be, or become, a store.
    #[error("the database cannot be a store: {why}")]
    Unfit { why: String },
    /// Written by a newer version.
    #[error("the store has schema {found}, this binary knows up to {known}: use a newer orch8")]
    NewerSchema { found: i64, known: i64 },
    /// Made by a build whose schema of that number was another one.
    #[error("schema {number} of the store is not the one this binary knows: use the orch8 that made it")]
    ForeignSchema { number: i64 },
}
