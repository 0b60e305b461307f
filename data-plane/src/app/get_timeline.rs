//! The tree of activated blocks.

use std::collections::HashMap;

use orch8_engine::NodeNo;
use orch8_model::{Fault, InstanceId, TenantId};
use serde_json::Value;

use super::{
    DataPlane,
    view::{InstanceView, NodeView, each_turn, instance_view, nodes_of},
};

/// A page of the tree, in activation order.
#[derive(Debug)]
pub struct TimelinePage {
    pub view: InstanceView,
    pub nodes: Vec<NodeView>,
    /// By node; only when asked for.
    pub outputs: HashMap<NodeNo, Value>,
    pub more: bool,
}

/// Nodes numbered above `after`. Errors: `NOT_FOUND`.
pub async fn get_timeline(
    plane: &DataPlane,
    tenant: &TenantId,
    id: InstanceId,
    after: NodeNo,
    limit: u32,
    with_outputs: bool,
) -> Result<TimelinePage, Fault> {
    let routed = plane.router.route(tenant)?;
    let view = instance_view(&routed, id).await?;
    let mut nodes = nodes_of(&routed, id, &view.compiled).await?;
    nodes.retain(|n| n.node.node > after);
    let more = nodes.len() > limit as usize;
    nodes.truncate(limit as usize);
    let mut outputs = HashMap::new();
    if with_outputs {
        each_turn(&routed, id, |_, record| {
            outputs.extend(record.outputs.into_iter().map(|o| (o.node, o.output)))
        })
        .await?;
    }
    Ok(TimelinePage { view, nodes, outputs, more })
}
