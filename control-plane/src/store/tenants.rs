//! Tenants.

use orch8_model::{Millis, TenantId};

use super::{
    ControlStore, ControlStoreError, Tenant,
    database::{Row, statement},
};

impl ControlStore {
    /// Makes the tenant, or answers the one that is there.
    pub async fn create_tenant(&self, tenant: Tenant) -> Result<Tenant, ControlStoreError> {
        let sql = "INSERT INTO tenants (tenant_id, display_name, created_at) VALUES ($1, $2, $3)
                   ON CONFLICT DO NOTHING";
        let write = statement("write of a tenant", sql)
            .bind(tenant.id.as_str())
            .bind(tenant.display_name.as_str())
            .bind(tenant.created_at.0);
        self.database.run(write).await?;
        Ok(self.tenant(&tenant.id).await?.unwrap_or(tenant))
    }

    pub async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, ControlStoreError> {
        let sql = "SELECT tenant_id, display_name, created_at FROM tenants WHERE tenant_id = $1";
        let row = self.database.row(statement("read of a tenant", sql).bind(id.as_str())).await?;
        row.map(tenant).transpose()
    }

    /// By id, after `after`.
    pub async fn tenants(
        &self,
        after: Option<&TenantId>,
        limit: u32,
    ) -> Result<Vec<Tenant>, ControlStoreError> {
        let sql = "SELECT tenant_id, display_name, created_at FROM tenants
                   WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2";
        let read = statement("read of tenants", sql).bind(after.map_or("", |id| id.as_str())).bind(limit);
        self.database.rows(read).await?.into_iter().map(tenant).collect()
    }
}

fn tenant(row: Row) -> Result<Tenant, ControlStoreError> {
    let id: String = row.get("tenant_id")?;
    Ok(Tenant {
        id: TenantId::parse(&id).map_err(|_| ControlStoreError::Corrupt {
            table: "tenants",
            column: "tenant_id",
            key: id,
        })?,
        display_name: row.get("display_name")?,
        created_at: Millis(row.get("created_at")?),
    })
}
