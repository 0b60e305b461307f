//! One file per operation of the client API. Each takes the tenant's place first, and what the door has parsed.

use orch8_model::{Fault, Reason};
use tokio_util::sync::CancellationToken;

use crate::{
    router::{Routed, Router},
    store::StoreError,
};

mod cancel_instance;
mod get_instance;
mod get_outputs;
mod get_sequence;
mod get_timeline;
mod list_instances;
mod list_sequences;
mod publish_sequence;
mod send_signal;
mod start_instances;
mod view;
mod watch_instance;

pub use cancel_instance::cancel_instance;
pub use get_instance::get_instance;
pub use get_outputs::{OutputPage, get_outputs};
pub use get_sequence::{SequenceRef, get_sequence};
pub use get_timeline::{TimelinePage, get_timeline};
pub use list_instances::{list_instances, sequence_of};
pub use list_sequences::list_sequences;
pub use publish_sequence::{Checked, PublishedSequence, check_sequence, publish_sequence};
pub use send_signal::{NewSignal, send_signal};
pub use start_instances::{NewInstance, start_instances};
pub use view::{InstanceView, NodeView};
pub use watch_instance::watch_instance;

/// What every operation works with.
#[derive(Clone, Debug)]
pub struct DataPlane {
    pub router: Router,
    /// Fires when this process leaves: answers that would go on for ever end then.
    pub leaving: CancellationToken,
}

/// Where a store's trouble becomes something a caller is told: logged here, once, with its cause.
pub(crate) fn store_fault(error: StoreError) -> Fault {
    tracing::error!(error = &error as &dyn std::error::Error, "store operation failed");
    match error {
        StoreError::Database { .. } | StoreError::OutcomeUnknown { .. } => {
            Fault::new(Reason::StoreUnavailable, "the store of this tenant does not answer; try again")
        }
        StoreError::Corrupt { .. }
        | StoreError::InUse { .. }
        | StoreError::InTheWay { .. }
        | StoreError::Unfit { .. }
        | StoreError::NotWritable { .. }
        | StoreError::ForeignSchema { .. }
        | StoreError::NewerSchema { .. } => Fault::new(Reason::Internal, "internal error"),
    }
}

/// What was looked for is not there: missing or not yours. Or the tenant has been placed anew and this process has not
/// heard of it yet; then its handle shows nothing, and nothing is known.
pub(crate) async fn missing(routed: &Routed) -> Fault {
    still_placed(routed).await.err().unwrap_or_else(Fault::not_found)
}

/// Whether what was just read is all there is. Errors: `TENANT_MOVING`, the store.
pub(crate) async fn still_placed(routed: &Routed) -> Result<(), Fault> {
    let stored = routed.room.store().fence(routed.tenant.tenant()).await.map_err(store_fault)?;
    match stored.is_some_and(|fence| fence.placement == routed.tenant.placement) {
        true => Ok(()),
        false => Err(moving()),
    }
}

/// The tenant's fence in its store is not the one this process routes by.
pub(crate) fn moving() -> Fault {
    Fault::new(Reason::TenantMoving, "the rows of this tenant are moving; try again")
}
