//! A shard keeps a bounded number of instances in memory; the others sleep in the store and are woken by what concerns
//! them.

use std::time::Duration;

use orch8_data_plane::{
    app::{self, NewSignal},
    shard::ShardConfig,
};
use orch8_engine::{SignalKind, Status};
use serde_json::json;

use crate::rig::{Room, now};

const RUNS: usize = 400;
/// Four shards of this many: a tenth of the runs.
const HOT_MAX: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_people_leaves_memory_and_comes_back_for_their_answer() {
    let room = Room::open(ShardConfig { hot_max: HOT_MAX, ..ShardConfig::default() }).await;
    room.publish(json!({"name": "g", "blocks": [
        {"type": "step", "id": "g", "handler": "log", "params": {"message": "{{data.g}}"}, "wait_for_input": {"prompt": "go?"}}
    ]}))
    .await;
    let ids = room.start("g", RUNS).await;
    room.until(Status::Waiting, RUNS).await;
    let hot = room.hot().await;
    assert!(hot <= 8 * HOT_MAX, "{hot} of {RUNS} are in memory");
    for instance in ids {
        let kind = SignalKind::Custom { name: "human_input:g".to_owned(), payload: json!({"value": "yes"}) };
        app::send_signal(&room.plane, &room.tenant, NewSignal { instance, id: None, kind }, now())
            .await
            .expect("accepted");
    }
    room.until(Status::Completed, RUNS).await;
    room.room.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sleeps_long_leaves_memory_and_wakes_in_time() {
    // "Far" is half a second here, so that a sleep of two seconds is a long one.
    let far = Duration::from_millis(500);
    let config =
        ShardConfig { hot_max: HOT_MAX, far, poll: Duration::from_millis(100), ..ShardConfig::default() };
    let room = Room::open(config).await;
    room.publish(json!({"name": "s", "blocks": [{"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 4000}}]}))
        .await;
    room.start("s", RUNS).await;
    room.until(Status::Waiting, RUNS).await;
    let hot = room.hot().await;
    assert!(hot <= 8 * HOT_MAX, "{hot} of {RUNS} are in memory");
    room.until(Status::Completed, RUNS).await;
    room.room.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_goes_on_by_itself_is_not_put_out_of_memory() {
    let room = Room::open(ShardConfig { hot_max: 2, ..ShardConfig::default() }).await;
    room.publish(json!({"name": "l", "blocks": [
        {"type": "loop", "id": "l", "condition": "true", "max_iterations": 2_000, "body": [
            {"type": "step", "id": "a", "handler": "noop"}
        ]}
    ]}))
    .await;
    room.start("l", 40).await;
    room.until(Status::Completed, 40).await;
    room.room.close().await;
}
