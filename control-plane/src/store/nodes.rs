//! Nodes, and who owns what, as read without judging.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use orch8_authority::{Holder, Node};
use orch8_model::{LeaseEpoch, Millis, NodeName, ProcessId, Shard, StoreName, TenantId};

use super::{
    ControlStore, ControlStoreError, Counters,
    database::{Row, statement},
};

const READ: &str = "read of the fleet";

/// A node that has not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    pub name: NodeName,
    pub process: ProcessId,
    pub address: String,
    pub stores: Vec<StoreName>,
    pub joined_at: Millis,
    pub seen_at: Millis,
}

impl NodeRow {
    /// As it is judged.
    pub fn facts(self, live: bool) -> Node {
        let stores: BTreeSet<StoreName> = self.stores.into_iter().collect();
        Node { name: self.name, process: self.process, joined_at: self.joined_at, live, stores }
    }
}

/// A shard as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedShard {
    pub store: StoreName,
    pub shard: Shard,
    pub node: Option<NodeName>,
    pub epoch: LeaseEpoch,
    pub since: Millis,
    pub fell_from: u64,
}

/// What one process was given: store, shard, epoch; by store and shard.
pub type Leases = Arc<[(StoreName, Shard, LeaseEpoch)]>;

/// Who has a name, and what is his.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    pub process: ProcessId,
    pub leases: Leases,
}

/// The fleet as the streams of one replica see it.
#[derive(Clone, Debug, Default)]
pub struct FleetView {
    /// Read before the rest: what is seen is at least this new.
    pub counters: Counters,
    pub seats: BTreeMap<NodeName, Seat>,
}

impl ControlStore {
    /// Who has which name and which shards now.
    pub async fn fleet_view(&self) -> Result<FleetView, ControlStoreError> {
        let counters = self.counters().await?;
        let sql = "SELECT store, shard, node_id, process_id, lease_epoch FROM shard_leases
                   WHERE node_id IS NOT NULL ORDER BY store, shard";
        let mut leases: BTreeMap<Holder, Vec<(StoreName, Shard, LeaseEpoch)>> = BTreeMap::new();
        for row in self.database.rows(statement(READ, sql)).await? {
            let (node, process): (String, String) = (row.get("node_id")?, row.get("process_id")?);
            let (store, shard) = shard(&row)?;
            let lease = (store, shard, epoch(&row, "lease_epoch")?);
            leases.entry(holder(&node, &process)?).or_default().push(lease);
        }
        let sql = "SELECT node_id, process_id FROM nodes WHERE left_at IS NULL";
        let mut seats = BTreeMap::new();
        for row in self.database.rows(statement(READ, sql)).await? {
            let (node, process): (String, String) = (row.get("node_id")?, row.get("process_id")?);
            let holder = holder(&node, &process)?;
            let own: Leases = leases.remove(&holder).unwrap_or_default().into();
            seats.insert(holder.node, Seat { process: holder.process, leases: own });
        }
        Ok(FleetView { counters, seats })
    }

    /// Notes that a process was heard. `false`: the name is another's by now, or was given back.
    pub async fn hear(&self, holder: &Holder) -> Result<bool, ControlStoreError> {
        let sql =
            "UPDATE nodes SET seen_at = {now} WHERE node_id = $1 AND process_id = $2 AND left_at IS NULL";
        let write = statement("write of a heartbeat", sql)
            .bind(holder.node.as_str())
            .bind(holder.process.to_string());
        Ok(self.database.run(write).await? > 0)
    }

    /// Every node that has not left, by name.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>, ControlStoreError> {
        self.database.rows(statement(READ, SELECT_NODES)).await?.into_iter().map(node).collect()
    }

    /// Every shard, by store and number.
    pub async fn shards(&self) -> Result<Vec<OwnedShard>, ControlStoreError> {
        let sql = "SELECT l.store, l.shard, l.node_id, l.lease_epoch, l.since, c.fell_from
                   FROM shard_leases l
                   LEFT JOIN confirmations c
                       ON c.store = l.store AND c.shard = l.shard AND c.lease_epoch = l.lease_epoch
                   ORDER BY l.store, l.shard";
        self.database.rows(statement(READ, sql)).await?.into_iter().map(owned).collect()
    }

    /// Addresses of the nodes that own shards of the store a tenant is placed in, by node.
    pub async fn endpoints(&self, tenant: &TenantId) -> Result<Vec<String>, ControlStoreError> {
        let sql = "SELECT DISTINCT n.node_id, n.address
                   FROM placements p
                   JOIN shard_leases l ON l.store = p.store
                   JOIN nodes n ON n.node_id = l.node_id AND n.process_id = l.process_id
                   WHERE p.tenant_id = $1 AND n.left_at IS NULL
                   ORDER BY n.node_id";
        let rows = self.database.rows(statement(READ, sql).bind(tenant.as_str())).await?;
        rows.iter().map(|row| row.get("address")).collect()
    }
}

pub(super) const SELECT_NODES: &str = "SELECT node_id, process_id, address, stores, joined_at, seen_at
                                       FROM nodes WHERE left_at IS NULL ORDER BY node_id";

pub(super) fn node(row: Row) -> Result<NodeRow, ControlStoreError> {
    let (name, process): (String, String) = (row.get("node_id")?, row.get("process_id")?);
    let stores: String = row.get("stores")?;
    let corrupt = |column| ControlStoreError::Corrupt { table: "nodes", column, key: name.clone() };
    let Holder { node, process } = holder(&name, &process)?;
    let names = stores.split(',').filter(|store| !store.is_empty()).map(StoreName::parse);
    Ok(NodeRow {
        name: node,
        process,
        address: row.get("address")?,
        stores: names.collect::<Result<_, _>>().map_err(|_| corrupt("stores"))?,
        joined_at: Millis(row.get("joined_at")?),
        seen_at: Millis(row.get("seen_at")?),
    })
}

pub(super) fn holder(node: &str, process: &str) -> Result<Holder, ControlStoreError> {
    let corrupt = |column| ControlStoreError::Corrupt { table: "nodes", column, key: node.to_owned() };
    Ok(Holder {
        node: NodeName::parse(node).map_err(|_| corrupt("node_id"))?,
        process: ProcessId::parse(process).ok_or_else(|| corrupt("process_id"))?,
    })
}

/// Columns `store` and `shard`.
pub(super) fn shard(row: &Row) -> Result<(StoreName, Shard), ControlStoreError> {
    let (store, shard): (String, i64) = (row.get("store")?, row.get("shard")?);
    let corrupt = |column| ControlStoreError::Corrupt { table: "shard_leases", column, key: store.clone() };
    let name = StoreName::parse(&store).map_err(|_| corrupt("store"))?;
    let shard = u16::try_from(shard).map_err(|_| corrupt("shard"))?;
    Ok((name, Shard(shard)))
}

/// A column that holds an epoch.
pub(super) fn epoch(row: &Row, column: &'static str) -> Result<LeaseEpoch, ControlStoreError> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).ok().and_then(LeaseEpoch::new).ok_or_else(|| ControlStoreError::Corrupt {
        table: "shard_leases",
        column,
        key: value.to_string(),
    })
}

fn owned(row: Row) -> Result<OwnedShard, ControlStoreError> {
    let (store, shard) = shard(&row)?;
    let node: Option<String> = row.get("node_id")?;
    let corrupt = |_| ControlStoreError::Corrupt {
        table: "shard_leases",
        column: "node_id",
        key: format!("{store}/{shard}"),
    };
    let node = node.map(|node| NodeName::parse(&node)).transpose().map_err(corrupt)?;
    let (epoch, since) = (epoch(&row, "lease_epoch")?, Millis(row.get("since")?));
    let fell_from: Option<i64> = row.get("fell_from")?;
    Ok(OwnedShard { store, shard, node, epoch, since, fell_from: fell_from.unwrap_or(0).cast_unsigned() })
}
