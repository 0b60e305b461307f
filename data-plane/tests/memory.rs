//! A shard keeps a bounded number of instances in memory; the others sleep in the store and are woken by what concerns
//! them.

use std::{collections::HashMap, time::Duration};

use orch8_data_plane::{
    app::{self, DataPlane, NewInstance, NewSignal, SequenceRef},
    router::{Placement, Router},
    session::SessionConfig,
    shard::{ShardConfig, StoreRoom},
    store::{InstanceFilter, Started, Store},
};
use orch8_engine::{SignalKind, Status};
use orch8_model::{
    InstanceId, Millis, Namespace, NodeName, PlacementEpoch, SequenceName, StoreName, TenantId,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const RUNS: usize = 400;
/// Four shards of this many: a tenth of the runs.
const HOT_MAX: usize = 10;

fn now() -> Millis {
    Millis::from(chrono::Utc::now())
}

struct Room {
    plane: DataPlane,
    tenant: TenantId,
    room: std::sync::Arc<StoreRoom>,
    _folder: tempfile::TempDir,
}

impl Room {
    async fn open(config: ShardConfig) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open_file(&folder.path().join("store.db")).await.expect("a store");
        let name = StoreName::parse("local").expect("a name");
        let node = NodeName::parse("n").expect("a name");
        let room = StoreRoom::open(name.clone(), store, &node, config, SessionConfig::default())
            .await
            .expect("a room");
        let router = Router::new(HashMap::from([(name.clone(), room.clone())]));
        let tenant = TenantId::parse("acme").expect("a name");
        let epoch = PlacementEpoch::new(1).expect("small");
        router.learn(vec![Placement { tenant: tenant.clone(), store: name, epoch }]).await.expect("learned");
        Self { plane: DataPlane { router, leaving: CancellationToken::new() }, tenant, room, _folder: folder }
    }

    async fn publish(&self, document: Value) {
        app::publish_sequence(&self.plane, &self.tenant, document.to_string().into_bytes(), now())
            .await
            .expect("published");
    }

    async fn start(&self, name: &str, count: usize) -> Vec<InstanceId> {
        let empty = || (json!({}), "{}".to_owned());
        let item = NewInstance {
            field: String::new(),
            sequence: SequenceRef::Name {
                namespace: Namespace::default_namespace(),
                name: SequenceName::parse(name).expect("a name"),
                version: None,
            },
            data: empty(),
            config: empty(),
            metadata: empty(),
            priority: 1,
            timezone: "UTC".to_owned(),
            fire_at: None,
            key: None,
        };
        let started =
            app::start_instances(&self.plane, &self.tenant, vec![item; count], now()).await.expect("started");
        let id = |one: Started| match one {
            Started::New(id) | Started::Deduplicated(id) | Started::Mismatch(id) => id,
        };
        started.into_iter().map(id).collect()
    }

    async fn count(&self, status: Status) -> usize {
        let filter = InstanceFilter { statuses: vec![status], ..InstanceFilter::default() };
        app::list_instances(&self.plane, &self.tenant, &filter, None, 1_000).await.expect("a list").0.len()
    }

    async fn until(&self, status: Status, count: usize) {
        let began = std::time::Instant::now();
        while self.count(status).await != count {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{} of {count} are {status:?}",
                self.count(status).await
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Instances that the store knows to be in memory.
    async fn hot(&self) -> usize {
        let mut hot = 0;
        for shard in 0..self.room.store().shards() {
            hot +=
                self.room.store().hot(orch8_model::Shard(shard), None, 10_000).await.expect("a list").len();
        }
        hot
    }
}

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
