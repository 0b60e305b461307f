//! `orch8.v1.WorkerService`.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use orch8_model::{Fault, TenantId};
use orch8_proto::{
    status,
    v1::{self, worker_service_server::WorkerService},
};
use tonic::{Request, Response, Status, Streaming};

use super::tenant;
use crate::session::Sessions;

/// The service, over a way from a tenant to the sessions of its store.
#[derive(Clone, Debug)]
pub struct Workers<F>(pub F);

#[tonic::async_trait]
impl<F> WorkerService for Workers<F>
where
    F: Fn(&TenantId) -> Result<Sessions, Fault> + Send + Sync + 'static,
{
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let tenant = tenant(&request, "")?;
        let sessions = (self.0)(&tenant).map_err(status::of)?;
        let inbound = request.into_inner().map(|frame| frame.map_err(|said| status::unreadable_frame(&said)));
        let frames = sessions.serve(tenant, inbound);
        Ok(Response::new(Box::pin(frames.map(|frame| frame.map_err(status::of)))))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let sessions = (self.0)(&tenant).map_err(status::of)?.sessions(&tenant);
        Ok(Response::new(v1::ListSessionsResponse { sessions }))
    }

    async fn list_handlers(
        &self,
        request: Request<v1::ListHandlersRequest>,
    ) -> Result<Response<v1::ListHandlersResponse>, Status> {
        let tenant = tenant(&request, &request.get_ref().tenant_id)?;
        let handlers = (self.0)(&tenant).map_err(status::of)?.handlers(&tenant);
        Ok(Response::new(v1::ListHandlersResponse { handlers }))
    }
}
