//! What people and workers are told of the fleet.

use orch8_model::{Fault, LeaseEpoch, Millis, NodeName, Shard, StoreName, TenantId};

use super::{get_placement, store_fault};
use crate::{
    ControlPlane,
    store::{NodeRow, OwnedShard},
};

/// Every node with whether it is live, by name, and every shard, by store and number.
#[derive(Clone, Debug)]
pub struct Described {
    pub nodes: Vec<(NodeRow, bool)>,
    pub shards: Vec<Owned>,
}

/// Neighbouring shards of a store with one owner and one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub store: StoreName,
    pub first: Shard,
    pub last: Shard,
    pub node: Option<NodeName>,
    pub epoch: LeaseEpoch,
    pub since: Millis,
    /// The highest.
    pub fell_from: u64,
}

pub async fn describe_fleet(plane: &ControlPlane) -> Result<Described, Fault> {
    let now = plane.store.now().await.map_err(store_fault)?;
    let nodes = plane.store.nodes().await.map_err(store_fault)?;
    let shards = plane.store.shards().await.map_err(store_fault)?;
    let live = |node: NodeRow| {
        let live = plane.times.is_live(now, node.seen_at, Millis::MIN);
        (node, live)
    };
    Ok(Described { nodes: nodes.into_iter().map(live).collect(), shards: joined(shards) })
}

/// Errors: `TENANT_NOT_PLACED`.
pub async fn find_endpoints(plane: &ControlPlane, tenant: &TenantId) -> Result<Vec<String>, Fault> {
    get_placement(plane, tenant).await?;
    plane.store.endpoints(tenant).await.map_err(store_fault)
}

fn joined(shards: Vec<OwnedShard>) -> Vec<Owned> {
    let mut joined: Vec<Owned> = Vec::new();
    for next in shards {
        match joined.last_mut() {
            Some(last) if last.takes(&next) => {
                last.last = next.shard;
                last.fell_from = last.fell_from.max(next.fell_from);
            }
            Some(_) | None => joined.push(Owned {
                store: next.store,
                first: next.shard,
                last: next.shard,
                node: next.node,
                epoch: next.epoch,
                since: next.since,
                fell_from: next.fell_from,
            }),
        }
    }
    joined
}

impl Owned {
    fn takes(&self, next: &OwnedShard) -> bool {
        self.store == next.store
            && self.last.0.checked_add(1) == Some(next.shard.0)
            && self.node == next.node
            && self.epoch == next.epoch
            && self.since == next.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_one_owner_and_one_epoch_are_one_line() {
        let shard = |store: &str, shard, node: Option<&str>, epoch, fell_from| OwnedShard {
            store: StoreName::parse(store).expect("a name"),
            shard: Shard(shard),
            node: node.map(|n| NodeName::parse(n).expect("a name")),
            epoch: LeaseEpoch::new(epoch).expect("small"),
            since: Millis(7),
            fell_from,
        };
        let lines = joined(vec![
            shard("s", 0, Some("a"), 1, 0),
            shard("s", 1, Some("a"), 1, 9),
            shard("s", 2, Some("a"), 2, 0),
            shard("s", 4, Some("a"), 2, 0),
            shard("s", 5, None, 2, 0),
            shard("t", 6, None, 2, 0),
        ]);
        let told: Vec<_> =
            lines.iter().map(|l| (l.store.as_str(), l.first.0, l.last.0, l.fell_from)).collect();
        assert_eq!(told, [("s", 0, 1, 9), ("s", 2, 2, 0), ("s", 4, 4, 0), ("s", 5, 5, 0), ("t", 6, 6, 0)]);
    }
}
