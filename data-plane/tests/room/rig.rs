//! A room on a store of its own, and a tenant placed there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use orch8_data_plane::{
    app::{self, DataPlane, NewInstance, SequenceRef},
    router::Router,
    session::SessionConfig,
    shard::{ShardConfig, StoreRoom},
    store::{InstanceFilter, Placement, Started, Store},
};
use orch8_engine::Status;
use orch8_model::{
    InstanceId, LeaseEpoch, Millis, Namespace, NodeName, PlacementEpoch, SequenceName, Shard, StoreName,
    TenantId,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub fn now() -> Millis {
    Millis::from(chrono::Utc::now())
}

/// Every shard of a store, at this epoch.
pub fn all(store: &Store, epoch: u64) -> BTreeMap<Shard, LeaseEpoch> {
    let epoch = LeaseEpoch::new(epoch).expect("small");
    (0..store.shards()).map(|shard| (Shard(shard), epoch)).collect()
}

pub struct Room {
    pub plane: DataPlane,
    pub tenant: TenantId,
    pub room: Arc<StoreRoom>,
    _folder: Option<tempfile::TempDir>,
}

impl Room {
    /// On a SQLite file of its own, owning every shard.
    pub async fn open(config: ShardConfig) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open_file(&folder.path().join("store.db")).await.expect("a store");
        let mut room = Self::on(store, "n", config).await;
        assert_eq!(room.room.own(&all(room.room.store(), 1)).await.expect("owned"), []);
        room._folder = Some(folder);
        room
    }

    /// One of several rooms of a database, owning nothing yet.
    pub async fn on(store: Store, node: &str, config: ShardConfig) -> Self {
        let name = StoreName::parse("local").expect("a name");
        let node = NodeName::parse(node).expect("a name");
        let room = StoreRoom::new(name.clone(), store, node, config, SessionConfig::default());
        let router = Router::new(HashMap::from([(name.clone(), room.clone())]));
        let tenant = TenantId::parse("acme").expect("a name");
        let epoch = PlacementEpoch::new(1).expect("small");
        let placement = Placement { tenant: tenant.clone(), store: name, epoch };
        router.learn(vec![placement], true).await;
        Self { plane: DataPlane { router, leaving: CancellationToken::new() }, tenant, room, _folder: None }
    }

    pub async fn publish(&self, document: Value) {
        app::publish_sequence(&self.plane, &self.tenant, document.to_string().into_bytes(), now())
            .await
            .expect("published");
    }

    pub async fn start(&self, name: &str, count: usize) -> Vec<InstanceId> {
        self.start_at(now(), name, count).await
    }

    /// On a node whose clock shows something else.
    pub async fn start_at(&self, now: Millis, name: &str, count: usize) -> Vec<InstanceId> {
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
            app::start_instances(&self.plane, &self.tenant, vec![item; count], now).await.expect("started");
        let id = |one: Started| match one {
            Started::New(id) | Started::Deduplicated(id) | Started::Mismatch(id) => id,
        };
        started.into_iter().map(id).collect()
    }

    pub async fn count(&self, status: Status) -> usize {
        let filter = InstanceFilter { statuses: vec![status], ..InstanceFilter::default() };
        app::list_instances(&self.plane, &self.tenant, &filter, None, 1_000).await.expect("a list").0.len()
    }

    pub async fn until(&self, status: Status, count: usize) {
        let began = Instant::now();
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
    pub async fn hot(&self) -> usize {
        let mut hot = 0;
        for shard in 0..self.room.store().shards() {
            hot += self.room.store().hot(Shard(shard), None, 10_000).await.expect("a list").len();
        }
        hot
    }
}
