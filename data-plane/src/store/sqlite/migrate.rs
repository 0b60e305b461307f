//! From whatever schema the file has to the newest. Each file is applied once, in one transaction, and remembered with
//! its digest.

use orch8_seal::sha256;
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::session::database;
use crate::store::StoreError;

/// Whole files, oldest first; the first is schema 1.
const FILES: &[&str] = &[include_str!("../../../../migrations/store/sqlite/0001_store.sql")];

const HAS_META: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'";
const READ: &str = "SELECT value FROM meta WHERE key = ?";
const WRITE: &str =
    "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

pub(super) async fn migrate(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    apply(conn, FILES).await
}

async fn apply(conn: &mut SqliteConnection, files: &[&'static str]) -> Result<(), StoreError> {
    let failed = |e| database("migration", e);
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let found = schema(&mut tx).await?;
    let known = files.len() as i64;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    for (number, file) in (1..).zip(files) {
        let digest = sha256(file.as_bytes()).hex();
        if number <= found {
            if read(&mut tx, &digest_key(number)).await?.as_deref() != Some(digest.as_str()) {
                return Err(StoreError::ForeignSchema { number });
            }
            continue;
        }
        sqlx::raw_sql(*file).execute(&mut *tx).await.map_err(failed)?;
        write(&mut tx, &digest_key(number), &digest).await?;
        write(&mut tx, "schema", &number.to_string()).await?;
    }
    tx.commit().await.map_err(failed)
}

fn digest_key(number: i64) -> String {
    format!("schema.{number}.sha256")
}

/// The number of the newest schema applied; 0 for an empty file.
async fn schema(conn: &mut SqliteConnection) -> Result<i64, StoreError> {
    let tables = sqlx::query(HAS_META).fetch_one(&mut *conn).await.map_err(|e| database("migration", e))?;
    if tables.try_get::<i64, _>(0).map_err(|e| database("migration", e))? == 0 {
        return Ok(0);
    }
    let corrupt = || StoreError::Corrupt { table: "meta", column: "value", key: "schema".to_owned() };
    read(conn, "schema").await?.and_then(|text| text.parse().ok()).ok_or_else(corrupt)
}

async fn read(conn: &mut SqliteConnection, key: &str) -> Result<Option<String>, StoreError> {
    let row = sqlx::query(READ).bind(key.to_owned()).fetch_optional(conn).await;
    let row = row.map_err(|e| database("migration", e))?;
    row.map(|row| row.try_get(0)).transpose().map_err(|e| database("migration", e))
}

async fn write(conn: &mut SqliteConnection, key: &str, value: &str) -> Result<(), StoreError> {
    let done = sqlx::query(WRITE).bind(key.to_owned()).bind(value.to_owned()).execute(conn).await;
    done.map(drop).map_err(|e| database("migration", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str =
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT; CREATE TABLE a (x)";
    const B: &str = "CREATE TABLE b (x)";

    async fn memory() -> SqliteConnection {
        SqliteConnection::connect("sqlite::memory:").await.expect("a database in memory")
    }

    #[tokio::test]
    async fn each_file_is_applied_once() {
        let mut conn = memory().await;
        apply(&mut conn, &[A]).await.expect("first");
        apply(&mut conn, &[A, B]).await.expect("second");
        apply(&mut conn, &[A, B]).await.expect("again");
        assert_eq!(schema(&mut conn).await.expect("a schema"), 2);
    }

    #[tokio::test]
    async fn a_newer_schema_is_refused_and_so_is_a_foreign_one() {
        let mut conn = memory().await;
        apply(&mut conn, &[A, B]).await.expect("both");
        let newer = apply(&mut conn, &[A]).await;
        assert!(matches!(newer, Err(StoreError::NewerSchema { found: 2, known: 1 })), "{newer:?}");
        let foreign = apply(&mut conn, &[A, "CREATE TABLE c (x)"]).await;
        assert!(matches!(foreign, Err(StoreError::ForeignSchema { number: 2 })), "{foreign:?}");
    }

    #[tokio::test]
    async fn a_failing_file_leaves_nothing_behind() {
        let mut conn = memory().await;
        apply(&mut conn, &[A]).await.expect("first");
        assert!(apply(&mut conn, &[A, "CREATE TABLE b (x); CREATE TABLE a (x)"]).await.is_err());
        assert_eq!(schema(&mut conn).await.expect("a schema"), 1);
        apply(&mut conn, &[A, B]).await.expect("b was rolled back");
    }
}
