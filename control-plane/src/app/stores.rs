//! Stores by name.

use orch8_authority::StoreKind;
use orch8_model::{Fault, Millis, Reason, StoreName};

use super::{cut, store_fault, to_the_end};
use crate::{
    ControlPlane,
    store::{Registered, STORES_MAX, Store},
};

/// The store as it is known: repeatable. Errors: `ALREADY_EXISTS` with another kind, `QUOTA_EXCEEDED`.
pub async fn register_store(
    plane: &ControlPlane,
    name: StoreName,
    kind: StoreKind,
    now: Millis,
) -> Result<Store, Fault> {
    let store = plane.store.clone();
    match to_the_end(plane, async move { store.register_store(&name, kind, now).await }).await? {
        Registered::There(store) => Ok(store),
        Registered::Differs(store) => {
            let (name, kind) = (&store.name, store.shape.kind);
            let text = format_args!("is registered as {kind} already; another store needs another name");
            Err(Fault::field(Reason::AlreadyExists, "kind", text).with("store", name).with("kind", kind))
        }
        Registered::Full => {
            let text = format!("at most {STORES_MAX} stores may be registered");
            Err(Fault::new(Reason::QuotaExceeded, text).with("limit", STORES_MAX))
        }
    }
}

/// One page, by name, and whether there is more behind it.
pub async fn list_stores(
    plane: &ControlPlane,
    after: Option<&StoreName>,
    limit: u32,
) -> Result<(Vec<Store>, bool), Fault> {
    let mut rows = plane.store.stores(after, limit.saturating_add(1)).await.map_err(store_fault)?;
    let more = cut(&mut rows, limit);
    Ok((rows, more))
}
