//! What the tests stand on: a fresh store, tenants, instances, turns.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use orch8_data_plane::store::{
    BirthRow, Closing, Commit, Fence, FenceMode, Lease, Message, Placement, Raised, Start, Started, Store,
    TenantHandle, TurnAnswer, TurnWrite,
};
use orch8_engine::{SignalKind, Status};
use orch8_model::{
    ContinuityId, DatabaseUrl, IdempotencyKey, InstanceId, LeaseEpoch, Millis, Namespace, NodeName,
    PlacementEpoch, SequenceId, Shard, SignalId, StoreName, TenantId,
};
use orch8_seal::{Digest, sha256, shard_of};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use tempfile::TempDir;
use uuid::Uuid;

/// A SQLite store of its own, gone with the test.
pub struct Fresh {
    pub store: Store,
    pub folder: TempDir,
}

/// A Postgres store in a database of its own, and that database's address.
pub async fn postgres() -> (Store, String) {
    let url = orch8_test_postgres::database();
    (node_of(&url).await, url)
}

/// One more node on a Postgres database.
pub async fn node_of(url: &str) -> Store {
    Store::open(&address(url)).await.expect("a store")
}

pub fn address(url: &str) -> DatabaseUrl {
    DatabaseUrl::parse(url).expect("an address")
}

/// A connection behind the store's back.
pub async fn behind(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("a connection")
}

/// Runs statements behind the store's back.
pub async fn sql(conn: &mut PgConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await.expect(text);
}

/// One number, read behind the store's back.
pub async fn number(conn: &mut PgConnection, text: &str) -> i64 {
    let row = sqlx::raw_sql(AssertSqlSafe(text)).fetch_one(conn).await.expect(text);
    row.try_get::<i64, _>(0).or_else(|_| row.try_get::<i32, _>(0).map(i64::from)).expect("a number")
}

impl Fresh {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open_file(&folder.path().join("store.db")).await.expect("a store");
        Self { store, folder }
    }
}

/// The instant at which the tests take place.
pub const NOW: Millis = Millis(1_900_000_000_000);

pub fn tenant_id(name: &str) -> TenantId {
    TenantId::parse(name).expect("a tenant")
}

pub fn placement(epoch: u64) -> PlacementEpoch {
    PlacementEpoch::new(epoch).expect("an epoch")
}

/// By a placement that need not be the stored one.
pub fn handle(tenant: &str, epoch: u64) -> TenantHandle {
    let store = StoreName::parse("main").expect("a name");
    TenantHandle::of(&Placement { tenant: tenant_id(tenant), store, epoch: placement(epoch) })
}

pub fn lease_epoch(epoch: u64) -> LeaseEpoch {
    LeaseEpoch::new(epoch).expect("an epoch")
}

pub fn node(name: &str) -> NodeName {
    NodeName::parse(name).expect("a node")
}

/// A tenant that may write, at placement epoch 1.
pub async fn tenant(store: &Store, name: &str) -> TenantHandle {
    fence(store, name, 1, FenceMode::Active).await;
    handle(name, 1)
}

pub async fn fence(store: &Store, name: &str, epoch: u64, mode: FenceMode) -> bool {
    let fence = Fence { tenant: tenant_id(name), placement: placement(epoch), mode, weight: 1 };
    store.set_fence(fence).await.expect("a fence")
}

/// All shards of a store, taken at the given epoch.
pub async fn leases(store: &Store, epoch: u64) -> Vec<Lease> {
    let mut leases = Vec::new();
    for shard in (0..store.shards()).map(Shard) {
        match store.raise(shard, &node("n1"), lease_epoch(epoch)).await.expect("a raise") {
            Raised::Won { lease, .. } => leases.push(lease),
            Raised::Stale { held, by } => panic!("{shard} is held by {by} at {held}"),
        }
    }
    leases
}

/// The lease of an instance's shard, of leases as [`leases`] answers them.
pub fn lease_of(store: &Store, leases: &[Lease], id: InstanceId) -> Lease {
    leases[usize::from(shard_of(id, store.shards()).0)]
}

/// Rising ids, as UUIDv7 would be, and never the same twice.
pub fn fresh_id() -> InstanceId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    InstanceId(Uuid::from_u128((0x0190_0000_0000_7000_u128 << 64) | u128::from(NEXT.fetch_add(1, Relaxed))))
}

/// An id in a given shard.
pub fn id_in(store: &Store, shard: Shard) -> InstanceId {
    std::iter::repeat_with(fresh_id).find(|id| shard_of(*id, store.shards()) == shard).expect("endless")
}

pub fn sequence() -> SequenceId {
    SequenceId(Uuid::from_u128(0x5e9))
}

pub fn birth(instance: InstanceId) -> BirthRow {
    BirthRow {
        instance,
        continuity: ContinuityId(instance.0),
        sequence: sequence(),
        namespace: Namespace::default_namespace(),
        priority: 1,
        timezone: "Europe/Berlin".to_owned(),
        data: r#"{"order":1.0,"größe":"\u0000"}"#.to_owned(),
        config: "{}".to_owned(),
        metadata: r#"{"k":"v"}"#.to_owned(),
        created_at: NOW,
        fire_at: NOW,
    }
}

pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a key")
}

pub fn body(text: &str) -> Digest {
    sha256(text.as_bytes())
}

/// Starts births without keys.
pub async fn start(store: &Store, tenant: &TenantHandle, births: Vec<BirthRow>) {
    let starts = births.into_iter().map(|birth| Start { birth, once: None }).collect();
    let started = store.start(tenant, starts).await.expect("a start").expect("a fence that lets us");
    assert!(started.iter().all(|s| matches!(s, Started::New(_))), "{started:?}");
}

/// A started instance, without a turn.
pub async fn born(store: &Store, tenant: &TenantHandle) -> InstanceId {
    let id = fresh_id();
    start(store, tenant, vec![birth(id)]).await;
    id
}

/// A started instance after its first turn.
pub async fn running(store: &Store, tenant: &TenantHandle, leases: &[Lease]) -> InstanceId {
    let id = born(store, tenant).await;
    let first = TurnWrite { status: Some(Status::Waiting), ready: true, ..turn(store, tenant, id, 0) };
    assert_eq!(commit(store, leases, vec![first]).await, [TurnAnswer::Done]);
    id
}

pub fn turn(store: &Store, tenant: &TenantHandle, instance: InstanceId, turn_no: u64) -> TurnWrite {
    TurnWrite {
        shard: shard_of(instance, store.shards()),
        tenant: tenant.clone(),
        instance,
        turn_no,
        at: NOW.plus(turn_no as i64),
        body: format!(r#"{{"turn":{turn_no}}}"#),
        snapshot: None,
        status: None,
        closing: None,
        mail: Vec::new(),
        timers: Vec::new(),
        ready: false,
    }
}

pub fn closing(store: &Store, tenant: &TenantHandle, instance: InstanceId, turn_no: u64) -> TurnWrite {
    TurnWrite {
        status: Some(Status::Completed),
        closing: Some(Closing { closed_at: NOW.plus(turn_no as i64), error: None }),
        ..turn(store, tenant, instance, turn_no)
    }
}

pub async fn commit(store: &Store, leases: &[Lease], turns: Vec<TurnWrite>) -> Vec<TurnAnswer> {
    store.commit(Commit { leases: leases.to_vec(), turns }).await.expect("a commit")
}

pub fn message(instance: InstanceId, signal: &str, kind: SignalKind) -> Message {
    Message { instance, signal: SignalId::parse(signal).expect("a signal id"), kind, at: NOW }
}

/// How many turns an instance has.
pub async fn turn_count(store: &Store, tenant: &TenantHandle, id: InstanceId) -> usize {
    store.turns(tenant, id, None, 1_000).await.expect("turns").len()
}
