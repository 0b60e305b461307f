//! Numbers that only rise. Whoever writes takes the row first, so that on either database the writers of one kind come
//! one after another; whoever commits leaves a higher number, so the order of numbers is the order of commits.

use super::{
    ControlStore, ControlStoreError,
    database::{Tx, statement},
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// What a data plane follows: placements and keys.
    Changes,
    /// Nodes that came or left, leases that were refused: what the leader has to look at.
    Fleet,
    /// Who owns what.
    Leases,
}

impl Counter {
    fn name(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Fleet => "fleet",
            Self::Leases => "leases",
        }
    }
}

/// All of them, as they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub changes: u64,
    pub fleet: u64,
    pub leases: u64,
}

impl ControlStore {
    /// What replicas ask all the time: three numbers that tell whether anything happened.
    pub async fn counters(&self) -> Result<Counters, ControlStoreError> {
        let mut counters = Counters::default();
        let read = statement("read of counters", "SELECT name, value FROM counters");
        for row in self.database.rows(read).await? {
            let (name, value): (String, i64) = (row.get("name")?, row.get("value")?);
            let value = value.cast_unsigned();
            match name.as_str() {
                "changes" => counters.changes = value,
                "fleet" => counters.fleet = value,
                "leases" => counters.leases = value,
                _ => return Err(ControlStoreError::Corrupt { table: "counters", column: "name", key: name }),
            }
        }
        Ok(counters)
    }

    /// Begins to write what this counter counts, as the only one.
    pub(super) async fn begin(&self, counter: Counter, doing: &'static str) -> Result<Tx, ControlStoreError> {
        let mut tx = self.database.begin(doing).await?;
        let take = statement(doing, "SELECT value FROM counters WHERE name = $1 {lock}").bind(counter.name());
        tx.row(take).await?;
        Ok(tx)
    }
}

/// Counts one more; answers the number.
pub(super) async fn bump(tx: &mut Tx, counter: Counter) -> Result<u64, ControlStoreError> {
    let sql = "UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value";
    let row = tx.row(statement("write of a counter", sql).bind(counter.name())).await?;
    let corrupt =
        || ControlStoreError::Corrupt { table: "counters", column: "value", key: counter.name().to_owned() };
    let value: i64 = row.ok_or_else(corrupt)?.get("value")?;
    Ok(value.cast_unsigned())
}
