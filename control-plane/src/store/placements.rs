//! Placements. The epoch only rises: the predicate stands in the statement that writes.

use orch8_model::{Millis, PlacementEpoch, StoreName, TenantId};
use sqlx::{Row as _, sqlite::SqliteRow};

use super::{
    ControlStore, ControlStoreError, Placement,
    changes::{self, Thing},
    database,
};

const COLUMNS: &str = "tenant_id, store, epoch, updated_at";

/// Answer to `advance_placement`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// Written; the number of the change.
    Won(u64),
    /// An epoch that is not lower stands there.
    Stale(Placement),
}

impl ControlStore {
    /// Writes the placement if its epoch is higher than the stored one.
    pub async fn advance_placement(&self, placement: Placement) -> Result<Advanced, ControlStoreError> {
        let failed = database("write of a placement");
        let mut tx = self.writer().begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let done = sqlx::query(
            "INSERT INTO placements (tenant_id, store, epoch, updated_at) VALUES (?, ?, ?, ?)
             ON CONFLICT (tenant_id) DO UPDATE
                 SET store = excluded.store, epoch = excluded.epoch, updated_at = excluded.updated_at
                 WHERE excluded.epoch > placements.epoch",
        )
        .bind(placement.tenant.as_str())
        .bind(placement.store.as_str())
        .bind(placement.epoch.get().cast_signed())
        .bind(placement.updated_at.0)
        .execute(&mut *tx)
        .await
        .map_err(&failed)?;
        if done.rows_affected() == 0 {
            drop(tx);
            let stored = self.placement(&placement.tenant).await?;
            return Ok(Advanced::Stale(stored.unwrap_or(placement)));
        }
        let thing = Thing::Placement(placement.tenant.as_str());
        let change = changes::note(&mut tx, thing).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)?;
        Ok(Advanced::Won(change))
    }

    pub async fn placement(&self, tenant: &TenantId) -> Result<Option<Placement>, ControlStoreError> {
        let row =
            sqlx::query("SELECT tenant_id, store, epoch, updated_at FROM placements WHERE tenant_id = ?")
                .bind(tenant.as_str())
                .fetch_optional(self.readers())
                .await
                .map_err(database("read of a placement"))?;
        row.map(placement).transpose()
    }

    /// By tenant, after `after`.
    pub async fn placements(
        &self,
        after: Option<&TenantId>,
        limit: u32,
    ) -> Result<Vec<Placement>, ControlStoreError> {
        let sql = format!("SELECT {COLUMNS} FROM placements WHERE tenant_id > ? ORDER BY tenant_id LIMIT ?");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(after.map_or("", |id| id.as_str()))
            .bind(limit)
            .fetch_all(self.readers())
            .await
            .map_err(database("read of placements"))?;
        rows.into_iter().map(placement).collect()
    }

    pub(super) async fn all_placements(&self) -> Result<Vec<Placement>, ControlStoreError> {
        let sql = format!("SELECT {COLUMNS} FROM placements ORDER BY tenant_id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(self.readers()).await;
        rows.map_err(database("read of placements"))?.into_iter().map(placement).collect()
    }

    pub(super) async fn placements_changed_after(
        &self,
        token: i64,
    ) -> Result<Vec<Placement>, ControlStoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM placements
             WHERE tenant_id IN (SELECT key FROM changes WHERE seq > ? AND kind = 'placement')"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(token).fetch_all(self.readers()).await;
        rows.map_err(database("read of placements"))?.into_iter().map(placement).collect()
    }
}

fn placement(row: SqliteRow) -> Result<Placement, ControlStoreError> {
    let failed = database("read of a placement");
    let tenant: String = row.try_get(0).map_err(&failed)?;
    let store: String = row.try_get(1).map_err(&failed)?;
    let epoch: i64 = row.try_get(2).map_err(&failed)?;
    let corrupt = |column| ControlStoreError::Corrupt { table: "placements", column, key: tenant.clone() };
    Ok(Placement {
        tenant: TenantId::parse(&tenant).map_err(|_| corrupt("tenant_id"))?,
        store: StoreName::parse(&store).map_err(|_| corrupt("store"))?,
        epoch: u64::try_from(epoch).ok().and_then(PlacementEpoch::new).ok_or_else(|| corrupt("epoch"))?,
        updated_at: Millis(row.try_get(3).map_err(&failed)?),
    })
}
