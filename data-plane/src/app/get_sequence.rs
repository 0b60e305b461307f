//! One published version.

use orch8_model::{Fault, Namespace, SequenceId, SequenceName, TenantId};

use super::{DataPlane, missing, store_fault};
use crate::{router::Routed, store::SequenceRow};

/// Which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceRef {
    Id(SequenceId),
    /// `None` = the newest that is not deprecated.
    Name {
        namespace: Namespace,
        name: SequenceName,
        version: Option<i32>,
    },
}

/// The version. Errors: `NOT_FOUND`, missing and foreign alike.
pub async fn get_sequence(
    plane: &DataPlane,
    tenant: &TenantId,
    which: &SequenceRef,
) -> Result<SequenceRow, Fault> {
    find(&plane.router.route(tenant)?, which).await
}

/// As [`get_sequence`], at a place that is known already.
pub(super) async fn find(routed: &Routed, which: &SequenceRef) -> Result<SequenceRow, Fault> {
    let store = routed.room.store();
    let found = match which {
        SequenceRef::Id(id) => store.sequence(&routed.tenant, *id).await,
        SequenceRef::Name { namespace, name, version } => {
            store.sequence_named(&routed.tenant, namespace, name, *version).await
        }
    };
    match found.map_err(store_fault)? {
        Some(found) => Ok(found),
        None => Err(missing(routed).await),
    }
}
