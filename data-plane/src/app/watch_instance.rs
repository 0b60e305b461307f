//! A run as it goes on: a snapshot, then one message per change, until it ends.

use std::{collections::HashMap, time::Duration};

use orch8_model::{Fault, InstanceId, Reason, TenantId};
use tokio::sync::mpsc;

use super::{
    DataPlane,
    view::{History, InstanceView, NodeView, instance_view},
};
use crate::{router::Routed, watch::Watch};

/// The net under lost hints.
const POLL: Duration = Duration::from_secs(5);
/// Changes closer together than this are told as one.
const BREATH: Duration = Duration::from_millis(50);

/// What a watcher is told: the run, the nodes that changed, and whether this is the end.
pub type Change = (InstanceView, Vec<NodeView>, bool);

/// Sends changes until the run ends or the receiver is gone. Errors: `NOT_FOUND`.
pub async fn watch_instance(
    plane: DataPlane,
    tenant: TenantId,
    id: InstanceId,
    changes: mpsc::Sender<Result<Change, Fault>>,
) {
    let ended = tokio::select! {
        ended = follow(&plane, &tenant, id, &changes) => ended,
        () = plane.leaving.cancelled() => Err(Fault::new(Reason::Draining, "this node is shutting down; watch again")),
    };
    if let Err(fault) = ended {
        // The receiver may be gone; then nobody wants to know.
        let _ = changes.send(Err(fault)).await;
    }
}

async fn follow(
    plane: &DataPlane,
    tenant: &TenantId,
    id: InstanceId,
    changes: &mpsc::Sender<Result<Change, Fault>>,
) -> Result<(), Fault> {
    let routed = plane.router.route(tenant)?;
    let mut watch = routed.room.watchers().watch(id);
    let (mut history, mut told) = (History::default(), HashMap::new());
    loop {
        let change = look(&routed, id, &mut history, &mut told).await?;
        let ended = change.2;
        if changes.send(Ok(change)).await.is_err() || ended {
            return Ok(());
        }
        if !next(&mut watch, changes).await {
            return Ok(());
        }
    }
}

/// `false`: the receiver is gone.
async fn next(watch: &mut Watch, changes: &mpsc::Sender<Result<Change, Fault>>) -> bool {
    tokio::select! {
        () = watch.changed() => tokio::time::sleep(BREATH).await,
        () = tokio::time::sleep(POLL) => {}
        () = changes.closed() => return false,
    }
    true
}

async fn look(
    routed: &Routed,
    id: InstanceId,
    history: &mut History,
    told: &mut HashMap<orch8_engine::NodeNo, (orch8_engine::timeline::NodeState, u32)>,
) -> Result<Change, Fault> {
    let view = instance_view(routed, id).await?;
    history.catch_up(routed, id, &view.compiled).await?;
    let mut nodes = history.nodes(routed);
    nodes.retain(|n| {
        let state = (n.node.state, n.node.attempt);
        told.insert(n.node.node, state) != Some(state)
    });
    let ended = view.row.status.is_terminal();
    Ok((view, nodes, ended))
}
