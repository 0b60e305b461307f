//! What changed, in order: whoever has read up to a number has missed nothing below it, since numbers are given in the
//! order of commits.

use orch8_proto::identity::Grant;
use orch8_seal::Digest;

use super::{
    ApiKey, ControlStore, ControlStoreError, Placement,
    counters::{Counter, bump},
    database::{Tx, statement},
};

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
        Ok(self.counters().await?.changes)
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
}

impl Changes {
    /// What each key allows now.
    pub fn grants(&self) -> impl Iterator<Item = (Digest, Grant)> {
        self.keys.iter().map(|key| (key.sha256, key.grant()))
    }
}

/// Makes this the newest change; answers its number.
pub(super) async fn note(tx: &mut Tx, thing: Thing<'_>) -> Result<u64, ControlStoreError> {
    let (kind, key) = match thing {
        Thing::Placement(tenant) => ("placement", tenant),
        Thing::Key(id) => ("key", id),
    };
    let seq = bump(tx, Counter::Changes).await?;
    let sql = "INSERT INTO changes (seq, kind, key) VALUES ($1, $2, $3)
               ON CONFLICT (kind, key) DO UPDATE SET seq = excluded.seq";
    tx.run(statement("write of a change", sql).bind(seq.cast_signed()).bind(kind).bind(key)).await?;
    Ok(seq)
}
