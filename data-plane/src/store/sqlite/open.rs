//! Opening the file: made readable to its owner only, locked against a second process, brought to the newest schema.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    ConnectOptions as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{
    SqliteStore,
    checkpoint::{AUTO_PAGES, Checkpoints, WAL_BYTES_KEPT},
    migrate::migrate,
    session::{Readers, database},
    writer::Writer,
};
use crate::store::{StoreError, counts::Counts};

/// How long a statement waits for a lock that some tool holds on the file.
pub(super) const BUSY_MS: u32 = 5_000;
/// Page cache of the writer, in KiB: the inner pages of every index, and what the last few groups touched. Each commit
/// walks the cache's table, so a larger one costs more than it saves.
const WRITER_CACHE_KIB: u32 = 16 << 10;
/// Page cache of each reader, in KiB.
const READER_CACHE_KIB: u32 = 8 << 10;
/// Prepared statements kept per connection: about ten batches of nine lengths, and some forty others.
const STATEMENTS_KEPT: usize = 192;
/// Rows on their way from SQLite's thread: a claim's or a page's worth without waking anybody twice.
const ROWS_IN_FLIGHT: usize = 512;

pub(super) async fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    let lock = FileLock::take(path).await?;
    make(path)?;
    let counts = Arc::new(Counts::default());
    let mut conn = writer_options(path).connect().await.map_err(|e| database("open", e))?;
    migrate(&mut conn).await?;
    let readers = Readers::new(&reader_options(path), &counts);
    let checkpoints = Checkpoints::new(beside(path, "-wal"));
    let writer = Writer::spawn(conn, Arc::clone(&counts), checkpoints, lock);
    Ok(SqliteStore { writer, readers, counts })
}

fn writer_options(path: &Path) -> SqliteConnectOptions {
    options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("wal_autocheckpoint", AUTO_PAGES.to_string())
        .pragma("journal_size_limit", WAL_BYTES_KEPT.to_string())
        .pragma("cache_size", format!("-{WRITER_CACHE_KIB}"))
        .thread_name(|_| "store-writer".to_owned())
}

fn reader_options(path: &Path) -> SqliteConnectOptions {
    options(path)
        .pragma("query_only", "ON")
        .pragma("cache_size", format!("-{READER_CACHE_KIB}"))
        .thread_name(|n| format!("store-reader-{n}"))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(false)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_millis(u64::from(BUSY_MS)))
        .pragma("temp_store", "MEMORY")
        .statement_cache_capacity(STATEMENTS_KEPT)
        .row_buffer_size(ROWS_IN_FLIGHT)
        .disable_statement_logging()
}

/// Makes an empty file that only its owner reads, so that SQLite, which copies the mode to `-wal` and `-shm`, never
/// makes one that others read.
fn make(path: &Path) -> Result<(), StoreError> {
    private(path).map(drop)
}

fn private(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|source| StoreError::NotWritable { path: path.display().to_string(), source })
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// One process per file: an advisory lock beside it, which the operating system lets go with the process.
#[derive(Debug)]
pub(super) struct FileLock(#[expect(dead_code, reason = "held, not read")] File);

impl FileLock {
    /// A store that was just dropped needs a moment to let go.
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(25);

    async fn take(path: &Path) -> Result<Self, StoreError> {
        let file = private(&beside(path, ".lock"))?;
        for _ in 0..Self::TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(Self::PAUSE).await,
                Err(TryLockError::Error(source)) => {
                    return Err(StoreError::NotWritable { path: path.display().to_string(), source });
                }
            }
        }
        Err(StoreError::InUse { path: path.display().to_string() })
    }
}
