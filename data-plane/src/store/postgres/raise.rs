//! Raising a row that others hold: one statement that commits by itself, and what is done about those in its way.
//!
//! The raise waits for whoever holds the row; that is what makes it a fence. An owner that was paused inside its
//! transaction would keep it waiting for as long as it is paused: after [`PATIENCE`] it is put out, and with it whatever
//! it had not committed.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Row as _, postgres::PgRow};

use super::{
    fields::Fields,
    session::{Args, Pool, database, execute, fetch, is_gone, sqlstate, unknown},
};
use crate::store::{StoreError, counts::Counts};

/// How long a holder is waited for: many times the length of a transaction that is alive.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How long it may take until those in the way are gone.
const PUTTING_OUT: Duration = Duration::from_secs(8);
/// Pause between two looks at who is in the way.
const LOOK: Duration = Duration::from_millis(50);

const WAIT: &str =
    "SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', $1, false)";
const WAIT_AS_BEFORE: &str = "SELECT set_config(name, reset_val, false) FROM pg_settings
     WHERE name IN ('lock_timeout', 'statement_timeout')";
const ME: &str = "SELECT pg_backend_pid()";
/// Those in the way of $1, each asked to end. One that has gone meanwhile answers false.
pub(super) const PUT_OUT: &str =
    "SELECT pid, pg_terminate_backend(pid) FROM unnest(pg_blocking_pids($1)) AS pid";

const CANCEL: &str = "SELECT pg_cancel_backend($1)";

/// Runs `update`, which raises one row. Puts out whoever is in its way for longer than [`PATIENCE`].
pub(super) async fn raise_row(
    pool: &Pool,
    doing: &'static str,
    update: &'static str,
    args: impl Fn() -> Args,
) -> Result<Vec<PgRow>, StoreError> {
    match update_within(pool, doing, update, args(), PATIENCE).await {
        Err(StoreError::Database { source, .. }) if is_late(&source) => {}
        answer => return answer,
    }
    let mut conn = pool.tested().await.map_err(|e| database(doing, e))?.detach();
    let me = pid(&mut conn).await.map_err(|e| database(doing, e))?;
    let raised = {
        let update = run_within(&mut conn, update, args(), PUTTING_OUT);
        let mut update = std::pin::pin!(update);
        loop {
            tokio::select! {
                raised = &mut update => break raised,
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Err(error) = put_out(pool, doing, me).await {
                // It still waits at the server, and would raise behind our back once the way is free.
                let _ = pool.rows(doing, CANCEL, || Args::new().with(me)).await;
                match update.await {
                    Err(_) => return Err(error),
                    raised => break raised,
                }
            }
        }
    };
    let _ = conn.close().await;
    raised.map_err(|e| if is_gone(&e) { unknown(doing, e) } else { database(doing, e) })
}

/// Runs one statement that commits by itself and waits for no lock longer than `patience`.
pub(super) async fn update_within(
    pool: &Pool,
    doing: &'static str,
    update: &'static str,
    args: Args,
    patience: Duration,
) -> Result<Vec<PgRow>, StoreError> {
    let mut conn = pool.tested().await.map_err(|e| database(doing, e))?;
    Counts::add(&pool.counts.transactions, 1);
    Counts::add(&pool.counts.statements, 1);
    match run_within(&mut conn, update, args, patience).await {
        Ok(rows) => Ok(rows),
        Err(error) if is_gone(&error) => {
            drop(conn.detach());
            Err(unknown(doing, error))
        }
        Err(error) => Err(database(doing, error)),
    }
}

/// Bounded as a statement, not by `lock_timeout`: waiting for a row that sharers pass on to each other is a chain of
/// short waits, each of which ends in time.
async fn run_within(
    conn: &mut PgConnection,
    update: &'static str,
    args: Args,
    patience: Duration,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let patience = Args::new().with(format!("{}ms", patience.as_millis()));
    execute(conn, WAIT, patience).await?;
    let rows = fetch(conn, update, args).await;
    execute(conn, WAIT_AS_BEFORE, Args::new()).await?;
    rows
}

async fn put_out(pool: &Pool, doing: &'static str, me: i32) -> Result<(), StoreError> {
    let asked = pool.rows(doing, PUT_OUT, || Args::new().with(me)).await;
    let rows = match asked {
        Err(StoreError::Database { source, .. }) if sqlstate(&source).as_deref() == Some("42501") => {
            return Err(StoreError::InTheWay { doing, source });
        }
        asked => asked?,
    };
    for row in &rows {
        let pid = Fields::of("pg_stat_activity", row).int(0, "pid")?;
        tracing::warn!(pid, doing, "a connection that held a lock for too long was ended");
    }
    Ok(())
}

async fn pid(conn: &mut PgConnection) -> Result<i32, sqlx::Error> {
    let rows = fetch(conn, ME, Args::new()).await?;
    rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)
}

/// Somebody else held it for the whole time.
pub(super) fn is_late(error: &sqlx::Error) -> bool {
    matches!(sqlstate(error).as_deref(), Some("55P03" | "57014"))
}
