//! The yardstick on Postgres: what it does when nothing stands between.
//!
//! Fixed on purpose, with tables of its own, so that a fat schema of the engine cannot look good: an instance row at
//! birth and at close, one journal row per step, 256 bytes of JSON in each; [`CONNECTIONS`] connections, one
//! auto-committed statement at a time over [`ROWS`] rows each. The tables live in a schema beside the engine's and go
//! when the round ends.

use std::time::{Duration, Instant};

use anyhow::Context;
use sqlx::{Connection, Executor, PgConnection, Row as _, query};
use uuid::Uuid;

use super::{
    STEPS,
    figures::{LogWritten, Round},
};

/// Rows of one statement.
pub const ROWS: usize = 1_024;
/// Writers at a time.
pub const CONNECTIONS: usize = 2;
/// Tenants that the rows are spread over.
const TENANTS: usize = 100;
/// How long the server may keep its counters to itself.
const COUNTERS_LAG: Duration = Duration::from_millis(1_500);

const MAKE: &str = "
    DROP SCHEMA IF EXISTS orch8_bench CASCADE;
    CREATE SCHEMA orch8_bench;
    CREATE TABLE orch8_bench.ti (
        id uuid PRIMARY KEY, tenant_id text, seq_id int, state text, priority smallint, next_fire_at timestamptz,
        step int, ctx jsonb, created_at timestamptz, updated_at timestamptz
    );
    CREATE INDEX ON orch8_bench.ti (priority DESC, next_fire_at) WHERE state = 'scheduled';
    CREATE TABLE orch8_bench.so (
        instance_id uuid, step int, output jsonb, created_at timestamptz, PRIMARY KEY (instance_id, step)
    );
";
const REMOVE: &str = "DROP SCHEMA IF EXISTS orch8_bench CASCADE";
const BIRTH: &str = "
    INSERT INTO orch8_bench.ti (id, tenant_id, seq_id, state, priority, next_fire_at, step, ctx, created_at, updated_at)
    SELECT id, 'tenant-' || (n % $2), 1, 'running', 1, NULL, 0, $3::jsonb, now(), now()
    FROM unnest($1::uuid[]) WITH ORDINALITY AS v (id, n)";
const APPEND: &str = "
    INSERT INTO orch8_bench.so (instance_id, step, output, created_at)
    SELECT id, $2, $3::jsonb, now() FROM unnest($1::uuid[]) AS v (id)";
const CLOSE: &str = "
    WITH last AS (
        INSERT INTO orch8_bench.so (instance_id, step, output, created_at)
        SELECT id, $2, $3::jsonb, now() FROM unnest($1::uuid[]) AS v (id)
    )
    UPDATE orch8_bench.ti SET state = 'completed', updated_at = now() WHERE id = ANY ($1)";

/// Runs the loop for about `time`. Steps = rows of `so`.
pub async fn round(url: &str, time: Duration, payload: &str) -> anyhow::Result<Round> {
    let mut first = connect(url).await?;
    first.execute(MAKE).await?;
    let watch = Watch::begin(url).await?;
    let begun = Instant::now();
    let writers = (0..CONNECTIONS).map(|_| write(url, begun, time, payload));
    let steps: u64 = futures::future::try_join_all(writers).await?.into_iter().sum();
    let took = begun.elapsed();
    let log = watch.end().await?;
    first.execute(REMOVE).await?;
    first.close().await?;
    Ok(Round { steps, took, log: Some(log), statements_per_step: None })
}

async fn write(url: &str, begun: Instant, time: Duration, payload: &str) -> anyhow::Result<u64> {
    let mut connection = connect(url).await?;
    let mut steps = 0;
    while begun.elapsed() < time {
        let ids: Vec<Uuid> = (0..ROWS).map(|_| Uuid::now_v7()).collect();
        query(BIRTH).bind(&ids).bind(TENANTS as i64).bind(payload).execute(&mut connection).await?;
        for step in 1..STEPS {
            query(APPEND).bind(&ids).bind(step as i32).bind(payload).execute(&mut connection).await?;
        }
        query(CLOSE).bind(&ids).bind(STEPS as i32).bind(payload).execute(&mut connection).await?;
        steps += STEPS * ROWS as u64;
    }
    connection.close().await?;
    Ok(steps)
}

/// What the server writes meanwhile: of the whole cluster, so it has to be ours alone.
pub struct Watch {
    connection: PgConnection,
    before: (i64, i64),
}

impl Watch {
    pub async fn begin(url: &str) -> anyhow::Result<Self> {
        let mut connection = connect(url).await?;
        let before = counters(&mut connection).await?;
        Ok(Self { connection, before })
    }

    pub async fn end(mut self) -> anyhow::Result<LogWritten> {
        let (bytes, commits) = counters(&mut self.connection).await?;
        let since = |now: i64, before: i64| u64::try_from(now.saturating_sub(before)).unwrap_or_default();
        self.connection.close().await?;
        Ok(LogWritten { bytes: since(bytes, self.before.0), commits: since(commits, self.before.1) })
    }
}

/// Bytes of WAL and commits so far.
async fn counters(connection: &mut PgConnection) -> anyhow::Result<(i64, i64)> {
    let bytes = query("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
        .fetch_one(&mut *connection)
        .await?;
    tokio::time::sleep(COUNTERS_LAG).await;
    let commits = query("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
    let commits = commits.fetch_one(&mut *connection).await?;
    Ok((bytes.try_get(0)?, commits.try_get(0)?))
}

async fn connect(url: &str) -> anyhow::Result<PgConnection> {
    PgConnection::connect(url).await.context("connecting to the database of --store")
}
