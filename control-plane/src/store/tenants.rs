//! Tenants.

use orch8_model::{Millis, TenantId};
use sqlx::{Row as _, sqlite::SqliteRow};

use super::{ControlStore, ControlStoreError, Tenant, database};

impl ControlStore {
    /// Makes the tenant, or answers the one that is there.
    pub async fn create_tenant(&self, tenant: Tenant) -> Result<Tenant, ControlStoreError> {
        sqlx::query(
            "INSERT INTO tenants (tenant_id, display_name, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(tenant.id.as_str())
        .bind(tenant.display_name.as_str())
        .bind(tenant.created_at.0)
        .execute(self.writer())
        .await
        .map_err(database("write of a tenant"))?;
        Ok(self.tenant(&tenant.id).await?.unwrap_or(tenant))
    }

    pub async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, ControlStoreError> {
        let row = sqlx::query("SELECT tenant_id, display_name, created_at FROM tenants WHERE tenant_id = ?")
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await
            .map_err(database("read of a tenant"))?;
        row.map(tenant).transpose()
    }

    /// By id, after `after`.
    pub async fn tenants(
        &self,
        after: Option<&TenantId>,
        limit: u32,
    ) -> Result<Vec<Tenant>, ControlStoreError> {
        let rows = sqlx::query(
            "SELECT tenant_id, display_name, created_at FROM tenants WHERE tenant_id > ? ORDER BY tenant_id LIMIT ?",
        )
        .bind(after.map_or("", |id| id.as_str()))
        .bind(limit)
        .fetch_all(self.readers())
        .await
        .map_err(database("read of tenants"))?;
        rows.into_iter().map(tenant).collect()
    }
}

fn tenant(row: SqliteRow) -> Result<Tenant, ControlStoreError> {
    let failed = database("read of a tenant");
    let id: String = row.try_get(0).map_err(&failed)?;
    Ok(Tenant {
        id: TenantId::parse(&id).map_err(|_| ControlStoreError::Corrupt {
            table: "tenants",
            column: "tenant_id",
            key: id,
        })?,
        display_name: row.try_get(1).map_err(&failed)?,
        created_at: Millis(row.try_get(2).map_err(&failed)?),
    })
}
