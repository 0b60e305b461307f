//! How a statement reaches SQLite: through the one writer's [`Session`], or through a pool of [`Readers`]. Both count.
//!
//! This room knows statements and arguments, no operation.

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use sqlx::{
    Arguments as _, AssertSqlSafe, Executor, Sqlite, SqliteConnection, SqlitePool, Transaction,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqlitePoolOptions, SqliteRow},
};

use super::batch::Batch;
use crate::store::{StoreError, counts::Counts};

/// Arguments of a statement, in the order of its question marks.
#[derive(Debug, Default)]
pub(super) struct Args(SqliteArguments);

impl Args {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn int(mut self, value: impl Into<i64>) -> Self {
        self.push(value.into());
        self
    }

    pub fn text(mut self, value: &str) -> Self {
        self.push(value);
        self
    }

    pub fn blob(mut self, value: &[u8]) -> Self {
        self.push(value);
        self
    }

    pub fn opt_int(mut self, value: Option<i64>) -> Self {
        self.push(value);
        self
    }

    pub fn opt_text(mut self, value: Option<&str>) -> Self {
        self.push(value);
        self
    }

    pub fn opt_blob(mut self, value: Option<&[u8]>) -> Self {
        self.push(value);
        self
    }

    fn push<'a>(&mut self, value: impl sqlx::Encode<'a, Sqlite> + sqlx::Type<Sqlite>) {
        self.0.add(value).expect("integers, text and bytes always encode");
    }
}

/// What a batch did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub rows: u64,
    /// Of the row inserted last, by this or an earlier statement.
    pub last_rowid: i64,
}

/// A connection inside a transaction that somebody else begins and ends.
pub(super) struct Session<'c> {
    pub conn: &'c mut SqliteConnection,
    pub counts: &'c Counts,
    /// What is being done, for errors.
    pub doing: &'static str,
}

impl Session<'_> {
    /// Runs a statement and tells how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str, args: Args) -> Result<u64, StoreError> {
        Counts::add(&self.counts.statements, 1);
        let done = sqlx::query_with(sql, args.0).execute(&mut *self.conn).await;
        done.map(|d| d.rows_affected()).map_err(|e| database(self.doing, e))
    }

    pub async fn rows(&mut self, sql: &'static str, args: Args) -> Result<Vec<SqliteRow>, StoreError> {
        Counts::add(&self.counts.statements, 1);
        fetch(&mut *self.conn, sql, args, self.doing).await
    }

    pub async fn row(&mut self, sql: &'static str, args: Args) -> Result<Option<SqliteRow>, StoreError> {
        Ok(self.rows(sql, args).await?.into_iter().next())
    }

    /// Runs a batch statement over all items. `bind` adds one row's arguments.
    pub async fn batch<T>(
        &mut self,
        batch: &'static Batch,
        items: &[T],
        bind: impl Fn(Args, usize, &T) -> Args,
    ) -> Result<Written, StoreError> {
        let mut written = Written::default();
        for (sql, args) in batch.chunks(items, bind) {
            Counts::add(&self.counts.statements, 1);
            let done = sqlx::query_with(AssertSqlSafe(sql), args.0).execute(&mut *self.conn).await;
            let done = done.map_err(|e| database(self.doing, e))?;
            written.rows += done.rows_affected();
            written.last_rowid = done.last_insert_rowid();
        }
        Ok(written)
    }

    /// As [`Self::batch`], for statements that answer rows.
    pub async fn batch_rows<T>(
        &mut self,
        batch: &'static Batch,
        items: &[T],
        bind: impl Fn(Args, usize, &T) -> Args,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        let mut rows = Vec::new();
        for (sql, args) in batch.chunks(items, bind) {
            Counts::add(&self.counts.statements, 1);
            let found = sqlx::query_with(AssertSqlSafe(sql), args.0).fetch_all(&mut *self.conn).await;
            rows.extend(found.map_err(|e| database(self.doing, e))?);
        }
        Ok(rows)
    }
}

/// Two small pools, so that a client's long list never keeps a shard owner waiting.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    /// For what a shard owner asks.
    pub owners: Reader,
    /// For what clients ask.
    pub clients: Reader,
}

/// Connections that cannot write.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pool: SqlitePool,
    counts: Arc<Counts>,
}

impl Readers {
    /// Connections per pool: readers of one file share its page cache in the kernel, more would only compete.
    const EACH: u32 = 2;
    /// A reader that is not free within this time means that somebody holds them all.
    const PATIENCE: Duration = Duration::from_secs(30);

    pub fn new(options: &SqliteConnectOptions, counts: &Arc<Counts>) -> Self {
        let reader = || Reader {
            pool: SqlitePoolOptions::new()
                .max_connections(Self::EACH)
                .acquire_timeout(Self::PATIENCE)
                .test_before_acquire(false)
                .idle_timeout(None)
                .max_lifetime(None)
                .connect_lazy_with(options.clone()),
            counts: Arc::clone(counts),
        };
        Self { owners: reader(), clients: reader() }
    }

    pub async fn close(&self) {
        self.owners.pool.close().await;
        self.clients.pool.close().await;
    }
}

impl Reader {
    pub async fn rows(
        &self,
        doing: &'static str,
        sql: &'static str,
        args: Args,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        Counts::add(&self.counts.statements, 1);
        fetch(&self.pool, sql, args, doing).await
    }

    pub async fn row(
        &self,
        doing: &'static str,
        sql: &'static str,
        args: Args,
    ) -> Result<Option<SqliteRow>, StoreError> {
        Ok(self.rows(doing, sql, args).await?.into_iter().next())
    }

    /// Reads rows until `max` of them were picked, and no further.
    pub async fn pick<T>(
        &self,
        doing: &'static str,
        sql: &'static str,
        args: Args,
        max: usize,
        mut pick: impl FnMut(&SqliteRow) -> Result<Option<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        Counts::add(&self.counts.statements, 1);
        let mut rows = sqlx::query_with(sql, args.0).fetch(&self.pool);
        let mut picked = Vec::new();
        while picked.len() < max {
            let Some(row) = rows.try_next().await.map_err(|e| database(doing, e))? else { break };
            picked.extend(pick(&row)?);
        }
        Ok(picked)
    }

    /// Several statements that see the same state.
    pub async fn snapshot(&self, doing: &'static str) -> Result<Snapshot, StoreError> {
        let tx = self.pool.begin().await.map_err(|e| database(doing, e))?;
        Ok(Snapshot { tx, counts: Arc::clone(&self.counts), doing })
    }
}

/// A read transaction. Dropped, it ends; a dropped one never reaches the next user of its connection.
pub(super) struct Snapshot {
    tx: Transaction<'static, Sqlite>,
    counts: Arc<Counts>,
    doing: &'static str,
}

impl Snapshot {
    pub fn session(&mut self) -> Session<'_> {
        Session { conn: &mut self.tx, counts: &self.counts, doing: self.doing }
    }
}

async fn fetch<'e>(
    executor: impl Executor<'e, Database = Sqlite>,
    sql: &'static str,
    args: Args,
    doing: &'static str,
) -> Result<Vec<SqliteRow>, StoreError> {
    sqlx::query_with(sql, args.0).fetch_all(executor).await.map_err(|e| database(doing, e))
}

pub(super) fn database(doing: &'static str, source: sqlx::Error) -> StoreError {
    StoreError::Database { doing, source }
}
