//! Opening the file: 0600, WAL, `synchronous=FULL`, brought to the newest schema.

use std::{fs::OpenOptions, path::Path};

use sqlx::{
    ConnectOptions as _, Row as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{ControlStore, ControlStoreError, database};

/// The newest schema, whole.
const SCHEMA: &str = include_str!("../../../migrations/control/sqlite/0001_control.sql");
const KNOWN: i64 = 1;
/// Reads at a time: a few administrators and a few watches.
const READERS: u32 = 4;

impl ControlStore {
    pub async fn open(path: &Path) -> Result<Self, ControlStoreError> {
        make(path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options.clone())
            .await
            .map_err(database("open"))?;
        migrate(&writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(options.pragma("query_only", "ON"))
            .await
            .map_err(database("open"))?;
        Ok(Self { writer, readers })
    }

    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    pub(super) fn writer(&self) -> &SqlitePool {
        &self.writer
    }

    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// An empty file that only its owner reads; SQLite gives its side files the same mode.
fn make(path: &Path) -> Result<(), ControlStoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(path);
    opened
        .map(drop)
        .map_err(|source| ControlStoreError::NotWritable { path: path.display().to_string(), source })
}

async fn migrate(writer: &SqlitePool) -> Result<(), ControlStoreError> {
    let failed = database("migration");
    let mut tx = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
    let tables = sqlx::query("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'");
    let tables: i64 = tables.fetch_one(&mut *tx).await.and_then(|row| row.try_get(0)).map_err(&failed)?;
    if tables == 0 {
        sqlx::raw_sql(SCHEMA).execute(&mut *tx).await.map_err(&failed)?;
        sqlx::query("INSERT INTO meta (key, value) VALUES ('schema', ?)")
            .bind(KNOWN.to_string())
            .execute(&mut *tx)
            .await
            .map_err(&failed)?;
        return tx.commit().await.map_err(&failed);
    }
    let row = sqlx::query("SELECT value FROM meta WHERE key = 'schema'").fetch_one(&mut *tx).await;
    let text: String = row.and_then(|row| row.try_get(0)).map_err(&failed)?;
    let corrupt = |_| ControlStoreError::Corrupt { table: "meta", column: "value", key: "schema".to_owned() };
    let found: i64 = text.parse().map_err(corrupt)?;
    if found > KNOWN {
        return Err(ControlStoreError::NewerSchema { found, known: KNOWN });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_newer_schema_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.db");
        let store = ControlStore::open(&path).await.expect("opens");
        sqlx::query("UPDATE meta SET value = '7' WHERE key = 'schema'")
            .execute(store.writer())
            .await
            .expect("written");
        store.close().await;
        let refused = ControlStore::open(&path).await.expect_err("newer");
        assert!(matches!(refused, ControlStoreError::NewerSchema { found: 7, known: KNOWN }));
    }

    #[tokio::test]
    async fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("missing").join("control.db");
        let refused = ControlStore::open(&path).await.expect_err("no folder");
        assert!(refused.to_string().contains("control.db"));
    }
}
