//! FleetService.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream};
use orch8_model::{Fault, NodeName, StoreName};
use orch8_proto::{
    door,
    identity::{self, Principal, TenantScope},
    status,
    v1::{self, fleet_service_server::FleetService},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{join, placements::wire_placement};
use crate::{
    ControlPlane,
    app::{self, Described, Following, Group, Owned},
    store::NodeRow,
};

/// Stores one node may name.
pub(super) const STORES_MAX: usize = 256;
/// Rows in one part of a group: under half a message, whatever the names.
const PART: usize = 1_000;
/// What a node is told waits behind what it was told before.
const TOLD: usize = 1;

/// The service.
#[derive(Clone, Debug)]
pub struct FleetApi(pub ControlPlane);

#[tonic::async_trait]
impl FleetService for FleetApi {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<v1::JoinResponse, Status>> + Send>>;

    async fn join(
        &self,
        request: Request<tonic::Streaming<v1::JoinRequest>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        let caller = identity::principal(&request).map_err(status::of)?.clone();
        let said = join::said(request.into_inner());
        let (told, listening) = mpsc::channel(TOLD);
        tokio::spawn(app::join(self.0.clone(), caller, said, told));
        let told = ReceiverStream::new(listening).map(|told| told.map(join::told).map_err(status::of));
        Ok(Response::new(Box::pin(told)))
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
        let Described { nodes, shards } = app::describe_fleet(&self.0).await.map_err(status::of)?;
        Ok(Response::new(v1::DescribeFleetResponse {
            nodes: nodes.into_iter().map(node).collect(),
            shards: shards.into_iter().map(owned).collect(),
        }))
    }

    async fn find_endpoints(
        &self,
        request: Request<v1::FindEndpointsRequest>,
    ) -> Result<Response<v1::FindEndpointsResponse>, Status> {
        let caller = identity::principal(&request).map_err(status::of)?;
        let scope = TenantScope::of(caller, &request.get_ref().tenant_id).map_err(status::of)?;
        let addresses = app::find_endpoints(&self.0, scope.tenant()).await.map_err(status::of)?;
        Ok(Response::new(v1::FindEndpointsResponse { addresses }))
    }
}

fn following(caller: Principal, r: v1::WatchRequest) -> Result<Following, Fault> {
    let _node: NodeName = door::name("node_id", r.node_id)?;
    for name in door::items("stores", r.stores, STORES_MAX)? {
        let _store: StoreName = door::name("stores", name)?;
    }
    Ok(Following { caller, token: r.resume_token })
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

fn node((node, live): (NodeRow, bool)) -> v1::FleetNode {
    v1::FleetNode {
        node_id: node.name.to_string(),
        address: node.address,
        stores: node.stores.iter().map(ToString::to_string).collect(),
        joined_at: Some(door::wire_instant(node.joined_at)),
        seen_at: Some(door::wire_instant(node.seen_at)),
        live,
    }
}

fn owned(owned: Owned) -> v1::OwnedShards {
    v1::OwnedShards {
        store: owned.store.to_string(),
        first_shard: owned.first.0.into(),
        last_shard: owned.last.0.into(),
        node_id: owned.node.map(|node| node.to_string()).unwrap_or_default(),
        lease_epoch: owned.epoch.get(),
        since: Some(door::wire_instant(owned.since)),
        fell_from: owned.fell_from,
    }
}
