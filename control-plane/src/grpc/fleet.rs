//! FleetService.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream};
use orch8_model::{Fault, StoreName};
use orch8_proto::{
    door,
    identity::{self, Principal},
    status,
    v1::{self, fleet_service_server::FleetService},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::placements::wire_placement;
use crate::{
    ControlPlane,
    app::{self, Following, Group},
};

/// Stores one node may name.
const STORES_MAX: usize = 256;
/// Rows in one part of a group: under half a message, whatever the names.
const PART: usize = 1_000;

/// The service.
#[derive(Clone, Debug)]
pub struct FleetApi(pub ControlPlane);

#[tonic::async_trait]
impl FleetService for FleetApi {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<v1::JoinResponse, Status>> + Send>>;

    async fn join(
        &self,
        _request: Request<tonic::Streaming<v1::JoinRequest>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        Err(status::of(Fault::not_found()))
    }

    async fn find_endpoints(
        &self,
        _request: Request<v1::FindEndpointsRequest>,
    ) -> Result<Response<v1::FindEndpointsResponse>, Status> {
        Err(status::of(Fault::not_found()))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = identity::principal(&request).map_err(status::of)?.clone();
        let following = following(caller, request.into_inner()).map_err(status::of)?;
        // One group waits while another is being written; the rest stays in the store.
        let (groups, follower) = mpsc::channel(1);
        tokio::spawn(app::follow(self.0.clone(), following, groups));
        let parts = ReceiverStream::new(follower).flat_map(|group| match group {
            Ok(group) => stream::iter(parts(group).into_iter().map(Ok).collect::<Vec<_>>()),
            Err(fault) => stream::iter(vec![Err(status::of(fault))]),
        });
        Ok(Response::new(Box::pin(parts)))
    }

    async fn describe_fleet(
        &self,
        _request: Request<v1::DescribeFleetRequest>,
    ) -> Result<Response<v1::DescribeFleetResponse>, Status> {
        let nodes = self.0.fleet.watchers().into_iter().map(|watcher| v1::FleetNode {
            node_id: watcher.node.to_string(),
            stores: watcher.stores.clone(),
            joined_at: Some(door::wire_instant(watcher.connected_at)),
            ..Default::default()
        });
        Ok(Response::new(v1::DescribeFleetResponse { nodes: nodes.collect(), shards: Vec::new() }))
    }
}

fn following(caller: Principal, r: v1::WatchRequest) -> Result<Following, Fault> {
    let names = door::items("stores", r.stores, STORES_MAX)?;
    let parse = |name: String| door::name::<StoreName>("stores", name).map(|name| name.to_string());
    Ok(Following {
        caller,
        node: door::name("node_id", r.node_id)?,
        stores: names.into_iter().map(parse).collect::<Result<_, _>>()?,
        token: r.resume_token,
    })
}

/// A group in messages that any client takes.
fn parts(group: Group) -> Vec<v1::WatchResponse> {
    let placements: Vec<_> = group.changes.placements.iter().map(wire_placement).collect();
    let keys: Vec<_> = group.changes.keys.iter().map(|key| key.grant().to_wire(key.sha256)).collect();
    let count = placements.len().div_ceil(PART).max(keys.len().div_ceil(PART)).max(1);
    let (mut placements, mut keys) = (placements.into_iter(), keys.into_iter());
    (0..count)
        .map(|n| v1::WatchResponse {
            full: group.full && n == 0,
            placements: placements.by_ref().take(PART).collect(),
            keys: keys.by_ref().take(PART).collect(),
            resume_token: group.changes.token,
            more: n + 1 < count,
        })
        .collect()
}
