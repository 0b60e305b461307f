//! Opening the database: fit for a store, brought to the newest schema, with partitions for the days ahead.

use std::{str::FromStr as _, sync::Arc, time::Duration};

use orch8_model::Millis;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _, postgres::PgConnectOptions};

use super::{
    PostgresStore,
    migrate::migrate,
    session::{Args, Pools, database, fetch},
};
use crate::store::{StoreError, counts::Counts};

/// How long the first connection may take: as long as any other is waited for.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What every connection is told. Transactions here take milliseconds, so nobody waits for a lock for long; one whose
/// process is paused is ended by the server itself.
const SETTINGS: &[(&str, &str)] = &[
    ("lock_timeout", "2s"),
    ("idle_in_transaction_session_timeout", "5s"),
    ("client_min_messages", "warning"),
    // Every statement was written for an index. A plan made while a table was empty would read all of it, and would
    // still do so when it holds a million rows.
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_material", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    // Compiling takes longer than any statement here.
    ("jit", "off"),
];
/// What an owner's statements do does not depend on their arguments, so they are planned once.
pub(super) const OWNERS: (&str, &str) = ("plan_cache_mode", "force_generic_plan");
/// What clients ask does; and a plan made for an empty partition must not be there when it is full.
pub(super) const CLIENTS: (&str, &str) = ("plan_cache_mode", "force_custom_plan");

/// Prepared statements kept per connection; there are about sixty.
const STATEMENTS_KEPT: usize = 128;
/// The oldest server whose statements these are.
const VERSION_MIN: i32 = 140_000;

pub(super) async fn open(url: &str) -> Result<PostgresStore, StoreError> {
    let options = options(url)?;
    let mut conn = connect(&options).await.map_err(|e| database("open", e))?;
    fit(&mut conn).await?;
    let id = migrate(&mut conn).await?;
    let now = now(&mut conn).await.map_err(|e| database("open", e))?;
    let _ = conn.close().await;
    let counts = Arc::new(Counts::default());
    let pools = Pools::new(options.clone().options([OWNERS]), options.options([CLIENTS]), &counts);
    let store = PostgresStore::new(pools, counts, id);
    store.maintain(now).await?;
    tracing::info!(store.id = %store.id(), "store opened");
    Ok(store)
}

pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|e| database("open", e))?;
    Ok(options
        .application_name("orch8")
        .options(SETTINGS.iter().copied())
        .statement_cache_capacity(STATEMENTS_KEPT)
        .disable_statement_logging())
}

/// A server that takes the connection and says nothing keeps no process from saying so.
async fn connect(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    let late = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(CONNECT_WITHIN, options.connect()).await.map_err(late)?
}

/// The clock that decides what is shared.
async fn now(conn: &mut PgConnection) -> Result<Millis, sqlx::Error> {
    let rows = fetch(conn, "SELECT (extract(epoch FROM now()) * 1000)::bigint", Args::new()).await?;
    rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0).map(Millis)
}

const SERVER: &str = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
       pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('full_page_writes')";

/// Refuses a server that cannot hold a store; warns of one that forgets what it was told.
async fn fit(conn: &mut PgConnection) -> Result<(), StoreError> {
    let failed = |e| database("open", e);
    let rows = fetch(conn, SERVER, Args::new()).await.map_err(failed)?;
    let row = rows.first().ok_or_else(|| failed(sqlx::Error::RowNotFound))?;
    let version: i32 = row.try_get(0).map_err(failed)?;
    let text = |at: usize| row.try_get::<String, _>(at).map_err(failed);
    let unfit = |why: &str| Err(StoreError::Unfit { why: why.to_owned() });
    if version < VERSION_MIN {
        return unfit("it is older than Postgres 14");
    }
    if text(1)? != "UTF8" {
        return unfit("its encoding is not UTF8");
    }
    if row.try_get(2).map_err(failed)? {
        return unfit("it is a standby; name the primary");
    }
    for (at, setting) in [(3, "fsync"), (4, "synchronous_commit"), (5, "full_page_writes")] {
        if text(at)? == "off" {
            tracing::warn!(
                setting,
                "{setting} is off: what this server says it has committed may be lost in a crash"
            );
        }
    }
    Ok(())
}
