//! A node owns a shard as long as the store says so, and not a turn longer.

use std::{collections::BTreeMap, time::Duration};

use orch8_data_plane::{
    shard::ShardConfig,
    store::{Lease, Raised},
};
use orch8_engine::Status;
use orch8_model::{LeaseEpoch, NodeName, Shard};
use serde_json::json;

use crate::rig::{Room, all};

fn epoch(number: u64) -> LeaseEpoch {
    LeaseEpoch::new(number).expect("small")
}

#[tokio::test]
async fn a_room_owns_what_it_is_told_and_gives_up_the_rest() {
    let room = Room::open(ShardConfig::default()).await;
    assert_eq!(room.room.owned(), all(room.room.store(), 1));
    let two: BTreeMap<Shard, LeaseEpoch> = [(Shard(0), epoch(1)), (Shard(1), epoch(2))].into();
    assert_eq!(room.room.own(&two).await.expect("answers"), [], "one stays, one is raised, two go");
    assert_eq!(room.room.owned(), two);
    assert_eq!(room.room.own(&BTreeMap::new()).await.expect("answers"), []);
    assert_eq!(room.room.owned(), BTreeMap::new());
    let again: BTreeMap<Shard, LeaseEpoch> = [(Shard(1), epoch(2)), (Shard(2), epoch(2))].into();
    let refused = room.room.own(&again).await.expect("answers");
    assert_eq!(refused, [(Lease { shard: Shard(1), epoch: epoch(2) }, epoch(2))], "an epoch is taken once");
    assert_eq!(room.room.owned(), [(Shard(2), epoch(2))].into());
    room.room.close().await;
}

#[tokio::test]
async fn an_idle_owner_that_lost_its_shard_stops_by_itself() {
    let room = Room::open(ShardConfig { poll: Duration::from_millis(50), ..ShardConfig::default() }).await;
    let other = NodeName::parse("other").expect("a name");
    let raised = room.room.store().raise(Shard(3), &other, epoch(7)).await.expect("answers");
    assert!(matches!(raised, Raised::Won { .. }));
    let mut changes = room.room.changes();
    while room.room.owned().contains_key(&Shard(3)) {
        tokio::time::timeout(Duration::from_secs(10), changes.changed())
            .await
            .expect("it stops")
            .expect("a room");
    }
    assert_eq!(room.room.owned().len(), 3, "the others go on");
    room.room.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_started_while_nobody_owned_the_shards_runs_once_somebody_does() {
    let room = Room::open(ShardConfig::default()).await;
    room.room.own(&BTreeMap::new()).await.expect("answers");
    room.publish(json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]})).await;
    room.start("n", 50).await;
    assert_eq!(room.count(Status::Completed).await, 0);
    room.room.own(&all(room.room.store(), 2)).await.expect("answers");
    room.until(Status::Completed, 50).await;
    room.room.close().await;
}
