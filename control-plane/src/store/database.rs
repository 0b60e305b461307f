//! One language for two databases. A statement is written once, in the SQL that both speak; this room knows where they
//! differ: how a transaction begins, how a row is locked, what time it is.
//!
//! - Parameters are `$1`, `$2`, …; columns are text, 64-bit integers and bytes.
//! - `{now}` is the database's own clock in milliseconds: what is decided by time and shared is decided by that clock.
//! - `{lock}` at the end of a SELECT locks its rows. SQLite needs none: its writers come one after another anyway.

use std::{borrow::Cow, future::Future, time::Duration};

use sqlx::{
    AssertSqlSafe, Postgres, Row as _, Sqlite, Transaction,
    pool::PoolConnection,
    postgres::{PgConnection, PgPool, PgRow},
    sqlite::{SqliteConnection, SqlitePool, SqliteRow},
};

use super::ControlStoreError;

/// A statement, its parameters, and what it is for.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    doing: &'static str,
    sql: Cow<'static, str>,
    values: Vec<Value>,
}

/// `doing`: what an error is told with, as in "read of a key".
pub(super) fn statement(doing: &'static str, sql: impl Into<Cow<'static, str>>) -> Statement {
    Statement { doing, sql: sql.into(), values: Vec::new() }
}

impl Statement {
    /// The next parameter.
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    fn text(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Sqlite => self.sql.replace("{now}", SQLITE_NOW).replace("{lock}", ""),
            Dialect::Postgres => self.sql.replace("{now}", POSTGRES_NOW).replace("{lock}", "FOR UPDATE"),
        }
    }

    fn failed(&self) -> impl Fn(sqlx::Error) -> ControlStoreError + use<> {
        database(self.doing)
    }
}

#[derive(Clone, Copy, Debug)]
enum Dialect {
    Sqlite,
    Postgres,
}

const SQLITE_NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
const POSTGRES_NOW: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";

/// A parameter.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(Some(value.into()))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

/// A row of an answer; its columns are asked for by name.
#[derive(Debug)]
pub(super) struct Row {
    doing: &'static str,
    row: Either<SqliteRow, PgRow>,
}

#[derive(Debug)]
enum Either<L, P> {
    Sqlite(L),
    Postgres(P),
}

impl Row {
    /// A column: `i64`, `String`, `Vec<u8>`, or an `Option` of one. Errors: no such column, or another type.
    pub(super) fn get<T>(&self, column: &str) -> Result<T, ControlStoreError>
    where
        T: for<'r> sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>,
        T: for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
    {
        let read = match &self.row {
            Either::Sqlite(row) => row.try_get(column),
            Either::Postgres(row) => row.try_get(column),
        };
        read.map_err(database(self.doing))
    }
}

pub(super) fn database(doing: &'static str) -> impl Fn(sqlx::Error) -> ControlStoreError {
    move |source| ControlStoreError::Database { doing, source }
}

/// An open database. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) enum Database {
    /// One process, one writer.
    Sqlite { writer: SqlitePool, readers: SqlitePool },
    /// Shared with other replicas.
    Postgres(PgPool),
}

impl Database {
    /// What a SELECT finds.
    pub(super) async fn rows(&self, statement: Statement) -> Result<Vec<Row>, ControlStoreError> {
        self.reader(&statement).await?.rows(statement).await
    }

    /// The first row a SELECT finds.
    pub(super) async fn row(&self, statement: Statement) -> Result<Option<Row>, ControlStoreError> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    /// A write of one statement; answers how many rows it touched.
    pub(super) async fn run(&self, statement: Statement) -> Result<u64, ControlStoreError> {
        self.writer(&statement).await?.run(statement).await
    }

    /// A write of one statement with RETURNING.
    pub(super) async fn write(&self, statement: Statement) -> Result<Vec<Row>, ControlStoreError> {
        self.writer(&statement).await?.rows(statement).await
    }

    /// Begins to write.
    pub(super) async fn begin(&self, doing: &'static str) -> Result<Tx, ControlStoreError> {
        let failed = database(doing);
        let tx = match self {
            Self::Sqlite { writer, .. } => {
                Either::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?)
            }
            Self::Postgres(pool) => {
                let mut conn = Whole::of(pool.acquire().await.map_err(&failed)?);
                postgres_run(&mut conn, statement(doing, "BEGIN")).await?;
                Either::Postgres(conn)
            }
        };
        Ok(Tx { doing, tx })
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }

    async fn reader(&self, statement: &Statement) -> Result<Held, ControlStoreError> {
        let held = match self {
            Self::Sqlite { readers, .. } => readers.acquire().await.map(Either::Sqlite),
            Self::Postgres(pool) => pool.acquire().await.map(Either::Postgres),
        };
        held.map(Held).map_err(statement.failed())
    }

    async fn writer(&self, statement: &Statement) -> Result<Held, ControlStoreError> {
        let held = match self {
            Self::Sqlite { writer, .. } => writer.acquire().await.map(Either::Sqlite),
            Self::Postgres(pool) => pool.acquire().await.map(Either::Postgres),
        };
        held.map(Held).map_err(statement.failed())
    }
}

/// A connection of a pool.
struct Held(Either<PoolConnection<Sqlite>, PoolConnection<Postgres>>);

impl Held {
    async fn rows(self, statement: Statement) -> Result<Vec<Row>, ControlStoreError> {
        match self.0 {
            Either::Sqlite(mut conn) => sqlite_rows(&mut conn, statement).await,
            Either::Postgres(conn) => {
                let mut conn = Whole::of(conn);
                let rows = postgres_rows(&mut conn, statement).await;
                conn.give_back_if(is_answer(&rows));
                rows
            }
        }
    }

    async fn run(self, statement: Statement) -> Result<u64, ControlStoreError> {
        match self.0 {
            Either::Sqlite(mut conn) => sqlite_run(&mut conn, statement).await,
            Either::Postgres(conn) => {
                let mut conn = Whole::of(conn);
                let done = postgres_run(&mut conn, statement).await;
                conn.give_back_if(is_answer(&done));
                done
            }
        }
    }
}

/// A connection to Postgres that goes back to its pool only when all that was asked on it was answered well. Any other
/// is cut off, and the server rolls back what it had open: nobody waits for a server that answers never.
struct Whole(Option<PoolConnection<Postgres>>);

impl Whole {
    fn of(conn: PoolConnection<Postgres>) -> Self {
        Self(Some(conn))
    }

    fn give_back_if(mut self, is_well: bool) {
        if is_well {
            self.0 = None;
        }
    }

    fn conn(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect("it was not given back: that takes it")
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            drop(conn.detach());
        }
    }
}

/// The server has said yes or no, and waits for the next statement.
fn is_answer<T>(answer: &Result<T, ControlStoreError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(ControlStoreError::Database { source, .. }) => source.as_database_error().is_some(),
        Err(_) => false,
    }
}

/// How long one statement may take. The server ends it sooner; one that is cut off answers never.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(12);

async fn within<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(STATEMENT_PATIENCE, asked).await.map_err(late)?
}

/// A transaction; dropped, it never was.
pub(super) struct Tx {
    doing: &'static str,
    tx: Either<Transaction<'static, Sqlite>, Whole>,
}

impl Tx {
    pub(super) async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, ControlStoreError> {
        match &mut self.tx {
            Either::Sqlite(tx) => sqlite_rows(tx, statement).await,
            Either::Postgres(tx) => postgres_rows(tx, statement).await,
        }
    }

    pub(super) async fn row(&mut self, statement: Statement) -> Result<Option<Row>, ControlStoreError> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    pub(super) async fn run(&mut self, statement: Statement) -> Result<u64, ControlStoreError> {
        match &mut self.tx {
            Either::Sqlite(tx) => sqlite_run(tx, statement).await,
            Either::Postgres(tx) => postgres_run(tx, statement).await,
        }
    }

    /// Statements without parameters, one after another: for SQLite, for Postgres.
    pub(super) async fn script(
        &mut self,
        sqlite: &'static str,
        postgres: &'static str,
    ) -> Result<(), ControlStoreError> {
        match &mut self.tx {
            Either::Sqlite(tx) => sqlx::raw_sql(sqlite).execute(&mut **tx).await.map(drop),
            Either::Postgres(tx) => sqlx::raw_sql(postgres).execute(tx.conn()).await.map(drop),
        }
        .map_err(database(self.doing))
    }

    /// Whether there is such a table.
    pub(super) async fn has_table(&mut self, name: &str) -> Result<bool, ControlStoreError> {
        let sql = match &self.tx {
            Either::Sqlite(_) => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = $1",
            Either::Postgres(_) => {
                "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1"
            }
        };
        Ok(self.row(statement(self.doing, sql).bind(name)).await?.is_some())
    }

    pub(super) async fn commit(self) -> Result<(), ControlStoreError> {
        match self.tx {
            Either::Sqlite(tx) => tx.commit().await.map_err(database(self.doing)),
            Either::Postgres(mut tx) => {
                postgres_run(&mut tx, statement(self.doing, "COMMIT")).await?;
                tx.give_back_if(true);
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tx({})", self.doing)
    }
}

/// A query with its parameters. A macro, because the drivers' queries share these methods but no trait.
macro_rules! query {
    ($statement:expr, $dialect:expr) => {{
        let text = $statement.text($dialect);
        $statement.values.into_iter().fold(sqlx::query(AssertSqlSafe(text)), |query, value| match value {
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
        })
    }};
}

async fn sqlite_rows(
    conn: &mut SqliteConnection,
    statement: Statement,
) -> Result<Vec<Row>, ControlStoreError> {
    let (doing, failed) = (statement.doing, statement.failed());
    let rows = query!(statement, Dialect::Sqlite).fetch_all(conn).await.map_err(failed)?;
    Ok(rows.into_iter().map(|row| Row { doing, row: Either::Sqlite(row) }).collect())
}

async fn postgres_rows(conn: &mut Whole, statement: Statement) -> Result<Vec<Row>, ControlStoreError> {
    let (doing, failed) = (statement.doing, statement.failed());
    let asked = query!(statement, Dialect::Postgres).fetch_all(conn.conn());
    let rows = within(asked).await.map_err(failed)?;
    Ok(rows.into_iter().map(|row| Row { doing, row: Either::Postgres(row) }).collect())
}

async fn sqlite_run(conn: &mut SqliteConnection, statement: Statement) -> Result<u64, ControlStoreError> {
    let failed = statement.failed();
    let done = query!(statement, Dialect::Sqlite).execute(conn).await;
    done.map(|done| done.rows_affected()).map_err(failed)
}

async fn postgres_run(conn: &mut Whole, statement: Statement) -> Result<u64, ControlStoreError> {
    let failed = statement.failed();
    let done = within(query!(statement, Dialect::Postgres).execute(conn.conn())).await;
    done.map(|done| done.rows_affected()).map_err(failed)
}

/// `($1, $2), ($3, $4)`: room for `rows` rows of `columns` parameters, behind `before` others.
pub(super) fn places(rows: usize, columns: usize, before: usize) -> String {
    let row = |row: usize| {
        let places: Vec<_> = (1..=columns).map(|n| format!("${}", before + row * columns + n)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Rows that one statement writes: both databases take thirty thousand parameters.
pub(super) const ROWS_AT_ONCE: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_numbered_through() {
        assert_eq!(places(2, 3, 1), "($2, $3, $4), ($5, $6, $7)");
        assert_eq!(places(0, 3, 0), "");
    }
}
