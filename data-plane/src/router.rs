//! From a tenant to its store, or to a refusal. The only way to a [`TenantHandle`], and it has no default: a tenant
//! without a placement is not found, a placement that names a store of another process is unsupported.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use orch8_model::{Fault, Reason, StoreName, TenantId};

use crate::{
    shard::StoreRoom,
    store::{Fence, FenceMode, Placement, StoreError, TenantHandle},
};

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

/// Fences opened at a time.
const FENCES: usize = 64;
/// Fences read at a time.
const FENCE_PAGE: u32 = 1_000;
/// How long a caller waits before it asks a process again that has just started.
const STARTING: Duration = Duration::from_millis(200);

impl Router {
    /// A router over this process's stores, knowing no tenant yet.
    pub fn new(rooms: HashMap<StoreName, Arc<StoreRoom>>) -> Self {
        Self { rooms: Arc::new(rooms), placements: Arc::default() }
    }

    /// The tenant's place. Errors: `TENANT_NOT_PLACED`, `STORE_UNSUPPORTED`; `SHARD_MOVING` before anything is known.
    pub fn route(&self, tenant: &TenantId) -> Result<Routed, Fault> {
        let placements = self.placements.read().unwrap_or_else(PoisonError::into_inner);
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
        let tenant = TenantHandle::of(placement);
        Ok(Routed { room: Arc::clone(room), tenant })
    }

    /// Learns placements: opens each tenant's fence in its store first, then routes to it; a store of ours that the
    /// tenant has left is sealed for it. An older epoch than the known one changes nothing. `whole`: these are all there
    /// are; who is not among them has no placement.
    pub async fn learn(&self, learned: Vec<Placement>, whole: bool) -> Result<(), StoreError> {
        let left = if whole { self.left_behind(&learned).await? } else { self.moved_away(&learned) };
        let opened = stream::iter(learned).map(|placement| self.open(placement)).buffer_unordered(FENCES);
        let opened: Vec<Option<Placement>> = opened.try_collect().await?;
        self.take_up(opened.into_iter().flatten(), whole);
        for (room, fence) in left {
            room.store().set_fence(fence).await?;
        }
        Ok(())
    }

    /// Opens the fence, where the store is ours. `None`: the store knows a higher epoch.
    async fn open(&self, placement: Placement) -> Result<Option<Placement>, StoreError> {
        if let Some(room) = self.rooms.get(&placement.store)
            && !room.store().set_fence(fence(&placement, FenceMode::Active)).await?
        {
            tracing::warn!(tenant.id = %placement.tenant, epoch = %placement.epoch, why = "the store knows a higher epoch", "placement ignored");
            return Ok(None);
        }
        Ok(Some(placement))
    }

    fn take_up(&self, opened: impl Iterator<Item = Placement>, whole: bool) {
        let mut placements = self.placements.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = placements.take().unwrap_or_default();
        let mut known = if whole { HashMap::new() } else { std::mem::take(&mut before) };
        for placement in opened {
            let older = before.get(&placement.tenant).or_else(|| known.get(&placement.tenant)).cloned();
            let newest = older.filter(|older| older.epoch > placement.epoch).unwrap_or(placement);
            known.insert(newest.tenant.clone(), newest);
        }
        *placements = Some(known);
    }

    /// Rooms of ours that a tenant of these was routed to until now and is not any more.
    fn moved_away(&self, learned: &[Placement]) -> Vec<(Arc<StoreRoom>, Fence)> {
        let placements = self.placements.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = placements.as_ref() else { return Vec::new() };
        let moved = learned.iter().filter_map(|new| {
            let old = known.get(&new.tenant)?;
            let room =
                self.rooms.get(&old.store).filter(|_| old.store != new.store && old.epoch < new.epoch)?;
            Some((Arc::clone(room), fence(new, FenceMode::Sealed)))
        });
        moved.collect()
    }

    /// Fences in stores of ours that stand open for tenants who have been placed elsewhere since.
    async fn left_behind(&self, learned: &[Placement]) -> Result<Vec<(Arc<StoreRoom>, Fence)>, StoreError> {
        let placed: HashMap<&TenantId, &Placement> = learned.iter().map(|p| (&p.tenant, p)).collect();
        let mut left = Vec::new();
        for room in self.rooms.values() {
            let mut after = None;
            loop {
                let page = room.store().fences(after, FENCE_PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.tenant.clone());
                for standing in page {
                    let Some(placement) = placed.get(&standing.tenant) else { continue };
                    if placement.store != *room.name() && standing.placement < placement.epoch {
                        left.push((Arc::clone(room), fence(placement, FenceMode::Sealed)));
                    }
                }
            }
        }
        Ok(left)
    }

    /// Every room of this process.
    pub fn rooms(&self) -> impl Iterator<Item = &Arc<StoreRoom>> {
        self.rooms.values()
    }
}

fn fence(placement: &Placement, mode: FenceMode) -> Fence {
    Fence { tenant: placement.tenant.clone(), placement: placement.epoch, mode, weight: 1 }
}
