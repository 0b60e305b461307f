//! What a store can answer when it cannot do its work. Lost races are not errors: they are values.

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
    /// A row that this version cannot read.
    #[error("corrupt row in {table}, column {column}, key {key}")]
    Corrupt { table: &'static str, column: &'static str, key: String },
    /// Another process has the file open.
    #[error("{path} is in use by another process; stop it first")]
    InUse { path: String },
    /// Written by a newer version.
    #[error("the store has schema {found}, this binary knows up to {known}: use a newer orch8")]
    NewerSchema { found: i64, known: i64 },
}
