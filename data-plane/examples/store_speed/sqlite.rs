//! The raw journal on SQLite, and the length of a WAL.

use std::path::{Path, PathBuf};

use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, SqliteConnection,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use uuid::Uuid;

use crate::{Outcome, STEPS, json, now, tenant};

/// Instances of one array.
pub const ARRAY: usize = 256;

fn ids() -> Vec<Uuid> {
    (0..ARRAY).map(|_| Uuid::now_v7()).collect()
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(false)
        .pragma("cache_size", "-16384")
        .pragma("wal_autocheckpoint", "4096")
        .disable_statement_logging()
}

pub fn wal_length(path: &Path) -> Outcome<u64> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    Ok(std::fs::metadata(PathBuf::from(name))?.len())
}

/// Cuts the log behind the back of whoever has the file open; answers when it is empty.
pub async fn cut_wal(path: &Path) -> Outcome<()> {
    let mut conn = options(path).connect().await?;
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
    conn.close().await?;
    Ok(())
}

/// The fixed reference.
pub struct Raw {
    path: PathBuf,
    conn: SqliteConnection,
    insert_ti: String,
    insert_so: String,
    complete: String,
}

impl Raw {
    pub async fn open(path: &Path) -> Outcome<Self> {
        let mut conn = options(path).connect().await?;
        conn.execute(
            "CREATE TABLE ti (id BLOB PRIMARY KEY, tenant_id TEXT, seq_id INTEGER, state TEXT, priority INTEGER,
               next_fire_at INTEGER, step INTEGER, ctx TEXT, created_at INTEGER, updated_at INTEGER) STRICT;
             CREATE INDEX ti_due ON ti (priority DESC, next_fire_at) WHERE state = 'scheduled';
             CREATE TABLE so (instance_id BLOB, step INTEGER, output TEXT, created_at INTEGER,
               PRIMARY KEY (instance_id, step)) STRICT;",
        )
        .await?;
        let rows = |row: &str| vec![row; ARRAY].join(", ");
        Ok(Self {
            path: path.to_owned(),
            conn,
            insert_ti: format!("INSERT INTO ti VALUES {}", rows("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")),
            insert_so: format!("INSERT INTO so VALUES {}", rows("(?, ?, ?, ?)")),
            complete: format!(
                "UPDATE ti SET state = 'completed', updated_at = ? WHERE id IN ({})",
                rows("?")
            ),
        })
    }

    pub async fn array(&mut self) -> Outcome<()> {
        let (ids, at, json) = (ids(), now().0, json());
        let mut args = SqliteArguments::default();
        for (n, id) in ids.iter().enumerate() {
            args.add(id.as_bytes().as_slice())?;
            args.add(tenant(n))?;
            args.add(1_i64)?;
            args.add("running")?;
            args.add(1_i64)?;
            args.add(at)?;
            args.add(0_i64)?;
            args.add(json.clone())?;
            args.add(at)?;
            args.add(at)?;
        }
        execute(&mut self.conn, &self.insert_ti, args).await?;
        for step in 0..STEPS {
            let last = step + 1 == STEPS;
            if last {
                self.conn.execute("BEGIN IMMEDIATE").await?;
            }
            let mut args = SqliteArguments::default();
            for id in &ids {
                args.add(id.as_bytes().as_slice())?;
                args.add(step as i64)?;
                args.add(json.clone())?;
                args.add(at)?;
            }
            execute(&mut self.conn, &self.insert_so, args).await?;
            if last {
                let mut args = SqliteArguments::default();
                args.add(at)?;
                for id in &ids {
                    args.add(id.as_bytes().as_slice())?;
                }
                execute(&mut self.conn, &self.complete, args).await?;
                self.conn.execute("COMMIT").await?;
            }
        }
        Ok(())
    }

    pub async fn wal_per_step(&mut self) -> Outcome<u64> {
        cut_wal(&self.path).await?;
        self.array().await?;
        Ok(wal_length(&self.path)? / (ARRAY * STEPS) as u64)
    }
}

async fn execute(conn: &mut SqliteConnection, sql: &str, args: SqliteArguments) -> Outcome<()> {
    sqlx::query_with(AssertSqlSafe(sql), args).execute(conn).await?;
    Ok(())
}
