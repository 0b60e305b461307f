//! Who shall own which shards. A store's shards stay together, so that one process groups their commits; whoever lives
//! keeps what it has; what nobody living owns goes to the node with the fewest shards.
//!
//! **Invariant:** one epoch of a shard has one holder, ever. A new holder, or the old one anew, has a higher epoch.

use std::collections::{BTreeMap, BTreeSet};

use orch8_model::{LeaseEpoch, Millis, NodeName, ProcessId, Shard, StoreName};

/// A node that has not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: NodeName,
    /// Which process has the name now.
    pub process: ProcessId,
    pub joined_at: Millis,
    /// Heard of recently enough.
    pub live: bool,
    pub stores: BTreeSet<StoreName>,
}

/// A process that owns a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub node: NodeName,
    pub process: ProcessId,
}

/// A shard as it is leased now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub store: StoreName,
    pub shard: Shard,
    pub holder: Option<Holder>,
    pub epoch: LeaseEpoch,
    /// What a node found in the store; not below `epoch`: the lease was refused.
    pub stored_epoch: LeaseEpoch,
}

/// A lease that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub store: StoreName,
    pub shard: Shard,
    /// `None`: it belongs to nobody.
    pub to: Option<Holder>,
    pub epoch: LeaseEpoch,
}

/// The leases that have to change, by store and shard; nothing when all is well. The order of what comes in does not
/// matter. A shard whose epochs are used up stays as it is.
pub fn assign(nodes: &[Node], leases: &[Lease]) -> Vec<Given> {
    let nodes: BTreeMap<&NodeName, &Node> = nodes.iter().map(|node| (&node.name, node)).collect();
    let mut stores: BTreeMap<&StoreName, Vec<&Lease>> = BTreeMap::new();
    for lease in leases {
        stores.entry(&lease.store).or_default().push(lease);
    }
    let mut load: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for node in leases.iter().filter_map(|lease| keeper(&nodes, lease)) {
        *load.entry(&node.name).or_default() += 1;
    }
    let mut given = Vec::new();
    for (store, mut leases) in stores {
        leases.sort_by_key(|lease| lease.shard);
        let taker = taker(&nodes, &load, store, &leases);
        for lease in leases {
            let keeper = keeper(&nodes, lease);
            if let (None, Some(taker)) = (keeper, taker) {
                *load.entry(&taker.name).or_default() += 1;
            }
            given.extend(change(&nodes, lease, keeper.or(taker)));
        }
    }
    given
}

/// The living node of the lease's holder, if it serves the store: it keeps the shard, be it with a new process.
fn keeper<'a>(nodes: &BTreeMap<&NodeName, &'a Node>, lease: &Lease) -> Option<&'a Node> {
    let node = nodes.get(&lease.holder.as_ref()?.node)?;
    serves(node, &lease.store).then_some(*node)
}

fn serves(node: &Node, store: &StoreName) -> bool {
    node.live && node.stores.contains(store)
}

/// Who takes what nobody keeps: whoever keeps the rest of the store; else the one with the fewest shards, of those the
/// one that has been here longest.
fn taker<'a>(
    nodes: &BTreeMap<&NodeName, &'a Node>,
    load: &BTreeMap<&NodeName, usize>,
    store: &StoreName,
    leases: &[&Lease],
) -> Option<&'a Node> {
    let mut here: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for node in leases.iter().filter_map(|lease| keeper(nodes, lease)) {
        *here.entry(&node.name).or_default() += 1;
    }
    let of = |counts: &BTreeMap<&NodeName, usize>, node: &Node| counts.get(&node.name).copied().unwrap_or(0);
    nodes.values().copied().filter(|node| serves(node, store)).min_by_key(|node| {
        (std::cmp::Reverse(of(&here, node)), of(load, node), node.joined_at, node.name.clone())
    })
}

/// What becomes of a lease whose next owner is `owner`.
fn change(nodes: &BTreeMap<&NodeName, &Node>, lease: &Lease, owner: Option<&Node>) -> Option<Given> {
    let given = |to, epoch| Some(Given { store: lease.store.clone(), shard: lease.shard, to, epoch });
    let Some(owner) = owner else {
        // A silent holder may come back and go on. One that left, or lives and does not serve the store, will not.
        let node = nodes.get(&lease.holder.as_ref()?.node);
        let may_go_on = node.is_some_and(|node| !node.live);
        return if may_go_on { None } else { given(None, lease.epoch) };
    };
    let owner = Holder { node: owner.name.clone(), process: owner.process };
    let refused = lease.stored_epoch >= lease.epoch;
    if lease.holder.as_ref() == Some(&owner) && !refused {
        return None;
    }
    let next = lease.epoch.max(lease.stored_epoch).checked_next()?;
    given(Some(owner), next)
}

#[cfg(test)]
mod tests;
