//! Output rows in the order they were written.

use orch8_engine::record::OutputRecord;
use orch8_model::{Fault, InstanceId, Millis, TenantId};

use super::{DataPlane, missing, store_fault, view::each_turn};

/// A page of rows.
#[derive(Debug)]
pub struct OutputPage {
    pub rows: Vec<(OutputRecord, Millis)>,
    pub more: bool,
}

/// Bytes of one page: well under what a gRPC client takes by default.
const PAGE_BYTES_MAX: usize = 3 << 20;

/// Rows above `after`, of one block or of all. Errors: `NOT_FOUND`.
pub async fn get_outputs(
    plane: &DataPlane,
    tenant: &TenantId,
    id: InstanceId,
    block: Option<&str>,
    after: u64,
    limit: u32,
) -> Result<OutputPage, Fault> {
    let routed = plane.router.route(tenant)?;
    let found = routed.room.store().instance(&routed.tenant, id).await.map_err(store_fault)?;
    if found.is_none() {
        return Err(missing(&routed).await);
    }
    let (mut rows, mut more, mut bytes) = (Vec::new(), false, 0);
    each_turn(&routed, id, |turn, record| {
        for row in record.outputs {
            if row.seq <= after || block.is_some_and(|b| b != row.block_id) {
                continue;
            }
            if more || rows.len() >= limit as usize || (bytes > 0 && bytes + turn.body.len() > PAGE_BYTES_MAX)
            {
                more = true;
                continue;
            }
            bytes += turn.body.len();
            rows.push((row, turn.at));
        }
    })
    .await?;
    Ok(OutputPage { rows, more })
}
