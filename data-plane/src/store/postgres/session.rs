//! How a statement reaches Postgres: arguments, a [`Session`] inside a transaction, and the two pools. Both count.
//!
//! This room knows statements and arguments, no operation.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{
    Arguments as _, Connection as _, Encode, PgConnection, PgPool, Postgres, SqlSafeStr, Type,
    error::BoxDynError,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow},
};

use crate::store::{StoreError, counts::Counts};

/// Arguments of a statement: $1, $2, …
#[derive(Debug, Default)]
pub(super) struct Args {
    args: PgArguments,
    /// Why one of them cannot be sent: an array of gigabytes.
    wrong: Option<BoxDynError>,
}

impl Args {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value, or an array: one column of a batch.
    pub fn with<'a>(mut self, value: impl Encode<'a, Postgres> + Type<Postgres>) -> Self {
        if let Err(wrong) = self.args.add(value) {
            self.wrong = Some(wrong);
        }
        self
    }

    fn ready(self) -> Result<PgArguments, sqlx::Error> {
        self.wrong.map_or(Ok(self.args), |wrong| Err(sqlx::Error::Encode(wrong)))
    }
}

/// A connection inside a transaction that somebody else begins and ends.
pub(super) struct Session<'c> {
    pub conn: &'c mut PgConnection,
    pub counts: &'c Counts,
    /// What is being done, for errors.
    pub doing: &'static str,
}

impl Session<'_> {
    /// Runs a statement and tells how many rows it changed.
    pub async fn execute(&mut self, sql: impl SqlSafeStr + Send, args: Args) -> Result<u64, StoreError> {
        Counts::add(&self.counts.statements, 1);
        execute(self.conn, sql, args).await.map_err(|e| database(self.doing, e))
    }

    pub async fn rows(&mut self, sql: impl SqlSafeStr + Send, args: Args) -> Result<Vec<PgRow>, StoreError> {
        Counts::add(&self.counts.statements, 1);
        fetch(self.conn, sql, args).await.map_err(|e| database(self.doing, e))
    }
}

/// Two pools, so that what clients ask never keeps a shard owner waiting.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// For shard owners: commits, claims, loads.
    pub owners: Pool,
    /// For clients: starts, messages, reads.
    pub clients: Pool,
}

/// Connections to one database, all set up alike.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pool: PgPool,
    pub counts: Arc<Counts>,
}

impl Pools {
    pub fn new(owners: PgConnectOptions, clients: PgConnectOptions, counts: &Arc<Counts>) -> Self {
        Self { owners: Pool::new(owners, counts), clients: Pool::new(clients, counts) }
    }

    /// Waits for what is under way.
    pub async fn close(&self) {
        self.owners.pool.close().await;
        self.clients.pool.close().await;
    }
}

impl Pool {
    /// Connections of one pool. A server of the usual size lets in a hundred: two pools of four nodes.
    pub const MAX: u32 = 12;
    /// A connection that is not free within this time means that somebody holds them all, or that the server is away.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn new(options: PgConnectOptions, counts: &Arc<Counts>) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(Self::MAX)
            .acquire_timeout(Self::PATIENCE)
            .test_before_acquire(false)
            .connect_lazy_with(options);
        Self { pool, counts: Arc::clone(counts) }
    }

    pub async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        self.pool.acquire().await
    }

    /// A connection that has just answered.
    pub async fn tested(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let mut gone = 0;
        loop {
            let mut conn = self.acquire().await?;
            match within(conn.ping()).await {
                Ok(()) => return Ok(conn),
                Err(error) if gone >= Self::MAX => return Err(error),
                Err(_) => {
                    gone += 1;
                    drop(conn.detach());
                }
            }
        }
    }

    /// Reads. A connection that turns out to be gone is replaced: a read may run twice.
    pub async fn rows(
        &self,
        doing: &'static str,
        sql: impl SqlSafeStr + Send,
        args: impl Fn() -> Args,
    ) -> Result<Vec<PgRow>, StoreError> {
        let (mut gone, sql) = (0, sql.into_sql_str());
        loop {
            let mut conn = self.acquire().await.map_err(|e| database(doing, e))?;
            Counts::add(&self.counts.statements, 1);
            match fetch(&mut conn, sql.clone(), args()).await {
                Ok(rows) => return Ok(rows),
                Err(error) if is_gone(&error) && gone < Self::MAX => {
                    gone += 1;
                    drop(conn.detach());
                }
                Err(error) => {
                    if is_gone(&error) {
                        drop(conn.detach());
                    }
                    return Err(database(doing, error));
                }
            }
        }
    }

    pub async fn row(
        &self,
        doing: &'static str,
        sql: &'static str,
        args: impl Fn() -> Args,
    ) -> Result<Option<PgRow>, StoreError> {
        Ok(self.rows(doing, sql, args).await?.into_iter().next())
    }

    /// One statement that writes and commits by itself.
    pub async fn write(
        &self,
        doing: &'static str,
        sql: &'static str,
        args: Args,
    ) -> Result<Vec<PgRow>, StoreError> {
        let mut conn = self.tested().await.map_err(|e| database(doing, e))?;
        Counts::add(&self.counts.transactions, 1);
        Counts::add(&self.counts.statements, 1);
        match fetch(&mut conn, sql, args).await {
            Ok(rows) => Ok(rows),
            Err(error) if is_gone(&error) => {
                drop(conn.detach());
                Err(unknown(doing, error))
            }
            Err(error) => Err(database(doing, error)),
        }
    }
}

/// How long one statement may take. Longer than any lock is waited for; a server that is cut off answers never.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn within<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let late = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(STATEMENT_PATIENCE, statement).await.map_err(late)?
}

pub(super) async fn execute(
    conn: &mut PgConnection,
    sql: impl SqlSafeStr + Send,
    args: Args,
) -> Result<u64, sqlx::Error> {
    let args = args.ready()?;
    Ok(within(sqlx::query_with(sql, args).execute(conn)).await?.rows_affected())
}

pub(super) async fn fetch(
    conn: &mut PgConnection,
    sql: impl SqlSafeStr + Send,
    args: Args,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let args = args.ready()?;
    within(sqlx::query_with(sql, args).fetch_all(conn)).await
}

/// The connection is no more, or nobody knows what it will answer next.
pub(super) fn is_gone(error: &sqlx::Error) -> bool {
    match sqlstate(error) {
        // Shut down, crashed, starting up; connection exceptions.
        Some(code) => matches!(&*code, "57P01" | "57P02" | "57P03" | "25P03") || code.starts_with("08"),
        None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_)),
    }
}

/// What the server called it, if it was the server that spoke.
pub(super) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

pub(super) fn database(doing: &'static str, source: sqlx::Error) -> StoreError {
    StoreError::Database { doing, source }
}

pub(super) fn unknown(doing: &'static str, source: sqlx::Error) -> StoreError {
    StoreError::OutcomeUnknown { doing, source: Arc::new(source) }
}
