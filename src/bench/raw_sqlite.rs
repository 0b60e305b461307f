//! The yardstick: what SQLite does when nothing stands between. The only SQL of this crate.
//!
//! Fixed on purpose, with a schema of its own, so that a fat schema of the engine cannot look good: an instance row at
//! birth and at close, one journal row per step, 256 bytes of JSON in each; one connection, WAL, `synchronous=FULL`,
//! one auto-committed statement at a time over [`ROWS`] rows.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use sqlx::{
    AssertSqlSafe, Connection, Executor, SqliteConnection, query,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use uuid::Uuid;

use super::{STEPS, figures::Round, wal::Watch};

/// Rows of one statement.
pub const ROWS: usize = 256;
/// Tenants that the rows are spread over.
const TENANTS: usize = 100;

const SCHEMA: &str = "
    CREATE TABLE ti (
        id blob PRIMARY KEY, tenant_id text, seq_id int, state text, priority smallint, next_fire_at text,
        step int, ctx text, created_at text, updated_at text
    ) WITHOUT ROWID;
    CREATE INDEX ti_due ON ti (priority DESC, next_fire_at) WHERE state = 'scheduled';
    CREATE TABLE so (
        instance_id blob, step int, output text, created_at text, PRIMARY KEY (instance_id, step)
    ) WITHOUT ROWID;
";

/// Runs the loop for about `time` in a new database in `dir`. Steps = rows of `so`.
pub async fn round(dir: &Path, time: Duration, payload: &str) -> anyhow::Result<Round> {
    let options = SqliteConnectOptions::new()
        .filename(dir.join("raw.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    connection.execute(SCHEMA).await?;
    let statements = Statements::new();

    let watch = Watch::begin(dir);
    let begun = Instant::now();
    let mut steps = 0;
    while begun.elapsed() < time {
        batch(&mut connection, &statements, payload).await?;
        steps += STEPS * ROWS as u64;
    }
    let took = begun.elapsed();
    let log = watch.end();
    connection.close().await?;
    Ok(Round { steps, took, log, statements_per_step: None })
}

/// [`ROWS`] runs from birth to close.
async fn batch(
    connection: &mut SqliteConnection,
    statements: &Statements,
    payload: &str,
) -> anyhow::Result<()> {
    let ids: Vec<Uuid> = (0..ROWS).map(|_| Uuid::now_v7()).collect();
    statements.birth(&mut *connection, &ids, payload).await?;
    for step in 1..STEPS {
        statements.append(&mut *connection, &ids, step, payload).await?;
    }
    // SQLite has no statement that writes two tables: the last rows and the close are one transaction.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    statements.append(&mut transaction, &ids, STEPS, payload).await?;
    statements.close(&mut transaction, &ids).await?;
    transaction.commit().await?;
    Ok(())
}

/// The texts, built once: prepared statements are found by them.
struct Statements {
    birth: String,
    append: String,
    close: String,
}

impl Statements {
    fn new() -> Self {
        let rows = |row: &str| vec![row; ROWS].join(",");
        let now = "strftime('%Y-%m-%dT%H:%M:%fZ','now')";
        Self {
            birth: format!(
                "INSERT INTO ti (id, tenant_id, seq_id, state, priority, next_fire_at, step, ctx, created_at, updated_at) \
                 VALUES {}",
                rows(&format!("(?, ?, 1, 'running', 1, NULL, 0, ?, {now}, {now})"))
            ),
            append: format!(
                "INSERT INTO so (instance_id, step, output, created_at) VALUES {}",
                rows(&format!("(?, ?, ?, {now})"))
            ),
            close: format!(
                "UPDATE ti SET state = 'completed', updated_at = {now} WHERE id IN ({})",
                rows("?")
            ),
        }
    }

    async fn birth(&self, to: &mut SqliteConnection, ids: &[Uuid], payload: &str) -> sqlx::Result<()> {
        let mut insert = query(AssertSqlSafe(self.birth.as_str()));
        for (i, id) in ids.iter().enumerate() {
            insert = insert.bind(*id).bind(format!("tenant-{}", i % TENANTS)).bind(payload);
        }
        insert.execute(to).await.map(drop)
    }

    async fn append(
        &self,
        to: &mut SqliteConnection,
        ids: &[Uuid],
        step: u64,
        payload: &str,
    ) -> sqlx::Result<()> {
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        let mut insert = query(AssertSqlSafe(self.append.as_str()));
        for id in ids {
            insert = insert.bind(*id).bind(step).bind(payload);
        }
        insert.execute(to).await.map(drop)
    }

    async fn close(&self, to: &mut SqliteConnection, ids: &[Uuid]) -> sqlx::Result<()> {
        let mut update = query(AssertSqlSafe(self.close.as_str()));
        for id in ids {
            update = update.bind(*id);
        }
        update.execute(to).await.map(drop)
    }
}
