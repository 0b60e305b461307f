//! A look at the whole fleet and what follows from it, as one transaction: facts are read, judged outside, and what was
//! judged is written. One at a time, whichever replica it is.

use orch8_authority::{Given, Holder, Lease, StoreShape};
use orch8_model::{LeaseEpoch, Millis, NodeName, ProcessId, Shard, StoreName};

use super::{
    ControlStore, ControlStoreError, Store,
    counters::{Counter, bump},
    database::{ROWS_AT_ONCE, Row, Tx, places, statement},
    leader::Term,
    nodes::{self, NodeRow},
    stores,
};

const READ: &str = "read of the fleet";
const WRITE: &str = "write of the fleet";
/// A node that owns nothing and was not heard of for this long is forgotten.
const FORGET_AFTER_MS: i64 = 24 * 60 * 60 * 1_000;

/// Former processes of a name that are remembered: 16 ids with their commas. More of them alive at a time, and one would
/// take the name back from its successors.
const FORMER_BYTES_MAX: i64 = 16 * 37 - 1;

/// A process that takes its place.
#[derive(Clone, Debug)]
pub struct Joining {
    pub node: NodeName,
    pub process: ProcessId,
    pub address: String,
    pub stores: Vec<StoreName>,
}

/// The transaction. Dropped, it never was.
#[derive(Debug)]
pub struct FleetTx {
    tx: Tx,
    now: Millis,
}

impl ControlStore {
    /// Begins to look. To be called from a task that is not dropped.
    pub async fn begin_fleet(&self) -> Result<FleetTx, ControlStoreError> {
        let mut tx = self.begin(Counter::Fleet, WRITE).await?;
        // Read behind the lock: whoever waited for it is not late.
        let row = tx.row(statement(READ, "SELECT {now} AS now")).await?;
        let now = Millis(row.map_or(Ok(0), |row| row.get("now"))?);
        Ok(FleetTx { tx, now })
    }

    /// Begins to look as the leader. `None`: it is the leader no more.
    pub async fn begin_fleet_as(&self, term: &Term) -> Result<Option<FleetTx>, ControlStoreError> {
        let mut fleet = self.begin_fleet().await?;
        Ok(self.leads(&mut fleet.tx, term).await?.then_some(fleet))
    }
}

impl FleetTx {
    /// Those of the stores that are known.
    pub async fn stores(&mut self, names: &[StoreName]) -> Result<Vec<Store>, ControlStoreError> {
        let mut found = Vec::new();
        for names in names.chunks(ROWS_AT_ONCE) {
            let list = places(names.len(), 1, 0);
            let sql =
                format!("SELECT name, kind, shard_count, created_at FROM stores WHERE name IN ({list})");
            let read = names.iter().fold(statement(READ, sql), |read, name| read.bind(name.as_str()));
            for row in self.tx.rows(read).await? {
                found.push(stores::store(row)?);
            }
        }
        Ok(found)
    }

    /// Notes how many shards a store has, and makes their leases, which nobody has yet.
    pub async fn learn(&mut self, store: &StoreName, shape: StoreShape) -> Result<(), ControlStoreError> {
        let sql = "UPDATE stores SET shard_count = $2 WHERE name = $1 AND shard_count = 0";
        let count = i64::from(shape.shard_count);
        if self.tx.run(statement(WRITE, sql).bind(store.as_str()).bind(count)).await? == 0 {
            return Ok(());
        }
        let sql = "WITH RECURSIVE shards (shard) AS (
                       SELECT CAST(0 AS BIGINT) UNION ALL SELECT shard + 1 FROM shards WHERE shard + 1 < $2
                   )
                   INSERT INTO shard_leases (store, shard, lease_epoch, since)
                   SELECT $1, shard, 0, {now} FROM shards";
        self.tx.run(statement(WRITE, sql).bind(store.as_str()).bind(count)).await.map(drop)
    }

    /// How many nodes there are beside this one.
    pub async fn others(&mut self, node: &NodeName) -> Result<i64, ControlStoreError> {
        let sql = "SELECT count(*) AS nodes FROM nodes WHERE node_id <> $1";
        let row = self.tx.row(statement(READ, sql).bind(node.as_str())).await?;
        row.map_or(Ok(0), |row| row.get("nodes"))
    }

    /// Whether the name was taken from this process by another, be it many processes ago, and how long ago the one that
    /// has it now was heard, if it has not left: in milliseconds.
    pub async fn successor_heard(
        &mut self,
        node: &NodeName,
        process: ProcessId,
    ) -> Result<Option<i64>, ControlStoreError> {
        let sql = "SELECT seen_at FROM nodes
                   WHERE node_id = $1 AND process_id <> $2 AND left_at IS NULL
                     AND ',' || former_ids || ',' LIKE '%,' || $2 || ',%'";
        let read = statement(READ, sql).bind(node.as_str()).bind(process.to_string());
        let seen_at = self.tx.row(read).await?.map(|row| row.get("seen_at")).transpose()?;
        Ok(seen_at.map(|at| self.now.since(Millis(at))))
    }

    /// Gives the name to this process.
    pub async fn enter(&mut self, joining: &Joining) -> Result<(), ControlStoreError> {
        let sql = "INSERT INTO nodes (node_id, process_id, address, stores, joined_at, seen_at)
                   VALUES ($1, $2, $3, $4, $5, $5)
                   ON CONFLICT (node_id) DO UPDATE
                       SET process_id = excluded.process_id, address = excluded.address, stores = excluded.stores,
                           seen_at = excluded.seen_at, left_at = NULL,
                           former_ids = CASE WHEN nodes.process_id = excluded.process_id THEN nodes.former_ids
                                            ELSE substr(nodes.process_id || coalesce(',' || nodes.former_ids, ''),
                                                        1, CAST($6 AS INTEGER)) END,
                           -- Who only comes back has been here all the time.
                           joined_at = CASE WHEN nodes.process_id = excluded.process_id AND nodes.left_at IS NULL
                                            THEN nodes.joined_at ELSE excluded.joined_at END";
        let names: Vec<&str> = joining.stores.iter().map(StoreName::as_str).collect();
        let write = statement(WRITE, sql)
            .bind(joining.node.as_str())
            .bind(joining.process.to_string())
            .bind(joining.address.as_str())
            .bind(names.join(","))
            .bind(self.now.0)
            .bind(FORMER_BYTES_MAX);
        self.tx.run(write).await?;
        bump(&mut self.tx, Counter::Fleet).await.map(drop)
    }

    /// Notes that a node wants nothing any more, if the name is still this process's.
    pub async fn leave(&mut self, node: &NodeName, process: ProcessId) -> Result<(), ControlStoreError> {
        let sql = "UPDATE nodes SET left_at = $3 WHERE node_id = $1 AND process_id = $2 AND left_at IS NULL";
        let write = statement(WRITE, sql).bind(node.as_str()).bind(process.to_string()).bind(self.now.0);
        self.tx.run(write).await?;
        bump(&mut self.tx, Counter::Fleet).await.map(drop)
    }

    /// Notes which epochs a holder found in a store instead of its own.
    pub async fn refuse(
        &mut self,
        holder: &Holder,
        refused: &[(StoreName, Shard, LeaseEpoch)],
    ) -> Result<(), ControlStoreError> {
        for refused in refused.chunks(ROWS_AT_ONCE) {
            let sql = format!(
                "UPDATE shard_leases SET stored_epoch = v.column3
                 FROM (VALUES {}) AS v
                 WHERE shard_leases.store = v.column1 AND shard_leases.shard = v.column2
                   AND node_id = $1 AND process_id = $2
                   AND lease_epoch <= v.column3 AND stored_epoch < v.column3",
                places(refused.len(), 3, 2)
            );
            let head = statement(WRITE, sql).bind(holder.node.as_str()).bind(holder.process.to_string());
            let write = refused.iter().fold(head, |write, (store, shard, stored)| {
                write.bind(store.as_str()).bind(i64::from(shard.0)).bind(stored.get().cast_signed())
            });
            self.tx.run(write).await?;
        }
        bump(&mut self.tx, Counter::Fleet).await.map(drop)
    }

    /// By the database's clock, when the transaction had its turn.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Every node that has not left.
    pub async fn nodes(&mut self) -> Result<Vec<NodeRow>, ControlStoreError> {
        self.tx.rows(statement(READ, nodes::SELECT_NODES)).await?.into_iter().map(nodes::node).collect()
    }

    /// Every lease there is.
    pub async fn leases(&mut self) -> Result<Vec<Lease>, ControlStoreError> {
        let sql = "SELECT store, shard, node_id, process_id, lease_epoch, stored_epoch FROM shard_leases";
        self.tx.rows(statement(READ, sql)).await?.into_iter().map(lease).collect()
    }

    /// Writes what was judged.
    pub async fn give(&mut self, given: &[Given]) -> Result<(), ControlStoreError> {
        for given in given.chunks(ROWS_AT_ONCE) {
            let sql = format!(
                "UPDATE shard_leases
                 SET node_id = v.column3, process_id = v.column4, lease_epoch = v.column5, since = $1
                 FROM (VALUES {}) AS v
                 WHERE shard_leases.store = v.column1 AND shard_leases.shard = v.column2
                   AND lease_epoch <= v.column5",
                places(given.len(), 5, 1)
            );
            let head = statement(WRITE, sql).bind(self.now.0);
            let write = given.iter().fold(head, |write, given| {
                let to = given.to.as_ref();
                write
                    .bind(given.store.as_str())
                    .bind(i64::from(given.shard.0))
                    .bind(to.map(|to| to.node.to_string()))
                    .bind(to.map(|to| to.process.to_string()))
                    .bind(given.epoch.get().cast_signed())
            });
            self.tx.run(write).await?;
        }
        if !given.is_empty() {
            bump(&mut self.tx, Counter::Leases).await?;
        }
        Ok(())
    }

    /// Forgets nodes that own nothing and left, or were not heard of, long ago: names of containers are new each time.
    pub async fn forget(&mut self) -> Result<u64, ControlStoreError> {
        let sql = "DELETE FROM nodes
                   WHERE coalesce(left_at, seen_at) < $1
                     AND node_id NOT IN (SELECT node_id FROM shard_leases WHERE node_id IS NOT NULL)";
        self.tx.run(statement(WRITE, sql).bind(self.now.plus(-FORGET_AFTER_MS).0)).await
    }

    pub async fn commit(self) -> Result<(), ControlStoreError> {
        self.tx.commit().await
    }
}

fn lease(row: Row) -> Result<Lease, ControlStoreError> {
    let (store, shard) = nodes::shard(&row)?;
    let (node, process): (Option<String>, Option<String>) = (row.get("node_id")?, row.get("process_id")?);
    let holder = match (node, process) {
        (Some(node), Some(process)) => Some(nodes::holder(&node, &process)?),
        (_, _) => None,
    };
    let (epoch, stored_epoch) = (nodes::epoch(&row, "lease_epoch")?, nodes::epoch(&row, "stored_epoch")?);
    Ok(Lease { store, shard, holder, epoch, stored_epoch })
}
