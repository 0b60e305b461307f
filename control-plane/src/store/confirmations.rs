//! How far owners were heard to have come.

use std::collections::BTreeMap;

use orch8_authority::{Confirmed, Holder};
use orch8_model::{Shard, StoreName};

use super::{
    ControlStore, ControlStoreError,
    database::{ROWS_AT_ONCE, places, statement},
    nodes,
};

impl ControlStore {
    /// What is known of the shards a process owns.
    pub async fn confirmed(
        &self,
        holder: &Holder,
    ) -> Result<BTreeMap<(StoreName, Shard), Confirmed>, ControlStoreError> {
        let sql = "SELECT c.store, c.shard, c.lease_epoch, c.commit_seq, c.fell_from
                   FROM shard_leases l
                   JOIN confirmations c ON c.store = l.store AND c.shard = l.shard
                   WHERE l.node_id = $1 AND l.process_id = $2";
        let read = statement("read of confirmations", sql)
            .bind(holder.node.as_str())
            .bind(holder.process.to_string());
        let mut known = BTreeMap::new();
        for row in self.database.rows(read).await? {
            let (commit_seq, fell_from): (i64, i64) = (row.get("commit_seq")?, row.get("fell_from")?);
            let confirmed = Confirmed {
                epoch: nodes::epoch(&row, "lease_epoch")?,
                commit_seq: commit_seq.cast_unsigned(),
                fell_from: fell_from.cast_unsigned(),
            };
            known.insert(nodes::shard(&row)?, confirmed);
        }
        Ok(known)
    }

    /// Keeps what was heard, unless something was heard under a higher epoch. In the order of shards, so that two
    /// writers never wait for each other.
    pub async fn confirm(
        &self,
        heard: &BTreeMap<(StoreName, Shard), Confirmed>,
    ) -> Result<(), ControlStoreError> {
        let heard: Vec<_> = heard.iter().collect();
        for heard in heard.chunks(ROWS_AT_ONCE) {
            let sql = format!(
                "INSERT INTO confirmations (store, shard, lease_epoch, commit_seq, fell_from) VALUES {}
                 ON CONFLICT (store, shard) DO UPDATE
                     SET lease_epoch = excluded.lease_epoch, commit_seq = excluded.commit_seq,
                         fell_from = excluded.fell_from
                     WHERE excluded.lease_epoch >= confirmations.lease_epoch",
                places(heard.len(), 5, 0)
            );
            let head = statement("write of confirmations", sql);
            let write = heard.iter().fold(head, |write, ((store, shard), confirmed)| {
                write
                    .bind(store.as_str())
                    .bind(i64::from(shard.0))
                    .bind(confirmed.epoch.get().cast_signed())
                    .bind(confirmed.commit_seq.cast_signed())
                    .bind(confirmed.fell_from.cast_signed())
            });
            self.database.run(write).await?;
        }
        Ok(())
    }
}
