//! When the WAL goes back into the file. SQLite does it by itself inside a commit, once the WAL has a certain length;
//! what it cannot do is begin the WAL anew while there is always some reader on it. That is done here.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use sqlx::{Row as _, SqliteConnection};

/// Pages after which a commit moves the WAL into the file: 16 MiB, so that a page written often is moved once.
pub(super) const AUTO_PAGES: u32 = 4096;
/// A WAL that was begun anew is cut to this length.
pub(super) const WAL_BYTES_KEPT: u64 = 24 << 20;

/// Watches the WAL's length.
pub(super) struct Checkpoints {
    wal: PathBuf,
    next_look: Instant,
}

impl Checkpoints {
    /// Above this the WAL is too long: a reader has been in the way.
    const WAL_BYTES_MAX: u64 = 40 << 20;
    /// A look costs a `stat`; an attempt may make writers wait for [`Self::PATIENCE_MS`].
    const EVERY: Duration = Duration::from_secs(1);
    /// How long an attempt waits for readers.
    const PATIENCE_MS: u32 = 50;

    pub fn new(wal: PathBuf) -> Self {
        Self { wal, next_look: Instant::now() }
    }

    /// Between two groups of the writer.
    pub async fn after_group(&mut self, conn: &mut SqliteConnection) {
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + Self::EVERY;
        let too_long = std::fs::metadata(&self.wal).is_ok_and(|wal| wal.len() > Self::WAL_BYTES_MAX);
        if too_long && let Err(error) = truncate(conn, Self::PATIENCE_MS).await {
            tracing::warn!(%error, "shortening the store's write-ahead log failed");
        }
    }

    /// Before the connection is closed.
    pub async fn last(&self, conn: &mut SqliteConnection) {
        if let Err(error) = truncate(conn, Self::PATIENCE_MS).await {
            tracing::warn!(%error, "the last checkpoint failed; the next opener does it");
        }
    }
}

/// Moves everything into the file and cuts the WAL, unless a reader holds an old state: then it moves what it can.
async fn truncate(conn: &mut SqliteConnection, patience_ms: u32) -> Result<(), sqlx::Error> {
    let moved = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *conn).await?;
    let (pages, done): (i64, i64) = (moved.try_get(1)?, moved.try_get(2)?);
    if done < pages {
        return Ok(());
    }
    let set = |ms: u32| sqlx::AssertSqlSafe(format!("PRAGMA busy_timeout = {ms}"));
    sqlx::query(set(patience_ms)).execute(&mut *conn).await?;
    let cut = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *conn).await;
    sqlx::query(set(super::open::BUSY_MS)).execute(&mut *conn).await?;
    cut.map(drop)
}
