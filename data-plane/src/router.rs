//! From a tenant to its store, or to a refusal. The only way to a [`TenantHandle`], and it has no default: a tenant
//! without a placement is not found, a placement that names a store of another process is unsupported.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
    time::Duration,
};

use orch8_model::{Fault, PlacementEpoch, Reason, StoreName, TenantId};

use crate::{
    shard::StoreRoom,
    store::{Fence, FenceMode, StoreError, TenantHandle},
};

/// Where a tenant's rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub tenant: TenantId,
    pub store: StoreName,
    pub epoch: PlacementEpoch,
}

/// A tenant's place: the store's room and the handle its operations want.
#[derive(Clone, Debug)]
pub struct Routed {
    pub room: Arc<StoreRoom>,
    pub tenant: TenantHandle,
}

/// Placements as last pushed by the control plane, and the stores this process registered. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Router {
    rooms: Arc<HashMap<StoreName, Arc<StoreRoom>>>,
    /// `None` until the control plane was heard: then nobody is known to be missing.
    placements: Arc<RwLock<Option<HashMap<TenantId, Placement>>>>,
}

/// How long a caller waits before it asks a process again that has just started.
const STARTING: Duration = Duration::from_millis(200);

impl Router {
    /// A router over this process's stores, knowing no tenant yet.
    pub fn new(rooms: HashMap<StoreName, Arc<StoreRoom>>) -> Self {
        Self { rooms: Arc::new(rooms), placements: Arc::default() }
    }

    /// The tenant's place. Errors: `TENANT_NOT_PLACED`, `STORE_UNSUPPORTED`; `SHARD_MOVING` before anything is known.
    pub fn route(&self, tenant: &TenantId) -> Result<Routed, Fault> {
        let placements = self.placements.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(placements) = placements.as_ref() else {
            return Err(Fault::new(
                Reason::ShardMoving,
                "this process has just started and does not know its tenants yet",
            )
            .retry_after(STARTING));
        };
        let placement = placements.get(tenant).ok_or_else(|| {
            Fault::new(Reason::TenantNotPlaced, "this tenant has no placement; set one with SetPlacement")
        })?;
        let room = self.rooms.get(&placement.store).ok_or_else(|| {
            Fault::new(Reason::StoreUnsupported, "this process does not serve the store of this tenant")
                .with("store", &placement.store)
        })?;
        let tenant = TenantHandle { tenant: tenant.clone(), placement: placement.epoch };
        Ok(Routed { room: Arc::clone(room), tenant })
    }

    /// Learns placements: opens each tenant's fence in its store first, then routes to it. An older epoch than the
    /// known one changes nothing.
    pub async fn learn(&self, learned: Vec<Placement>) -> Result<(), StoreError> {
        let mut opened = Vec::with_capacity(learned.len());
        for placement in learned {
            if let Some(room) = self.rooms.get(&placement.store) {
                let fence = Fence {
                    tenant: placement.tenant.clone(),
                    placement: placement.epoch,
                    mode: FenceMode::Active,
                    weight: 1,
                };
                if !room.store().set_fence(fence).await? {
                    tracing::warn!(tenant.id = %placement.tenant, epoch = %placement.epoch, why = "the store knows a higher epoch", "placement ignored");
                    continue;
                }
            }
            opened.push(placement);
        }
        let mut placements = self.placements.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = placements.get_or_insert_default();
        for placement in opened {
            match known.get(&placement.tenant) {
                Some(older) if older.epoch > placement.epoch => {}
                Some(_) | None => {
                    known.insert(placement.tenant.clone(), placement);
                }
            }
        }
        Ok(())
    }

    /// Every room of this process.
    pub fn rooms(&self) -> impl Iterator<Item = &Arc<StoreRoom>> {
        self.rooms.values()
    }
}
