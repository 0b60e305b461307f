//! The raw journal on Postgres: two connections, each one auto-committed statement at a time over arrays.

use futures::future::try_join_all;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use uuid::Uuid;

use crate::{Outcome, STEPS, json, tenant};

/// Instances of one array.
pub const ARRAY: usize = 1_024;
pub const COMMITTERS: usize = 2;

const TABLES: &str = "DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw;
    CREATE TABLE raw.ti (id uuid PRIMARY KEY, tenant_id text, seq_id int, state text, priority smallint,
      next_fire_at timestamptz, step int, ctx jsonb, created_at timestamptz, updated_at timestamptz);
    CREATE INDEX ti_due ON raw.ti (priority DESC, next_fire_at) WHERE state = 'scheduled';
    CREATE TABLE raw.so (instance_id uuid, step int, output jsonb, created_at timestamptz, PRIMARY KEY (instance_id, step))";
const INSERT_TI: &str = "INSERT INTO raw.ti
    SELECT id, tenant_id, 1, 'running', 1, now(), 0, $3::text::jsonb, now(), now() FROM unnest($1::uuid[], $2::text[]) v (id, tenant_id)";
const INSERT_SO: &str =
    "INSERT INTO raw.so SELECT id, $2::bigint, $3::text::jsonb, now() FROM unnest($1::uuid[]) v (id)";
const LAST: &str = "WITH done AS (
      INSERT INTO raw.so SELECT id, $2::bigint, $3::text::jsonb, now() FROM unnest($1::uuid[]) v (id)
    )
    UPDATE raw.ti SET state = 'completed', updated_at = now() FROM unnest($1::uuid[]) v (id) WHERE ti.id = v.id";

pub struct Raw {
    conns: Vec<PgConnection>,
}

impl Raw {
    pub async fn open(url: &str) -> Outcome<Self> {
        let mut conns = Vec::new();
        for _ in 0..COMMITTERS {
            conns.push(PgConnection::connect(url).await?);
        }
        sqlx::raw_sql(TABLES).execute(&mut conns[0]).await?;
        Ok(Self { conns })
    }

    /// One array on each connection.
    pub async fn array(&mut self) -> Outcome<()> {
        try_join_all(self.conns.iter_mut().map(array)).await.map(drop)
    }

    /// Bytes of WAL written so far by the whole server.
    pub async fn wal(&mut self) -> Outcome<u64> {
        let row = self.conns[0].fetch_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").await?;
        Ok(row.try_get::<i64, _>(0)?.try_into()?)
    }

    pub async fn wal_per_step(&mut self) -> Outcome<u64> {
        let before = self.wal().await?;
        self.array().await?;
        Ok((self.wal().await? - before) / (ARRAY * COMMITTERS * STEPS) as u64)
    }

    pub async fn close(mut self) -> Outcome<()> {
        sqlx::raw_sql("DROP SCHEMA raw CASCADE").execute(&mut self.conns[0]).await?;
        for conn in self.conns {
            conn.close().await?;
        }
        Ok(())
    }
}

async fn array(conn: &mut PgConnection) -> Outcome<()> {
    let ids: Vec<Uuid> = (0..ARRAY).map(|_| Uuid::now_v7()).collect();
    let (tenants, json): (Vec<String>, _) = ((0..ARRAY).map(tenant).collect(), json());
    sqlx::query(INSERT_TI).bind(&ids).bind(&tenants).bind(&json).execute(&mut *conn).await?;
    for step in 0..STEPS {
        let sql = if step + 1 == STEPS { LAST } else { INSERT_SO };
        sqlx::query(sql).bind(&ids).bind(step as i64).bind(&json).execute(&mut *conn).await?;
    }
    Ok(())
}
