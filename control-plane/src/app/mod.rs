//! One file per operation. Each takes what the door has parsed; nothing here knows the wire.

mod bootstrap;
mod catch_up;
mod describe;
mod follow;
mod join;
mod keys;
mod placements;
mod stores;
mod tenants;

pub use bootstrap::{Bootstrap, InitError, bootstrap, init_operator_key};
pub use catch_up::{Seen, catch_up};
pub use describe::{Described, Owned, describe_fleet, find_endpoints};
pub use follow::{Following, Group, follow};
pub use join::{Heartbeat, Held, Hello, Refused, Said, Told, join};
pub use keys::{NewKey, create_key, list_keys, revoke_key};
pub use placements::{get_placement, list_placements, set_placement};
pub use stores::{list_stores, register_store};
pub use tenants::{create_tenant, get_tenant, list_tenants};

use orch8_model::{Fault, Reason};

use crate::{ControlPlane, store::ControlStoreError};

/// Where trouble with the database becomes something a caller is told: logged here, once, with its cause.
fn store_fault(error: ControlStoreError) -> Fault {
    tracing::error!(error = &error as &dyn std::error::Error, "control plane operation failed");
    match error {
        ControlStoreError::Database { .. } | ControlStoreError::Unreachable { .. } => {
            Fault::new(Reason::StoreUnavailable, "the control plane's database does not answer; try again")
        }
        ControlStoreError::Corrupt { .. }
        | ControlStoreError::NotWritable { .. }
        | ControlStoreError::InUse { .. }
        | ControlStoreError::Foreign
        | ControlStoreError::NewerSchema { .. } => Fault::new(Reason::Internal, "internal error"),
    }
}

/// Cuts a page that was read one row too far; `true`: there is more.
fn cut<T>(rows: &mut Vec<T>, limit: u32) -> bool {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    more
}

/// Runs a write to its end even if the caller leaves (a transaction is never dropped half way), and lets this replica
/// see it: what was answered is in force here.
async fn to_the_end<T: Send + 'static>(
    plane: &ControlPlane,
    work: impl Future<Output = Result<T, ControlStoreError>> + Send + 'static,
) -> Result<T, Fault> {
    let plane = plane.clone();
    let all = async move {
        let done = work.await?;
        catch_up(&plane).await?;
        Ok(done)
    };
    match tokio::spawn(all).await {
        Ok(done) => done.map_err(store_fault),
        Err(_) => Err(Fault::new(Reason::Internal, "internal error")),
    }
}
