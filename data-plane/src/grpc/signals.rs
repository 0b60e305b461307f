//! SignalService.

use orch8_engine::SignalKind;
use orch8_model::{
    Fault, InstanceId,
    limits::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, SIGNAL_BYTES_MAX},
};
use orch8_proto::{
    door, status,
    v1::{self, send_signal_request::Signal, signal_service_server::SignalService},
};
use serde_json::Value;
use tonic::{Request, Response, Status};

use super::{now, tenant};
use crate::app::{self, DataPlane, NewSignal};

/// The service.
#[derive(Clone, Debug)]
pub struct Signals(pub DataPlane);

#[tonic::async_trait]
impl SignalService for Signals {
    async fn send_signal(
        &self,
        request: Request<v1::SendSignalRequest>,
    ) -> Result<Response<v1::SendSignalResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let signal = parse(request.into_inner()).map_err(status::of)?;
        let (id, duplicate) = app::send_signal(&self.0, &tenant, signal, now()).await.map_err(status::of)?;
        Ok(Response::new(v1::SendSignalResponse { signal_id: id.to_string(), duplicate }))
    }
}

fn parse(r: v1::SendSignalRequest) -> Result<NewSignal, Fault> {
    Ok(NewSignal {
        instance: door::id("instance_id", &r.instance_id, InstanceId)?,
        id: door::optional_name("signal_id", r.signal_id)?,
        kind: kind(door::required("signal", r.signal)?)?,
    })
}

fn kind(signal: Signal) -> Result<SignalKind, Fault> {
    match signal {
        Signal::Pause(v1::PauseSignal {}) => Ok(SignalKind::Pause),
        Signal::Resume(v1::ResumeSignal {}) => Ok(SignalKind::Resume),
        Signal::Cancel(v1::CancelSignal {}) => Ok(SignalKind::Cancel { reason: String::new() }),
        Signal::UpdateContext(update) => {
            let json = door::json("update_context.data", update.data, CONTEXT_BYTES_MAX)?;
            match door::required("update_context.data", json)?.value {
                Value::Object(data) => Ok(SignalKind::UpdateContext(data)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    Err(Fault::invalid("update_context.data", "must be a JSON object"))
                }
            }
        }
        Signal::Custom(custom) => {
            let name: orch8_model::SignalId = door::name("custom.name", custom.name)?;
            debug_assert!(name.as_str().len() <= NAME_BYTES_MAX);
            let payload = door::json("custom.payload", custom.payload, SIGNAL_BYTES_MAX)?;
            let payload = payload.map_or(Value::Null, |json| json.value);
            Ok(SignalKind::Custom { name: name.as_str().to_owned(), payload })
        }
    }
}
