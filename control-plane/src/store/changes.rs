//! What changed, in order. One writer at a time makes the order of numbers the order of commits, so whoever has read up
//! to a number has missed nothing below it.

use orch8_proto::identity::Grant;
use orch8_seal::Digest;
use sqlx::{Row as _, SqliteConnection};

use super::{ApiKey, ControlStore, ControlStoreError, Placement, database};

/// What changed after a token.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub placements: Vec<Placement>,
    pub keys: Vec<ApiKey>,
    /// Of the newest change read.
    pub token: u64,
}

/// A thing that changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Thing<'a> {
    /// By tenant.
    Placement(&'a str),
    /// By id.
    Key(&'a str),
}

impl ControlStore {
    /// Number of the newest change; 0 when there was none.
    pub async fn newest_change(&self) -> Result<u64, ControlStoreError> {
        let row = sqlx::query("SELECT coalesce(max(seq), 0) FROM changes").fetch_one(self.readers()).await;
        let seq: i64 = row.and_then(|row| row.try_get(0)).map_err(database("read of changes"))?;
        Ok(u64::try_from(seq).unwrap_or_default())
    }

    /// Everything a data plane has to know, or what changed after `token`. The rows are read after the token, so a
    /// change in between is told twice and never missed.
    pub async fn changes_after(&self, token: Option<u64>) -> Result<Changes, ControlStoreError> {
        let newest = self.newest_change().await?;
        let (placements, keys) = match token {
            None => (self.all_placements().await?, self.all_keys().await?),
            Some(token) if token >= newest => (Vec::new(), Vec::new()),
            Some(token) => {
                let token = i64::try_from(token).unwrap_or(i64::MAX);
                (self.placements_changed_after(token).await?, self.keys_changed_after(token).await?)
            }
        };
        Ok(Changes { placements, keys, token: newest })
    }

    /// Every key that was not revoked, with what it allows.
    pub async fn all_grants(&self) -> Result<Vec<(Digest, Grant)>, ControlStoreError> {
        Ok(self.all_keys().await?.iter().map(|key| (key.sha256, key.grant())).collect())
    }
}

/// Makes this the newest change; answers its number.
pub(super) async fn note(conn: &mut SqliteConnection, thing: Thing<'_>) -> Result<u64, sqlx::Error> {
    let (kind, key) = match thing {
        Thing::Placement(tenant) => ("placement", tenant),
        Thing::Key(id) => ("key", id),
    };
    let done = sqlx::query("INSERT OR REPLACE INTO changes (kind, key) VALUES (?, ?)")
        .bind(kind)
        .bind(key)
        .execute(conn)
        .await?;
    Ok(done.last_insert_rowid().cast_unsigned())
}
