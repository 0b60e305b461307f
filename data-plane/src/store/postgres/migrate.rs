//! From whatever schema the database has to the newest: each file once, remembered with its digest, all in one
//! transaction under a lock, so that of two processes that start at once one does it and the other finds it done.

use orch8_seal::sha256;
use sqlx::{Connection as _, PgConnection, Row as _};

use super::session::{Args, database, execute, fetch};
use crate::store::StoreError;

/// Whole files, oldest first; the first is schema 1.
const FILES: &[&str] = &[include_str!("../../../../migrations/store/postgres/0001_store.sql")];

/// Released with the transaction. The number is "orch8" in ASCII: of this database alone, and nobody else's.
const LOCK: &str = "SELECT pg_advisory_xact_lock(478559811640)";
/// Others migrate for a moment, not for longer.
const PATIENCE: &str = "SET LOCAL lock_timeout = '60s'";
/// Tables in the schema that new tables go to, leaving out those that extensions bring.
const TABLES: &str = "SELECT c.relname::text FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
       AND NOT EXISTS (
         SELECT 1 FROM pg_depend d
         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
       )
     ORDER BY c.relname";
const READ: &str = "SELECT value FROM meta WHERE key = $1";
const WRITE: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// Answers the store's identity.
pub(super) async fn migrate(conn: &mut PgConnection) -> Result<String, StoreError> {
    apply(conn, FILES).await
}

async fn apply(conn: &mut PgConnection, files: &[&'static str]) -> Result<String, StoreError> {
    let mut tx = conn.begin().await.map_err(failed)?;
    for sql in [PATIENCE, LOCK] {
        execute(&mut tx, sql, Args::new()).await.map_err(failed)?;
    }
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
    let id = read(&mut tx, "store").await?.ok_or_else(|| corrupt("store"))?;
    tx.commit().await.map_err(failed)?;
    Ok(id)
}

/// The number of the newest schema applied; 0 for an empty database. One with tables of others is refused.
async fn schema(conn: &mut PgConnection) -> Result<i64, StoreError> {
    let rows = fetch(conn, TABLES, Args::new()).await.map_err(failed)?;
    let tables: Vec<String> =
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(failed)?;
    let Some(first) = tables.first() else { return Ok(0) };
    let foreign =
        || StoreError::Unfit { why: format!("it holds tables of something else, such as {first:?}") };
    if !tables.iter().any(|table| table == "meta") {
        return Err(foreign());
    }
    match read(conn, "room").await {
        Ok(Some(room)) if room == "store" => {}
        Ok(_) | Err(_) => return Err(foreign()),
    }
    read(conn, "schema").await?.and_then(|text| text.parse().ok()).ok_or_else(|| corrupt("schema"))
}

fn digest_key(number: i64) -> String {
    format!("schema.{number}.sha256")
}

fn failed(error: sqlx::Error) -> StoreError {
    database("migration", error)
}

fn corrupt(key: &str) -> StoreError {
    StoreError::Corrupt { table: "meta", column: "value", key: key.to_owned() }
}

async fn read(conn: &mut PgConnection, key: &str) -> Result<Option<String>, StoreError> {
    let rows = fetch(conn, READ, Args::new().with(key)).await.map_err(failed)?;
    rows.first().map(|row| row.try_get(0)).transpose().map_err(failed)
}

async fn write(conn: &mut PgConnection, key: &str, value: &str) -> Result<(), StoreError> {
    execute(conn, WRITE, Args::new().with(key).with(value)).await.map(drop).map_err(failed)
}
