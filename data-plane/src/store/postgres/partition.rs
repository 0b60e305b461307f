//! Partitions of the days to come. A day without one costs nothing but that it cannot be dropped as a whole: its rows
//! are in the rest.

use orch8_model::Millis;
use sqlx::{AssertSqlSafe, Row as _};
use uuid::Uuid;

use super::{
    maintain::DAY_MS,
    session::{Args, Pool, database, sqlstate},
};
use crate::store::StoreError;

/// Tables that are divided into days of birth, and the key of each that begins with the instance's id.
const TABLES: &[(&str, &str)] = &[
    ("instances", "id"),
    ("listed", "instance_id"),
    ("births", "instance_id"),
    ("journal", "instance_id"),
    ("snapshots", "instance_id"),
];
/// Days beyond today: a store that nobody maintains for a weekend still has its Monday.
const AHEAD: i64 = 3;
const DOING: &str = "making of partitions";
/// A table that somebody reads for longer than this is left alone: whoever comes after us would wait behind us.
const PATIENCE: &str = "SET LOCAL lock_timeout = '100ms'";

const MISSING: &str = "SELECT v.day FROM unnest($1::bigint[], $2::text[]) AS v (day, name)
     WHERE to_regclass(v.name) IS NULL ORDER BY v.day";

pub(super) async fn make_ahead(pool: &Pool, now: Millis) -> Result<(), StoreError> {
    let today = now.0.max(0) / DAY_MS;
    let days: Vec<i64> = (today..=today.saturating_add(AHEAD)).collect();
    let (first, _) = TABLES[0];
    let names: Vec<String> = days.iter().map(|day| name(first, *day)).collect();
    let missing = pool.rows(DOING, MISSING, || Args::new().with(&days).with(&names)).await?;
    for row in &missing {
        let day: i64 = row.try_get(0).map_err(|e| database(DOING, e))?;
        match make(pool, day).await {
            Ok(()) => {}
            Err(StoreError::Database { source, .. }) if is_for_later(&source) => {
                tracing::debug!(day, error = %source, "a day's partitions are not made yet");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn name(table: &str, day: i64) -> String {
    format!("{table}_{day}")
}

/// Nodes that start at once would be in each other's way.
pub(super) const ONE_AT_A_TIME: &str = "SELECT position FROM rings WHERE ring = 'timers' FOR NO KEY UPDATE";

/// All tables of a day or none, unless the rest has rows of that day already: there they stay.
async fn make(pool: &Pool, day: i64) -> Result<(), StoreError> {
    let mut tx = pool.begin(DOING).await?;
    let mut session = tx.session();
    session.rows(ONE_AT_A_TIME, Args::new()).await?;
    session.execute(PATIENCE, Args::new()).await?;
    for (table, key) in TABLES {
        let rest = format!("SELECT 1 FROM {table}_rest WHERE {key} >= $1 AND {key} < $2 LIMIT 1");
        let args = Args::new().with(first_id(day)).with(first_id(day + 1));
        if !session.rows(AssertSqlSafe(rest), args).await?.is_empty() {
            tx.roll_back().await;
            return Ok(());
        }
        let name = name(table, day);
        for sql in [
            // Attached afterwards: to be made as a partition it would lock out all readers of the table.
            format!("CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"),
            format!("ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({day}) TO ({})", day + 1),
        ] {
            session.execute(AssertSqlSafe(sql), Args::new()).await?;
        }
    }
    tx.commit().await
}

/// The smallest id that was born on a day.
fn first_id(day: i64) -> Uuid {
    Uuid::from_u128((day.max(0) as u128).saturating_mul(DAY_MS as u128) << 80)
}

/// Somebody is in the way, or has just done it.
fn is_for_later(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| {
        // Lock not available; the table, its type or its bounds are there already; rows of that day came in between.
        matches!(&*code, "55P03" | "42P07" | "42710" | "23505" | "42P17" | "23514" | "40P01")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::postgres::fields::bucket;

    #[test]
    fn the_first_id_of_a_day_is_its_first() {
        for day in [0, 1, 20_000, 3_257_811] {
            assert_eq!(bucket(first_id(day)), day);
            assert_eq!(bucket(Uuid::from_u128(first_id(day + 1).as_u128() - 1)), day);
        }
    }
}
