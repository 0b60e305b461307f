//! A replica sees what was written, by itself and by others: its own keys, the bell of those who follow, and the fleet.
//! The one way in, so that an older state never replaces a newer one.

use crate::{
    ControlPlane,
    store::{ControlStoreError, Counters},
};

/// How far a replica has read. `None` in the beginning.
#[derive(Debug, Default)]
pub struct Seen {
    changes: Option<u64>,
    fleet: Option<(u64, u64)>,
}

/// Reads what is new. What was committed before the call is seen when it returns.
pub async fn catch_up(plane: &ControlPlane) -> Result<(), ControlStoreError> {
    let mut seen = plane.seen.lock().await;
    let Counters { changes, fleet, leases } = plane.store.counters().await?;
    if seen.changes != Some(changes) {
        // A lower number is of a database that was restored: everything is read again.
        let after = seen.changes.filter(|seen| *seen <= changes);
        let news = plane.store.changes_after(after).await?;
        match after {
            None => plane.keys.replace(news.grants()),
            Some(_) => plane.keys.update(news.grants()),
        }
        seen.changes = Some(news.token);
        plane.fleet.changed(news.token);
    }
    if seen.fleet != Some((fleet, leases)) {
        let view = plane.store.fleet_view().await?;
        seen.fleet = Some((view.counters.fleet, view.counters.leases));
        plane.fleet.show(view);
    }
    Ok(())
}
