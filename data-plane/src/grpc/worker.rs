//! `orch8.v1.WorkerService`.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use orch8_model::{Fault, Reason, TenantId};
use orch8_proto::{
    door, status,
    v1::{self, worker_service_server::WorkerService},
};
use tonic::{Request, Response, Status, Streaming};

use crate::session::Sessions;

/// The service over the sessions of this node.
#[derive(Clone, Debug)]
pub struct Workers {
    pub sessions: Sessions,
}

#[tonic::async_trait]
impl WorkerService for Workers {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let tenant = tenant_of(&request, "").map_err(status::of)?;
        let frames = self.sessions.serve(tenant, request.into_inner());
        Ok(Response::new(Box::pin(frames.map(|frame| frame.map_err(status::of)))))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let tenant = tenant_of(&request, &request.get_ref().tenant_id).map_err(status::of)?;
        Ok(Response::new(v1::ListSessionsResponse { sessions: self.sessions.sessions(&tenant) }))
    }

    async fn list_handlers(
        &self,
        request: Request<v1::ListHandlersRequest>,
    ) -> Result<Response<v1::ListHandlersResponse>, Status> {
        let tenant = tenant_of(&request, &request.get_ref().tenant_id).map_err(status::of)?;
        Ok(Response::new(v1::ListHandlersResponse { handlers: self.sessions.handlers(&tenant) }))
    }
}

/// The tenant that the layers before us found for the caller; `asked`, when not empty, must be the same.
fn tenant_of<T>(request: &Request<T>, asked: &str) -> Result<TenantId, Fault> {
    let tenant = request.extensions().get::<TenantId>().cloned();
    let tenant =
        tenant.ok_or_else(|| Fault::new(Reason::CredentialInvalid, "the call carries no valid credential"))?;
    match door::optional_name::<TenantId>("tenant_id", asked)? {
        Some(other) if other != tenant => Err(Fault::not_found()),
        Some(_) | None => Ok(tenant),
    }
}
