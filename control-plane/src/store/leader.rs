//! Which replica gives shards away: one row, taken over when its time has passed, by the database's own clock. Not what
//! keeps two from giving the same shard away (the transaction does), but what keeps them from doing it all the time.

use std::time::Duration;

use orch8_model::Millis;

use super::{
    ControlStore, ControlStoreError,
    database::{Database, Tx, statement},
};

const DOING: &str = "write of the leader";

/// A replica's time as leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub holder: String,
    pub epoch: i64,
    /// Unbroken since.
    pub since: Millis,
}

impl ControlStore {
    /// Takes or keeps the lead for `ttl`; `None`: another replica has it.
    ///
    /// A file has one process, and that is its leader: nothing is written, and nothing wakes a machine that rests.
    pub async fn campaign(
        &self,
        holder: &str,
        ttl: Duration,
        sole_since: Millis,
    ) -> Result<Option<Term>, ControlStoreError> {
        if !self.is_shared() {
            return Ok(Some(Term { holder: holder.to_owned(), epoch: 0, since: sole_since }));
        }
        let sql = "UPDATE leader
                   SET epoch = CASE WHEN holder = $1 AND expires_at > {now} THEN epoch ELSE epoch + 1 END,
                       since = CASE WHEN holder = $1 AND expires_at > {now} THEN since ELSE {now} END,
                       expires_at = {now} + $2,
                       holder = $1
                   WHERE row_no = 1 AND (holder = $1 OR expires_at <= {now})
                   RETURNING epoch, since";
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2);
        let taken = self.database.write(statement(DOING, sql).bind(holder).bind(ttl)).await?;
        let Some(row) = taken.first() else { return Ok(None) };
        let (epoch, since) = (row.get("epoch")?, Millis(row.get("since")?));
        Ok(Some(Term { holder: holder.to_owned(), epoch, since }))
    }

    /// Leaves the lead to whoever asks next.
    pub async fn resign(&self, holder: &str) -> Result<(), ControlStoreError> {
        let sql = "UPDATE leader SET expires_at = 0 WHERE row_no = 1 AND holder = $1";
        self.database.run(statement(DOING, sql).bind(holder)).await.map(drop)
    }

    /// What the database's clock says.
    pub async fn now(&self) -> Result<Millis, ControlStoreError> {
        let row = self.database.row(statement("read of the clock", "SELECT {now} AS now")).await?;
        row.map_or(Ok(Millis(0)), |row| row.get("now").map(Millis))
    }

    /// Whether the lead is still this replica's, until the transaction ends.
    pub(super) async fn leads(&self, tx: &mut Tx, term: &Term) -> Result<bool, ControlStoreError> {
        match &self.database {
            Database::Sqlite { .. } => Ok(true),
            Database::Postgres(_) => {
                let sql = "SELECT epoch FROM leader
                           WHERE row_no = 1 AND holder = $1 AND epoch = $2 AND expires_at > {now} {lock}";
                let read = statement(DOING, sql).bind(term.holder.as_str()).bind(term.epoch);
                Ok(tx.row(read).await?.is_some())
            }
        }
    }
}
