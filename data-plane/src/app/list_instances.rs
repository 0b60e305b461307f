//! Runs, newest first.

use std::sync::Arc;

use orch8_model::{Fault, TenantId};

use super::{DataPlane, still_placed, store_fault, view::compiled_of};
use crate::{
    shard::Compiled,
    store::{InstanceFilter, InstanceRow, PageAfter},
};

/// One page, and whether there is more behind it.
pub async fn list_instances(
    plane: &DataPlane,
    tenant: &TenantId,
    filter: &InstanceFilter,
    after: Option<PageAfter>,
    limit: u32,
) -> Result<(Vec<InstanceRow>, bool), Fault> {
    let routed = plane.router.route(tenant)?;
    let mut rows = routed
        .room
        .store()
        .list_instances(&routed.tenant, filter, after, limit.saturating_add(1))
        .await
        .map_err(store_fault)?;
    if rows.is_empty() {
        still_placed(&routed).await?;
    }
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    Ok((rows, more))
}

/// The sequence a listed run runs.
pub async fn sequence_of(
    plane: &DataPlane,
    tenant: &TenantId,
    row: &InstanceRow,
) -> Result<Arc<Compiled>, Fault> {
    compiled_of(&plane.router.route(tenant)?, row).await
}
