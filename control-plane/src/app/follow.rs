//! A data plane follows: everything first, then what changes.

use orch8_model::{Fault, Millis, NodeName, Reason};
use tokio::sync::mpsc;

use super::store_fault;
use crate::{ControlPlane, store::Changes};

/// What a follower is told at once.
#[derive(Debug)]
pub struct Group {
    pub full: bool,
    pub changes: Changes,
}

/// Sends groups until the follower leaves or the control plane closes. A slow follower is waited for; what changes
/// meanwhile comes in one group. Errors: the seats are taken.
pub async fn follow(
    plane: ControlPlane,
    node: NodeName,
    stores: Vec<String>,
    token: u64,
    now: Millis,
    groups: mpsc::Sender<Result<Group, Fault>>,
) {
    let told = tell(&plane, node, stores, token, now, &groups);
    let stopped = plane.fleet.stopped();
    let ended = tokio::select! {
        ended = told => ended,
        () = groups.closed() => Ok(()),
        () = stopped.cancelled() => Err(Fault::new(Reason::Draining, "the control plane is shutting down")),
    };
    if let Err(fault) = ended {
        // The follower may be gone; then nobody wants to know.
        let _ = groups.try_send(Err(fault));
    }
}

async fn tell(
    plane: &ControlPlane,
    node: NodeName,
    stores: Vec<String>,
    token: u64,
    now: Millis,
    groups: &mpsc::Sender<Result<Group, Fault>>,
) -> Result<(), Fault> {
    let taken = || Fault::new(Reason::Overloaded, "too many data planes follow this control plane");
    let seat = plane.fleet.enter(node, stores, now).ok_or_else(taken)?;
    let mut changed = plane.fleet.changes();
    // A token that this database never gave out is of another one: everything is told.
    let newest = plane.store.newest_change().await.map_err(store_fault)?;
    let mut after = (token > 0 && token <= newest).then_some(token);
    loop {
        changed.mark_unchanged();
        let changes = plane.store.changes_after(after).await.map_err(store_fault)?;
        let token = changes.token;
        let news = after.is_none_or(|known| token > known);
        if news && groups.send(Ok(Group { full: after.is_none(), changes })).await.is_err() {
            return Ok(());
        }
        seat.watcher.has_sent(token);
        after = Some(token);
        if changed.changed().await.is_err() {
            return Ok(());
        }
    }
}
