//! Cancelling a run. Once accepted, the run ends `cancelled`, whatever else happens.

use std::time::Duration;

use orch8_engine::{SignalKind, Status};
use orch8_model::{Fault, InstanceId, Millis, TenantId};

use super::{
    DataPlane, missing,
    send_signal::{NewSignal, send_signal},
    store_fault,
};

/// How long the answer waits for the run to end: long enough for one without protected parts, short for the caller.
const PATIENCE: Duration = Duration::from_millis(500);

/// The state shortly after the cancel was accepted. Errors: `NOT_FOUND`, `INSTANCE_TERMINAL`.
pub async fn cancel_instance(
    plane: &DataPlane,
    tenant: &TenantId,
    instance: InstanceId,
    reason: String,
    now: Millis,
) -> Result<Status, Fault> {
    let routed = plane.router.route(tenant)?;
    let mut watch = routed.room.watchers().watch(instance);
    send_signal(plane, tenant, NewSignal { instance, id: None, kind: SignalKind::Cancel { reason } }, now)
        .await?;
    let state = async || {
        let row = routed.room.store().instance(&routed.tenant, instance).await.map_err(store_fault)?;
        match row {
            Some(row) => Ok(row.status),
            None => Err(missing(&routed).await),
        }
    };
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            let status = state().await?;
            if status.is_terminal() {
                return Ok(status);
            }
            watch.changed().await;
        }
    });
    match ended.await {
        Ok(status) => status,
        Err(_) => state().await,
    }
}
