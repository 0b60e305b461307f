//! Placing tenants.

use orch8_authority::{Advance, judge_placement};
use orch8_model::{Fault, Reason, TenantId};

use super::{cut, store_fault, to_the_end};
use crate::{
    ControlPlane,
    store::{Advanced, Placement},
};

/// Writes a placement whose epoch is higher than the stored one. Errors: `NOT_FOUND` for the tenant, `STORE_UNSUPPORTED`
/// for a store that is not registered, `VERSION_CONFLICT` with the stored epoch.
pub async fn set_placement(plane: &ControlPlane, placement: Placement) -> Result<Placement, Fault> {
    if plane.store.tenant(&placement.tenant).await.map_err(store_fault)?.is_none() {
        return Err(Fault::not_found());
    }
    // A store that is registered stays so.
    if plane.store.store(&placement.store).await.map_err(store_fault)?.is_none() {
        let name = &placement.store;
        let text =
            format_args!("{name} is not registered; register it: orch8 store register {name} --kind KIND");
        return Err(Fault::field(Reason::StoreUnsupported, "store", text).with("store", name));
    }
    let stored = plane.store.placement(&placement.tenant).await.map_err(store_fault)?;
    match judge_placement(stored.map(|p| p.epoch), placement.epoch) {
        Advance::Proceed => {}
        Advance::Stale(stored) => return Err(conflict(stored)),
    }
    let (store, wanted) = (plane.store.clone(), placement.clone());
    match to_the_end(plane, async move { store.advance_placement(wanted).await }).await? {
        Advanced::Won => Ok(placement),
        // Somebody was faster between the look and the write.
        Advanced::Stale(stored) => Err(conflict(stored.epoch)),
    }
}

fn conflict(stored: orch8_model::PlacementEpoch) -> Fault {
    Fault::field(
        Reason::VersionConflict,
        "epoch",
        format_args!("must be higher than the stored epoch {stored}"),
    )
    .with("stored_epoch", stored)
}

/// Errors: `TENANT_NOT_PLACED`, also when there is no such tenant.
pub async fn get_placement(plane: &ControlPlane, tenant: &TenantId) -> Result<Placement, Fault> {
    let found = plane.store.placement(tenant).await.map_err(store_fault)?;
    found.ok_or_else(|| {
        Fault::new(Reason::TenantNotPlaced, "this tenant is not placed in any store; an operator does it: orch8 placement set TENANT --store STORE")
    })
}

/// One page, by tenant, and whether there is more behind it.
pub async fn list_placements(
    plane: &ControlPlane,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<(Vec<Placement>, bool), Fault> {
    let mut rows = plane.store.placements(after, limit.saturating_add(1)).await.map_err(store_fault)?;
    let more = cut(&mut rows, limit);
    Ok((rows, more))
}
