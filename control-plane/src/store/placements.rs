//! Placements. The epoch only rises: the predicate stands in the statement that writes.

use orch8_model::{Millis, PlacementEpoch, StoreName, TenantId};

use super::{
    ControlStore, ControlStoreError, Placement,
    changes::{self, Thing},
    counters::Counter,
    database::{Row, statement},
};

/// Answer to `advance_placement`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// Written.
    Won,
    /// An epoch that is not lower stands there.
    Stale(Placement),
}

impl ControlStore {
    /// Writes the placement if its epoch is higher than the stored one.
    pub async fn advance_placement(&self, placement: Placement) -> Result<Advanced, ControlStoreError> {
        let doing = "write of a placement";
        let mut tx = self.begin(Counter::Changes, doing).await?;
        let sql = "INSERT INTO placements (tenant_id, store, epoch, updated_at) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (tenant_id) DO UPDATE
                       SET store = excluded.store, epoch = excluded.epoch, updated_at = excluded.updated_at
                       WHERE excluded.epoch > placements.epoch";
        let write = statement(doing, sql)
            .bind(placement.tenant.as_str())
            .bind(placement.store.as_str())
            .bind(placement.epoch.get().cast_signed())
            .bind(placement.updated_at.0);
        if tx.run(write).await? == 0 {
            drop(tx);
            let stored = self.placement(&placement.tenant).await?;
            return Ok(Advanced::Stale(stored.unwrap_or(placement)));
        }
        changes::note(&mut tx, Thing::Placement(placement.tenant.as_str())).await?;
        tx.commit().await?;
        Ok(Advanced::Won)
    }

    pub async fn placement(&self, tenant: &TenantId) -> Result<Option<Placement>, ControlStoreError> {
        let sql = "SELECT tenant_id, store, epoch, updated_at FROM placements WHERE tenant_id = $1";
        let row = self.database.row(statement("read of a placement", sql).bind(tenant.as_str())).await?;
        row.map(placement).transpose()
    }

    /// By tenant, after `after`.
    pub async fn placements(
        &self,
        after: Option<&TenantId>,
        limit: u32,
    ) -> Result<Vec<Placement>, ControlStoreError> {
        let sql = "SELECT tenant_id, store, epoch, updated_at FROM placements
                   WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2";
        let read = statement("read of placements", sql).bind(after.map_or("", |id| id.as_str())).bind(limit);
        self.database.rows(read).await?.into_iter().map(placement).collect()
    }

    pub(super) async fn all_placements(&self) -> Result<Vec<Placement>, ControlStoreError> {
        let sql = "SELECT tenant_id, store, epoch, updated_at FROM placements ORDER BY tenant_id";
        let rows = self.database.rows(statement("read of placements", sql)).await?;
        rows.into_iter().map(placement).collect()
    }

    pub(super) async fn placements_changed_after(
        &self,
        token: i64,
    ) -> Result<Vec<Placement>, ControlStoreError> {
        let sql = "SELECT tenant_id, store, epoch, updated_at FROM placements
                   WHERE tenant_id IN (SELECT key FROM changes WHERE seq > $1 AND kind = 'placement')";
        let rows = self.database.rows(statement("read of placements", sql).bind(token)).await?;
        rows.into_iter().map(placement).collect()
    }
}

fn placement(row: Row) -> Result<Placement, ControlStoreError> {
    let tenant: String = row.get("tenant_id")?;
    let (store, epoch): (String, i64) = (row.get("store")?, row.get("epoch")?);
    let corrupt = |column| ControlStoreError::Corrupt { table: "placements", column, key: tenant.clone() };
    Ok(Placement {
        tenant: TenantId::parse(&tenant).map_err(|_| corrupt("tenant_id"))?,
        store: StoreName::parse(&store).map_err(|_| corrupt("store"))?,
        epoch: u64::try_from(epoch).ok().and_then(PlacementEpoch::new).ok_or_else(|| corrupt("epoch"))?,
        updated_at: Millis(row.get("updated_at")?),
    })
}
