//! Opening: a SQLite file of one process (0600, locked, WAL, `synchronous=FULL`) or a Postgres database of many.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    str::FromStr as _,
    sync::Arc,
    time::Duration,
};

use orch8_model::DatabaseUrl;
use sqlx::{
    ConnectOptions as _, Executor as _,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{
    ControlStore, ControlStoreError,
    database::{Database, database, statement},
    migrate::migrate,
};

/// Reads of a SQLite file at a time: a few administrators and a few watches.
const READERS: u32 = 4;
/// Connections of one replica to Postgres: calls are rare and short.
const CONNECTIONS: u32 = 8;
/// How long a call waits for a connection.
const ACQUIRE_WITHIN: Duration = Duration::from_secs(5);
/// A transaction whose process was paused must not hold its locks; and no statement here takes this long.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '5s'; SET statement_timeout = '10s'";

impl ControlStore {
    /// Opens or makes the database and brings it to the newest schema.
    ///
    /// Errors: not writable or reachable, in use by another process (a file), a newer schema.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, ControlStoreError> {
        let store = match url {
            DatabaseUrl::Sqlite(path) => open_file(path).await?,
            DatabaseUrl::Postgres(text) => Self { database: open_postgres(url, text).await?, lock: None },
        };
        migrate(&store.database).await?;
        Ok(store)
    }

    /// Whether other processes write here too.
    pub fn is_shared(&self) -> bool {
        matches!(self.database, Database::Postgres(_))
    }

    pub async fn close(&self) {
        self.database.close().await;
        if let Some(lock) = &self.lock {
            lock.release();
        }
    }
}

async fn open_file(path: &Path) -> Result<ControlStore, ControlStoreError> {
    let lock = FileLock::take(path).await?;
    private(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging();
    let one = SqlitePoolOptions::new().max_connections(1);
    let writer = one.connect_with(options.clone()).await.map_err(database("open"))?;
    // Made as they are needed: before the schema is there they would have nothing to read.
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .connect_lazy_with(options.pragma("query_only", "ON"));
    Ok(ControlStore { database: Database::Sqlite { writer, readers }, lock: Some(Arc::new(lock)) })
}

async fn open_postgres(url: &DatabaseUrl, text: &str) -> Result<Database, ControlStoreError> {
    let unreachable = |source| ControlStoreError::Unreachable { url: url.clone(), source };
    let options = PgConnectOptions::from_str(text)
        .map_err(unreachable)?
        .application_name("orch8 control-plane")
        // Poolers refuse start parameters they do not know.
        .extra_float_digits(None)
        .disable_statement_logging();
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE_WITHIN)
        .after_connect(|conn, _| Box::pin(async move { conn.execute(SESSION).await.map(drop) }))
        .connect_with(options)
        .await
        .map_err(unreachable)?;
    let database = Database::Postgres(pool);
    warn_of_forgetfulness(&database).await?;
    Ok(database)
}

/// A server that may lose what it has committed is told of, loudly: keys that were revoked would be good again.
async fn warn_of_forgetfulness(database: &Database) -> Result<(), ControlStoreError> {
    let asked = "SELECT name, setting FROM pg_settings
                 WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') AND setting = 'off'";
    for row in database.rows(statement("read of settings", asked)).await? {
        let setting: String = row.get("name")?;
        tracing::warn!(setting, "the control plane's database may lose what it has committed: this is off");
    }
    Ok(())
}

/// An empty file that only its owner reads; SQLite gives its side files the same mode.
fn private(path: &Path) -> Result<File, ControlStoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(path);
    opened.map_err(|source| ControlStoreError::NotWritable { path: path.display().to_string(), source })
}

/// One process per file: an advisory lock beside it, which the operating system lets go with the process.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// A process that was just ended needs a moment to let go.
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(25);

    async fn take(path: &Path) -> Result<Self, ControlStoreError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let file = private(&PathBuf::from(beside))?;
        for _ in 0..Self::TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(Self::PAUSE).await,
                Err(TryLockError::Error(source)) => {
                    return Err(ControlStoreError::NotWritable { path: path.display().to_string(), source });
                }
            }
        }
        Err(ControlStoreError::InUse { path: path.display().to_string() })
    }

    /// Lets go, whoever still holds a clone of the closed store.
    fn release(&self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of the control plane's file was not released");
        }
    }
}
