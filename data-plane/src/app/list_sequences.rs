//! The tenant's sequences, by name, newest version first.

use orch8_model::{Fault, Namespace, SequenceName, TenantId};

use super::{DataPlane, still_placed, store_fault};
use crate::store::SequenceRow;

/// One page, and whether there is more behind it.
pub async fn list_sequences(
    plane: &DataPlane,
    tenant: &TenantId,
    namespace: Option<&Namespace>,
    after: Option<(Namespace, SequenceName, i32)>,
    limit: u32,
) -> Result<(Vec<SequenceRow>, bool), Fault> {
    let routed = plane.router.route(tenant)?;
    let mut rows = routed
        .room
        .store()
        .list_sequences(&routed.tenant, namespace, after, limit.saturating_add(1))
        .await
        .map_err(store_fault)?;
    if rows.is_empty() {
        still_placed(&routed).await?;
    }
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    Ok((rows, more))
}
