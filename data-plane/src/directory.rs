//! What the control plane says: placements and keys, followed over `FleetService.Watch`.
//!
//! **Invariant:** a request never waits for the control plane. What was learned last keeps serving while it is away.

use std::time::Duration;

use orch8_model::{Fault, NodeName, PlacementEpoch, StoreName};
use orch8_proto::{
    door,
    identity::{Follower, KeyRing},
    v1::{self, fleet_service_client::FleetServiceClient},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::{replicas::Replicas, router::Router, store::Placement};

/// Between two attempts to reach the control plane.
const AGAIN: Duration = Duration::from_millis(500);

/// Where to learn from, and as whom.
#[derive(Clone, Debug)]
pub struct Directory {
    pub control_plane: Replicas,
    pub node: NodeName,
    pub stores: Vec<StoreName>,
}

impl Directory {
    /// Keeps ring and router current until `stop`. `known` turns true with the first whole group.
    pub async fn follow(
        self,
        keys: KeyRing,
        router: Router,
        known: watch::Sender<bool>,
        stop: CancellationToken,
    ) {
        let mut follower = Follower::new();
        while !stop.is_cancelled() {
            let replica = self.control_plane.chosen();
            let ended = tokio::select! {
                ended = self.watch(replica.channel, &mut follower, &keys, &router, &known) => ended,
                () = stop.cancelled() => return,
            };
            if let Err(why) = ended {
                tracing::warn!(node.id = %self.node, why, "the control plane is out of sight; going on with what is known");
                // Another replica counts its changes alike, so the token stays good.
                self.control_plane.move_on(replica.number);
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One stream, until it ends.
    async fn watch(
        &self,
        replica: Channel,
        follower: &mut Follower,
        keys: &KeyRing,
        router: &Router,
        known: &watch::Sender<bool>,
    ) -> Result<(), String> {
        follower.restart();
        let request = self.control_plane.request(v1::WatchRequest {
            node_id: self.node.to_string(),
            stores: self.stores.iter().map(ToString::to_string).collect(),
            resume_token: follower.resume_token(),
        });
        let mut client = FleetServiceClient::new(replica);
        let mut stream = client.watch(request).await.map_err(|e| e.message().to_owned())?.into_inner();
        while let Some(part) = stream.message().await.map_err(|e| e.message().to_owned())? {
            let Some(group) = follower.push(part) else { continue };
            keys.follow(&group);
            let placements = group.placements.iter().filter_map(|wire| match placement(wire) {
                Ok(placement) => Some(placement),
                Err(fault) => {
                    tracing::error!(why = %fault, "a pushed placement cannot be read");
                    None
                }
            });
            router.learn(placements.collect(), group.full).await;
            known.send_replace(true);
        }
        Ok(())
    }
}

fn placement(wire: &v1::Placement) -> Result<Placement, Fault> {
    Ok(Placement {
        tenant: door::name("tenant_id", wire.tenant_id.as_str())?,
        store: door::name("store", wire.store.as_str())?,
        epoch: PlacementEpoch::new(wire.epoch).ok_or_else(|| Fault::invalid("epoch", "is out of range"))?,
    })
}
