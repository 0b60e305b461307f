//! One file per operation. Each takes what the door has parsed; nothing here knows the wire.

mod bootstrap;
mod follow;
mod keys;
mod placements;
mod tenants;

pub use bootstrap::{Bootstrap, bootstrap};
pub use follow::{Following, Group, follow};
pub use keys::{NewKey, create_key, list_keys, revoke_key};
pub use placements::{get_placement, list_placements, set_placement};
pub use tenants::{create_tenant, get_tenant, list_tenants};

use orch8_model::{Fault, Reason};

use crate::store::ControlStoreError;

/// Where trouble with the database becomes something a caller is told: logged here, once, with its cause.
fn store_fault(error: ControlStoreError) -> Fault {
    tracing::error!(error = &error as &dyn std::error::Error, "control plane operation failed");
    match error {
        ControlStoreError::Database { .. } => {
            Fault::new(Reason::StoreUnavailable, "the control plane's database does not answer; try again")
        }
        ControlStoreError::Corrupt { .. }
        | ControlStoreError::NotWritable { .. }
        | ControlStoreError::NewerSchema { .. } => Fault::new(Reason::Internal, "internal error"),
    }
}

/// Cuts a page that was read one row too far; `true`: there is more.
fn cut<T>(rows: &mut Vec<T>, limit: u32) -> bool {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    more
}

/// Runs a write to its end even if the caller leaves: a transaction is never dropped half way.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ControlStoreError>> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::spawn(work).await {
        Ok(done) => done.map_err(store_fault),
        Err(_) => Err(Fault::new(Reason::Internal, "internal error")),
    }
}
