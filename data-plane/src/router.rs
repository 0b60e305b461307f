//! From a tenant to its store, or to a refusal. The only way to a [`TenantHandle`], and it has no default: a tenant
//! without a placement is not found, a placement that names a store of another process is unsupported.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, future::join_all, stream};
use orch8_model::{Fault, Reason, StoreName, TenantId};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

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
    rooms: Arc<HashMap<StoreName, Doorstep>>,
    known: Known,
}

/// `None` until the control plane was heard: then nobody is known to be missing.
type Known = Arc<RwLock<Option<HashMap<TenantId, Placement>>>>;

/// A store of ours, and the fences that are to be set in it.
#[derive(Debug)]
struct Doorstep {
    room: Arc<StoreRoom>,
    due: watch::Sender<Due>,
}

/// What a store has not done yet. Bounded by the tenants that are placed.
#[derive(Clone, Debug, Default)]
struct Due {
    /// Fences to set, the highest of each tenant.
    fences: HashMap<TenantId, Fence>,
    /// All placements there are: fences that stand open for tenants of other stores are to be sealed.
    whole: Option<Arc<HashMap<TenantId, Placement>>>,
    /// Taken and not done.
    under_way: bool,
}

/// Fences set at a time.
const FENCES: usize = 64;
/// Fences read at a time.
const FENCE_PAGE: u32 = 1_000;
/// How long a caller waits before it asks a process again that has just started, or whose store does not answer.
const STARTING: Duration = Duration::from_millis(200);
/// How long what is learned first is waited for, so that a process that says it is ready is.
const FIRST_WITHIN: Duration = Duration::from_secs(5);
/// How long what is learned later is waited for: a key that is revoked meanwhile has a second.
const WITHIN: Duration = Duration::from_millis(300);
/// Between two attempts to set what a store did not.
const AGAIN: Duration = Duration::from_millis(500);

impl Router {
    /// A router over this process's stores, knowing no tenant yet. Must be called in a tokio runtime.
    pub fn new(rooms: HashMap<StoreName, Arc<StoreRoom>>) -> Self {
        let known = Known::default();
        let step = |(name, room): (StoreName, Arc<StoreRoom>)| {
            (name, Doorstep { room, due: watch::Sender::default() })
        };
        let rooms: Arc<HashMap<_, _>> = Arc::new(rooms.into_iter().map(step).collect());
        for (name, step) in rooms.iter() {
            // They end with the last router.
            tokio::spawn(set_fences(
                name.clone(),
                Arc::downgrade(&rooms),
                step.due.subscribe(),
                known.clone(),
            ));
        }
        Self { rooms, known }
    }

    /// The tenant's place. Errors: `TENANT_NOT_PLACED`, `STORE_UNSUPPORTED`; `STORE_UNAVAILABLE` while its store has not
    /// let it in yet; `SHARD_MOVING` before anything is known.
    pub fn route(&self, tenant: &TenantId) -> Result<Routed, Fault> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_ref() else {
            return Err(Fault::new(
                Reason::ShardMoving,
                "this process has just started and does not know its tenants yet",
            )
            .retry_after(STARTING));
        };
        let placement = known.get(tenant).ok_or_else(|| self.absent(tenant))?;
        let step = self.rooms.get(&placement.store).ok_or_else(|| {
            Fault::new(Reason::StoreUnsupported, "this process does not serve the store of this tenant")
                .with("store", &placement.store)
        })?;
        Ok(Routed { room: Arc::clone(&step.room), tenant: TenantHandle::of(placement) })
    }

    fn absent(&self, tenant: &TenantId) -> Fault {
        let waits = |step: &Doorstep| {
            step.due.borrow().fences.get(tenant).is_some_and(|fence| fence.mode == FenceMode::Active)
        };
        match self.rooms.values().any(waits) {
            true => Fault::new(
                Reason::StoreUnavailable,
                "the store of this tenant does not answer yet; try again",
            )
            .retry_after(STARTING),
            false => Fault::new(
                Reason::TenantNotPlaced,
                "this tenant is not placed in any store; an operator does it: orch8 placement set TENANT --store STORE",
            ),
        }
    }

    /// Learns placements: each tenant's fence is opened in its store first, then it is routed there; a store of ours
    /// that the tenant has left is sealed for it. An older epoch than the known one changes nothing. `whole`: these are
    /// all there are; who is not among them has no placement.
    ///
    /// Returns when all of that is done, or soon: what a store does not do now is done as soon as it answers, and those
    /// of other stores wait for none of it.
    pub async fn learn(&self, learned: Vec<Placement>, whole: bool) {
        let is_first = self.take_in(&learned, whole);
        let whole = whole.then(|| -> Arc<HashMap<_, _>> {
            Arc::new(learned.iter().map(|placement| (placement.tenant.clone(), placement.clone())).collect())
        });
        let mut by_store: HashMap<&StoreName, Vec<Fence>> = HashMap::new();
        for placement in &learned {
            by_store.entry(&placement.store).or_default().push(fence(placement, FenceMode::Active));
        }
        for (name, step) in self.rooms.iter() {
            let fences = by_store.remove(name).unwrap_or_default();
            step.due.send_if_modified(|due| {
                if let Some(whole) = &whole {
                    due.fences.retain(|tenant, _| whole.contains_key(tenant));
                    due.whole = Some(Arc::clone(whole));
                }
                fences.into_iter().for_each(|fence| due.add(fence));
                due.is_something()
            });
        }
        let all_done = join_all(self.rooms.values().map(async |step| {
            // The sender is ours.
            let _ = step.due.subscribe().wait_for(Due::is_done).await;
        }));
        let patience = if is_first { FIRST_WITHIN } else { WITHIN };
        if timeout(patience, all_done).await.is_err() {
            tracing::warn!("a store does not let in its tenants yet");
        }
    }

    /// Knows at once what no store of ours has to do. Answers whether nothing was known before.
    fn take_in(&self, learned: &[Placement], whole: bool) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_first = known.is_none();
        let known = known.get_or_insert_default();
        if whole {
            let placed: HashSet<&TenantId> = learned.iter().map(|placement| &placement.tenant).collect();
            known.retain(|tenant, _| placed.contains(tenant));
        }
        for placement in learned.iter().filter(|placement| !self.rooms.contains_key(&placement.store)) {
            if let Some(left) = take_up(known, placement) {
                seal(&self.rooms, &left, placement);
            }
        }
        is_first
    }

    /// Every room of this process.
    pub fn rooms(&self) -> impl Iterator<Item = &Arc<StoreRoom>> {
        self.rooms.values().map(|step| &step.room)
    }
}

impl Due {
    fn add(&mut self, fence: Fence) {
        let older = self.fences.get(&fence.tenant).is_none_or(|known| known.placement <= fence.placement);
        if older {
            self.fences.insert(fence.tenant.clone(), fence);
        }
    }

    fn is_something(&self) -> bool {
        !self.fences.is_empty() || self.whole.is_some()
    }

    fn is_done(&self) -> bool {
        !self.is_something() && !self.under_way
    }
}

/// Routes to a placement unless a newer one is known. Answers the one that it replaces.
fn take_up(known: &mut HashMap<TenantId, Placement>, placement: &Placement) -> Option<Placement> {
    let older = known.get(&placement.tenant).is_none_or(|known| known.epoch <= placement.epoch);
    if older { known.insert(placement.tenant.clone(), placement.clone()) } else { None }
}

/// The store that a tenant has left takes nothing of it any more, and its workers go where it is now.
fn seal(rooms: &HashMap<StoreName, Doorstep>, left: &Placement, by: &Placement) {
    if let Some(step) = rooms.get(&left.store).filter(|_| left.store != by.store && left.epoch < by.epoch) {
        step.due.send_modify(|due| due.add(fence(by, FenceMode::Sealed)));
        step.room.sessions().send_away(&by.tenant);
    }
}

/// Sets what is due in one store, again and again until it is done; one store waits for no other.
async fn set_fences(
    name: StoreName,
    rooms: Weak<HashMap<StoreName, Doorstep>>,
    mut due: watch::Receiver<Due>,
    known: Known,
) {
    // An error: the last router is gone.
    while due.wait_for(Due::is_something).await.is_ok() {
        let Some(rooms) = rooms.upgrade() else { return };
        let Some(step) = rooms.get(&name) else { return };
        let mut taken = Due::default();
        step.due.send_modify(|due| {
            let under_way = Due { under_way: true, fences: due.fences.clone(), whole: None };
            taken = std::mem::replace(due, under_way);
        });
        let failed = match taken.whole.clone() {
            Some(whole) => set_whole(step, taken.fences.clone(), &whole, &rooms, &known).await,
            None => set_all(step, taken.fences.clone(), &rooms, &known).await,
        };
        if let Err(error) = &failed {
            tracing::warn!(store = %name, error = error as &dyn std::error::Error, "fences cannot be set yet");
        }
        let again = failed.is_err();
        step.due.send_modify(|due| {
            due.under_way = false;
            match again {
                true => due.whole = due.whole.take().or(taken.whole),
                // What came in meanwhile stays.
                false => due.fences.retain(|tenant, fence| taken.fences.get(tenant) != Some(fence)),
            }
        });
        drop(rooms);
        if again {
            sleep(AGAIN).await;
        }
    }
}

/// Fences in a store that stand open for tenants who have been placed elsewhere since are sealed, beside the others.
async fn set_whole(
    step: &Doorstep,
    mut fences: HashMap<TenantId, Fence>,
    whole: &HashMap<TenantId, Placement>,
    rooms: &HashMap<StoreName, Doorstep>,
    known: &Known,
) -> Result<(), StoreError> {
    let (store, name) = (step.room.store(), step.room.name());
    let mut after = None;
    loop {
        let page = store.fences(after, FENCE_PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.tenant.clone());
        for standing in page {
            let Some(placement) = whole.get(&standing.tenant) else { continue };
            if placement.store != *name && standing.placement < placement.epoch {
                fences.entry(standing.tenant).or_insert_with(|| fence(placement, FenceMode::Sealed));
            }
        }
    }
    set_all(step, fences, rooms, known).await
}

async fn set_all(
    step: &Doorstep,
    fences: HashMap<TenantId, Fence>,
    rooms: &HashMap<StoreName, Doorstep>,
    known: &Known,
) -> Result<(), StoreError> {
    let set = fences.into_values().map(|fence| set(step, fence, rooms, known));
    stream::iter(set).buffer_unordered(FENCES).try_collect().await
}

/// Sets a fence; routes to the store if it was opened.
async fn set(
    step: &Doorstep,
    fence: Fence,
    rooms: &HashMap<StoreName, Doorstep>,
    known: &Known,
) -> Result<(), StoreError> {
    let is_set = step.room.store().set_fence(fence.clone()).await?;
    if fence.mode != FenceMode::Active {
        // Once more: a session may have been on its way here when the tenant left.
        step.room.sessions().send_away(&fence.tenant);
        return Ok(());
    }
    if !is_set {
        tracing::warn!(tenant.id = %fence.tenant, epoch = %fence.placement, why = "the store knows a higher epoch", "placement ignored");
        return Ok(());
    }
    // Whoever lost its placement meanwhile is not routed to.
    let is_wanted = step.due.borrow().fences.contains_key(&fence.tenant);
    let placement =
        Placement { tenant: fence.tenant, store: step.room.name().clone(), epoch: fence.placement };
    let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
    if is_wanted && let Some(left) = take_up(known.get_or_insert_default(), &placement) {
        seal(rooms, &left, &placement);
    }
    Ok(())
}

fn fence(placement: &Placement, mode: FenceMode) -> Fence {
    Fence { tenant: placement.tenant.clone(), placement: placement.epoch, mode, weight: 1 }
}
