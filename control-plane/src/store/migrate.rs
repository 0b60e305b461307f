//! Bringing a database to the newest schema: each step once, whoever boots at the same time.

use super::{
    ControlStoreError,
    database::{Database, Tx, statement},
};

/// Steps from nothing to the newest schema: for SQLite, for Postgres.
const STEPS: &[(&str, &str)] = &[
    (
        include_str!("../../../migrations/control/sqlite/0001_control.sql"),
        include_str!("../../../migrations/control/postgres/0001_control.sql"),
    ),
    (
        include_str!("../../../migrations/control/sqlite/0002_fleet.sql"),
        include_str!("../../../migrations/control/postgres/0002_fleet.sql"),
    ),
];
/// Replicas that boot at once come one after another. Held until the end of the transaction, so that it also works
/// through a pooler. The number is ours alone: "orch8".
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(478459947576)";
/// Nothing: SQLite's writers come one after another anyway.
const NOTHING: &str = "";

/// Errors: a newer schema; a database of something else.
pub(super) async fn migrate(database: &Database) -> Result<(), ControlStoreError> {
    let mut tx = database.begin("migration").await?;
    tx.script(NOTHING, ONE_AT_A_TIME).await?;
    let known = STEPS.len();
    let found = found(&mut tx).await?;
    let missing = usize::try_from(found).ok().and_then(|found| STEPS.get(found..));
    let Some(missing) = missing else {
        return Err(ControlStoreError::NewerSchema { found, known: known as i64 });
    };
    if missing.is_empty() {
        return Ok(());
    }
    for (sqlite, postgres) in missing {
        tx.script(sqlite, postgres).await?;
    }
    let note = "INSERT INTO meta (key, value) VALUES ('schema', $1)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    tx.run(statement("migration", note).bind(known.to_string())).await?;
    tx.commit().await
}

/// The schema that is there; 0 is none.
async fn found(tx: &mut Tx) -> Result<i64, ControlStoreError> {
    match (tx.has_table("meta").await?, tx.has_table("placements").await?) {
        (false, false) => return Ok(0),
        (true, true) => {}
        (true, false) | (false, true) => return Err(ControlStoreError::Foreign),
    }
    let row = tx.row(statement("migration", "SELECT value FROM meta WHERE key = 'schema'")).await?;
    let corrupt = || ControlStoreError::Corrupt { table: "meta", column: "value", key: "schema".to_owned() };
    let text: String = row.ok_or_else(corrupt)?.get("value")?;
    text.parse().map_err(|_| corrupt())
}
