//! A node owns a shard as long as the store says so, and not a turn longer.

use std::{collections::BTreeMap, time::Duration};

use orch8_data_plane::{
    app,
    shard::ShardConfig,
    store::{Lease, Raised, Store},
};
use orch8_engine::Status;
use orch8_model::{DatabaseUrl, LeaseEpoch, NodeName, Shard};
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

/// Of one database, each the other's successor again and again.
async fn two_rooms(config: ShardConfig) -> [Room; 2] {
    let url = DatabaseUrl::parse(&orch8_test_postgres::database()).expect("an address");
    let store = async || Store::open(&url).await.expect("a store");
    [Room::on(store().await, "a", config.clone()).await, Room::on(store().await, "b", config).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_take_overs_behind_the_owners_back_lose_nothing_and_do_nothing_twice() {
    const RUNS: usize = 300;
    const TAKEOVERS: u64 = 100;
    let rooms = two_rooms(ShardConfig { poll: Duration::from_millis(200), ..ShardConfig::default() }).await;
    rooms[0]
        .publish(json!({"name": "m", "blocks": [
            {"type": "loop", "id": "l", "condition": "true", "max_iterations": 25, "body": [
                {"type": "step", "id": "a", "handler": "noop"},
                {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 60}}
            ]}
        ]}))
        .await;
    let mut ids = Vec::new();
    for round in 1..=TAKEOVERS {
        // Whoever owned them so far is not told, and goes on as if nothing had happened.
        let taker = &rooms[usize::try_from(round).expect("small") % 2];
        assert_eq!(taker.room.own(&all(taker.room.store(), round)).await.expect("owned"), []);
        if ids.len() < RUNS {
            ids.extend(rooms[0].start("m", 10).await);
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    rooms[0].until(Status::Completed, RUNS).await;
    for id in ids {
        let outputs =
            app::get_outputs(&rooms[1].plane, &rooms[1].tenant, id, None, 0, 1_000).await.expect("outputs");
        let count = |block: &str| outputs.rows.iter().filter(|(row, _)| row.block_id == block).count();
        assert_eq!((count("a"), count("s")), (25, 25), "{id}");
    }
    let refused: u64 = rooms.iter().map(|room| room.room.store().counters().fenced).sum();
    assert!(refused > 0, "an owner that was not told has tried");
    for room in rooms {
        room.room.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a start is due by the clock of the node that took it, and claimed by the clock of the owner"]
async fn a_start_taken_by_a_node_whose_clock_is_an_hour_ahead_runs_now() {
    let rooms = two_rooms(ShardConfig { poll: Duration::from_millis(200), ..ShardConfig::default() }).await;
    rooms[0].room.own(&all(rooms[0].room.store(), 1)).await.expect("answers");
    rooms[1].publish(json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]})).await;
    rooms[1].start_at(crate::rig::now().plus(60 * 60 * 1_000), "n", 10).await;
    rooms[0].until(Status::Completed, 10).await;
    for room in rooms {
        room.room.close().await;
    }
}

#[tokio::test]
async fn a_room_that_closes_takes_nothing_any_more() {
    let room = Room::open(ShardConfig::default()).await;
    let [second, third] = [2, 3].map(|epoch| all(room.room.store(), epoch));
    let (owned, ()) = tokio::join!(room.room.own(&second), room.room.release_all());
    owned.expect("answers");
    assert_eq!(room.room.owned(), BTreeMap::new());
    assert_eq!(room.room.own(&third).await.expect("answers"), []);
    assert_eq!(room.room.owned(), BTreeMap::new());
    room.room.close().await;
}
