//! One run, and why each open node waits.

use orch8_model::{Fault, InstanceId, TenantId};

use super::{
    DataPlane,
    view::{InstanceView, NodeView, instance_view, nodes_of},
};

/// The run with its open nodes. Errors: `NOT_FOUND`.
pub async fn get_instance(
    plane: &DataPlane,
    tenant: &TenantId,
    id: InstanceId,
) -> Result<(InstanceView, Vec<NodeView>), Fault> {
    let routed = plane.router.route(tenant)?;
    let view = instance_view(&routed, id).await?;
    if view.row.status.is_terminal() {
        return Ok((view, Vec::new()));
    }
    let mut open = nodes_of(&routed, id, &view.compiled).await?;
    open.retain(|n| n.node.wait.is_some());
    Ok((view, open))
}
