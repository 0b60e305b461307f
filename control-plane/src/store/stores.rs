//! Stores by name. Where they are is known to the nodes that serve them.

use orch8_authority::{StoreKind, StoreShape};
use orch8_model::{Millis, StoreName};

use super::{
    ControlStore, ControlStoreError, Store,
    counters::Counter,
    database::{Row, statement},
};

/// Stores of one deployment: each has its shards' leases in the memory of every replica.
pub const STORES_MAX: u32 = 1_024;

/// Answer to `register_store`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// Made now, or there with this kind before.
    There(Store),
    /// There with another kind.
    Differs(Store),
    /// There are [`STORES_MAX`].
    Full,
}

impl ControlStore {
    /// Makes a store known.
    pub async fn register_store(
        &self,
        name: &StoreName,
        kind: StoreKind,
        now: Millis,
    ) -> Result<Registered, ControlStoreError> {
        let doing = "write of a store";
        let mut tx = self.begin(Counter::Fleet, doing).await?;
        let read = "SELECT name, kind, shard_count, created_at FROM stores WHERE name = $1";
        if let Some(row) = tx.row(statement(doing, read).bind(name.as_str())).await? {
            let there = store(row)?;
            let same = there.shape.kind == kind;
            return Ok(if same { Registered::There(there) } else { Registered::Differs(there) });
        }
        let count = tx.row(statement(doing, "SELECT count(*) AS stores FROM stores")).await?;
        let count: i64 = count.map_or(Ok(0), |row| row.get("stores"))?;
        if count >= i64::from(STORES_MAX) {
            return Ok(Registered::Full);
        }
        let write = "INSERT INTO stores (name, kind, shard_count, created_at) VALUES ($1, $2, 0, $3)";
        tx.run(statement(doing, write).bind(name.as_str()).bind(kind.as_str()).bind(now.0)).await?;
        tx.commit().await?;
        let shape = StoreShape { kind, shard_count: 0 };
        Ok(Registered::There(Store { name: name.clone(), shape, created_at: now }))
    }

    pub async fn store(&self, name: &StoreName) -> Result<Option<Store>, ControlStoreError> {
        let sql = "SELECT name, kind, shard_count, created_at FROM stores WHERE name = $1";
        let row = self.database.row(statement("read of a store", sql).bind(name.as_str())).await?;
        row.map(store).transpose()
    }

    /// By name, after `after`.
    pub async fn stores(
        &self,
        after: Option<&StoreName>,
        limit: u32,
    ) -> Result<Vec<Store>, ControlStoreError> {
        let sql =
            "SELECT name, kind, shard_count, created_at FROM stores WHERE name > $1 ORDER BY name LIMIT $2";
        let read = statement("read of stores", sql).bind(after.map_or("", |name| name.as_str())).bind(limit);
        self.database.rows(read).await?.into_iter().map(store).collect()
    }
}

pub(super) fn store(row: Row) -> Result<Store, ControlStoreError> {
    let (name, kind, shards): (String, String, i64) =
        (row.get("name")?, row.get("kind")?, row.get("shard_count")?);
    let corrupt = |column| ControlStoreError::Corrupt { table: "stores", column, key: name.clone() };
    Ok(Store {
        name: StoreName::parse(&name).map_err(|_| corrupt("name"))?,
        shape: StoreShape {
            kind: StoreKind::parse(&kind).ok_or_else(|| corrupt("kind"))?,
            shard_count: u32::try_from(shards).map_err(|_| corrupt("shard_count"))?,
        },
        created_at: Millis(row.get("created_at")?),
    })
}
