//! From whatever schema the database has to the newest: each file once, remembered with its digest, all in one
//! transaction under a lock, so that of two processes that start at once one does it and the other finds it done.
//!
//! Nodes of the version before go on meanwhile. Whoever waits for a table's lock makes everybody behind it wait too, so a
//! migration waits for a moment only, lets the others pass, and begins anew.

use std::time::Duration;

use orch8_seal::sha256;
use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::time::{Instant, sleep};

use super::session::{Args, database, execute, fetch, sqlstate};
use crate::store::StoreError;

/// Whole files, oldest first; the first is schema 1.
const FILES: &[&str] = &[include_str!("../../../../migrations/store/postgres/0001_store.sql")];

/// Released with the transaction. The number is "orch8" in ASCII: of this database alone, and nobody else's.
const LOCK: &str = "SELECT pg_advisory_xact_lock(478559811640)";
/// Others migrate for a moment, not for longer.
const PATIENCE: &str = "SET LOCAL lock_timeout = '60s'";
/// What waits behind us waits as long as we do.
const MOMENT: &str = "SET LOCAL lock_timeout = '500ms'";
/// Between two attempts: time for all that waited.
const PASS: Duration = Duration::from_millis(700);
/// After so long the store is too busy, or somebody holds a lock and does nothing.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Tables in the schema that new tables go to, leaving out those that extensions bring.
const TABLES: &str = "SELECT c.relname::text FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
       AND NOT EXISTS (
         SELECT 1 FROM pg_depend d
         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
       )
     ORDER BY c.relname";
const READ: &str = "SELECT value FROM meta WHERE key = $1";
const WRITE: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// Answers the store's identity.
pub(super) async fn migrate(conn: &mut PgConnection) -> Result<String, StoreError> {
    apply(conn, FILES).await
}

async fn apply(conn: &mut PgConnection, files: &[&'static str]) -> Result<String, StoreError> {
    let begun = Instant::now();
    loop {
        match attempt(conn, files).await {
            Err(StoreError::Database { source, .. })
                if is_in_the_way(&source) && begun.elapsed() < GIVE_UP =>
            {
                tracing::info!(
                    "others use the tables that this migration changes; it lets them pass and tries again"
                );
                sleep(PASS).await;
            }
            done => return done,
        }
    }
}

/// A lock that did not come in time, or a deadlock: both are over when the transaction is.
fn is_in_the_way(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| code == "55P03" || code == "40P01")
}

async fn attempt(conn: &mut PgConnection, files: &[&'static str]) -> Result<String, StoreError> {
    let mut tx = conn.begin().await.map_err(failed)?;
    for sql in [PATIENCE, LOCK, MOMENT] {
        execute(&mut tx, sql, Args::new()).await.map_err(failed)?;
    }
    let found = schema(&mut tx).await?;
    let known = files.len() as i64;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    for (number, file) in (1..).zip(files) {
        let digest = sha256(file.as_bytes()).hex();
        if number <= found {
            if read(&mut tx, &digest_key(number)).await?.as_deref() != Some(digest.as_str()) {
                return Err(StoreError::ForeignSchema { number });
            }
            continue;
        }
        sqlx::raw_sql(*file).execute(&mut *tx).await.map_err(failed)?;
        write(&mut tx, &digest_key(number), &digest).await?;
        write(&mut tx, "schema", &number.to_string()).await?;
    }
    let id = read(&mut tx, "store").await?.ok_or_else(|| corrupt("store"))?;
    tx.commit().await.map_err(failed)?;
    Ok(id)
}

/// The number of the newest schema applied; 0 for an empty database. One with tables of others is refused.
async fn schema(conn: &mut PgConnection) -> Result<i64, StoreError> {
    let rows = fetch(conn, TABLES, Args::new()).await.map_err(failed)?;
    let tables: Vec<String> =
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(failed)?;
    let Some(first) = tables.first() else { return Ok(0) };
    let foreign =
        || StoreError::Unfit { why: format!("it holds tables of something else, such as {first:?}") };
    if !tables.iter().any(|table| table == "meta") {
        return Err(foreign());
    }
    match read(conn, "room").await {
        Ok(Some(room)) if room == "store" => {}
        Ok(_) | Err(_) => return Err(foreign()),
    }
    read(conn, "schema").await?.and_then(|text| text.parse().ok()).ok_or_else(|| corrupt("schema"))
}

fn digest_key(number: i64) -> String {
    format!("schema.{number}.sha256")
}

fn failed(error: sqlx::Error) -> StoreError {
    database("migration", error)
}

fn corrupt(key: &str) -> StoreError {
    StoreError::Corrupt { table: "meta", column: "value", key: key.to_owned() }
}

async fn read(conn: &mut PgConnection, key: &str) -> Result<Option<String>, StoreError> {
    let rows = fetch(conn, READ, Args::new().with(key)).await.map_err(failed)?;
    rows.first().map(|row| row.try_get(0)).transpose().map_err(failed)
}

async fn write(conn: &mut PgConnection, key: &str, value: &str) -> Result<(), StoreError> {
    execute(conn, WRITE, Args::new().with(key).with(value)).await.map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orch8_model::{Millis, PlacementEpoch, StoreName, TenantId};
    use tokio::sync::Mutex;

    use super::*;
    use crate::store::{Fence, FenceMode, Placement, PostgresStore, TenantHandle};

    const NEXT: &str = "ALTER TABLE instances ADD COLUMN note text;
         ALTER TABLE journal ADD COLUMN note text;
         CREATE INDEX journal_note ON journal (note) WHERE note IS NOT NULL;";
    const BROKEN: &str = "ALTER TABLE journal ADD COLUMN other text; SELECT 1 / 0;";

    async fn connect(url: &str) -> PgConnection {
        PgConnection::connect(url).await.expect("a connection")
    }

    /// Fifty small writes a second, as dispatch makes them; answers the longest pause between two.
    async fn busy(store: PostgresStore, handle: TenantHandle, stop: Arc<Mutex<bool>>) -> Duration {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        while !*stop.lock().await {
            let started = store.start(&handle, Vec::new()).await.expect("answers");
            assert!(started.is_some(), "the fence stands");
            store.list_instances(&handle, &Default::default(), None, 10).await.expect("answers");
            longest = longest.max(last.elapsed());
            last = Instant::now();
            sleep(Duration::from_millis(20)).await;
        }
        longest
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_live_store_is_upgraded_once_without_stopping_for_long_and_a_broken_upgrade_changes_nothing() {
        let url = orch8_test_postgres::database();
        let store = PostgresStore::open(&url).await.expect("a store");
        let placement = Placement {
            tenant: TenantId::parse("acme").expect("a name"),
            store: StoreName::parse("main").expect("a name"),
            epoch: PlacementEpoch::new(1).expect("small"),
        };
        let handle = TenantHandle::of(&placement);
        let (tenant, mode) = (placement.tenant, FenceMode::Active);
        let fence = Fence { tenant, placement: placement.epoch, mode, weight: 1 };
        assert!(store.set_fence(fence).await.expect("answers"));
        let mut conn = connect(&url).await;
        let rows = "INSERT INTO journal (turn_no, at, bucket, instance_id, body)
             SELECT n, 0, 0, lpad('', 32, '0')::uuid, '{}' FROM generate_series(1, 200000) n";
        execute(&mut conn, rows, Args::new()).await.expect("rows");

        let stop = Arc::new(Mutex::new(false));
        let load = tokio::spawn(busy(store.clone(), handle, stop.clone()));
        // Somebody reads for two seconds: whoever waits for the table has to let the others pass.
        let reader = tokio::spawn({
            let mut conn = connect(&url).await;
            async move {
                let mut tx = conn.begin().await.expect("begins");
                execute(&mut tx, "LOCK TABLE instances IN ACCESS SHARE MODE", Args::new())
                    .await
                    .expect("locks");
                sleep(Duration::from_secs(2)).await;
            }
        });
        sleep(Duration::from_millis(100)).await;
        let files = [FILES[0], NEXT];
        let (mut a, mut b) = (connect(&url).await, connect(&url).await);
        let (first, second) = tokio::join!(apply(&mut a, &files), apply(&mut b, &files));
        assert_eq!(first.expect("upgraded"), second.expect("found it done"));
        reader.await.expect("reads");

        let broken = [FILES[0], NEXT, BROKEN];
        apply(&mut conn, &broken).await.expect_err("does not apply");
        assert_eq!(schema(&mut conn).await.expect("reads"), 2, "the schema before stands");
        let other = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'other'";
        let rows = fetch(&mut conn, other, Args::new()).await.expect("reads");
        assert_eq!(rows[0].try_get::<i64, _>(0).expect("a number"), 0, "and nothing of the broken one");
        *stop.lock().await = true;
        let longest = load.await.expect("goes on");
        assert!(longest < Duration::from_secs(2), "the store stood still for {longest:?}");
        let refused = PostgresStore::open(&url).await.expect_err("an older version");
        assert!(matches!(refused, StoreError::NewerSchema { found: 2, known: 1 }), "{refused:?}");
        store.maintain(Millis::from(chrono::Utc::now())).await.expect("the version before still works");
        store.close().await;
    }
}
