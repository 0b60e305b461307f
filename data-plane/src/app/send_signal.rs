//! A message to a run. OK means it is in the inbox: it will be consumed once, or listed as unconsumed.

use orch8_engine::SignalKind;
use orch8_model::{Fault, InstanceId, Millis, Reason, SignalId, TenantId, limits::PENDING_SIGNALS_MAX};
use uuid::Uuid;

use super::{DataPlane, moving, store_fault};
use crate::store::{Message, Sent};

/// What to send.
#[derive(Debug)]
pub struct NewSignal {
    pub instance: InstanceId,
    /// `None`: a new one.
    pub id: Option<SignalId>,
    pub kind: SignalKind,
}

/// The signal's id, and whether it had been accepted before. Errors: `NOT_FOUND`, `INSTANCE_TERMINAL`, `INBOX_FULL`.
pub async fn send_signal(
    plane: &DataPlane,
    tenant: &TenantId,
    signal: NewSignal,
    now: Millis,
) -> Result<(SignalId, bool), Fault> {
    let routed = plane.router.route(tenant)?;
    let id = match signal.id {
        Some(id) => id,
        None => SignalId::parse(&Uuid::now_v7().to_string())
            .map_err(|problem| Fault::new(Reason::Internal, problem.to_string()))?,
    };
    let message = Message { instance: signal.instance, signal: id.clone(), kind: signal.kind, at: now };
    let sent =
        routed.room.store().send(&routed.tenant, message).await.map_err(store_fault)?.ok_or_else(moving)?;
    match sent {
        Sent::Stored => {
            routed.room.nudge(signal.instance);
            Ok((id, false))
        }
        Sent::Duplicate => Ok((id, true)),
        Sent::Terminal => {
            Err(Fault::new(Reason::InstanceTerminal, "the instance has ended and takes no more signals"))
        }
        Sent::Full => {
            Err(Fault::new(Reason::InboxFull, "the instance has too many signals it has not consumed")
                .with("limit", PENDING_SIGNALS_MAX))
        }
        Sent::Missing => Err(Fault::not_found()),
    }
}
