//! Creating and reading tenants.

use orch8_model::{Fault, Millis, TenantId};

use super::{cut, store_fault, to_the_end};
use crate::{ControlPlane, store::Tenant};

/// The tenant as it is stored: repeatable.
pub async fn create_tenant(
    plane: &ControlPlane,
    id: TenantId,
    display_name: String,
    now: Millis,
) -> Result<Tenant, Fault> {
    let (store, tenant) = (plane.store.clone(), Tenant { id, display_name, created_at: now });
    to_the_end(plane, async move { store.create_tenant(tenant).await }).await
}

/// Errors: `NOT_FOUND`.
pub async fn get_tenant(plane: &ControlPlane, id: &TenantId) -> Result<Tenant, Fault> {
    plane.store.tenant(id).await.map_err(store_fault)?.ok_or_else(Fault::not_found)
}

/// One page, by id, and whether there is more behind it.
pub async fn list_tenants(
    plane: &ControlPlane,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<(Vec<Tenant>, bool), Fault> {
    let mut rows = plane.store.tenants(after, limit.saturating_add(1)).await.map_err(store_fault)?;
    let more = cut(&mut rows, limit);
    Ok((rows, more))
}
