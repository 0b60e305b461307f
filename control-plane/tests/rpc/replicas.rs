//! Several control planes on one Postgres: what one wrote the others know, and one of them leads.

use std::time::{Duration, Instant};

use orch8_control_plane::ControlPlane;
use orch8_model::{DatabaseUrl, Reason};
use orch8_proto::{
    client::Failure,
    identity::{Follower, KeyRing},
    v1::{self, WatchRequest},
};
use orch8_test_postgres::Cluster;
use tokio::time::timeout;

use crate::postgres::{
    node::{Leases, Node, P1, P2, hello, main_at},
    rig::{ADMIN, Home, NODE, OPERATOR, Rig, SOON, times},
};

/// What others wrote arrives within this.
const A_SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_key_that_one_replica_revokes_is_dead_on_the_others_and_their_nodes_within_a_second() {
    let here = Rig::start().await;
    let there = here.replica().await;
    let request = WatchRequest { node_id: "n1".into(), stores: vec![], resume_token: 0 };
    let mut watch = there.fleet(NODE).watch(request).await.expect("opens").into_inner();
    let (mut follower, ring) = (Follower::new(), KeyRing::new());
    let mut heard = async |ring: &KeyRing| {
        let part = timeout(SOON, watch.message()).await.expect("soon").expect("one").expect("one");
        if let Some(group) = follower.push(part) {
            ring.follow(&group);
        }
    };
    heard(&ring).await;

    let request = v1::CreateKeyRequest { roles: vec![v1::Role::Operator.into()], ..Default::default() };
    let made = here.tenants(ADMIN).create_key(request).await.expect("made").into_inner();
    let hash = orch8_seal::sha256(made.secret.as_bytes());
    let is_good = |ring: &KeyRing| ring.principal(&hash, orch8_model::Millis(0)).is_some();
    while !is_good(&ring) {
        heard(&ring).await;
    }
    there.tenants(&made.secret).who_am_i(v1::WhoAmIRequest {}).await.expect("good everywhere");

    let began = Instant::now();
    let revoke = v1::RevokeKeyRequest { key_id: made.key.expect("a key").key_id };
    here.tenants(OPERATOR).revoke_key(revoke).await.expect("revoked");
    while is_good(&ring) {
        heard(&ring).await;
    }
    assert!(began.elapsed() < A_SECOND, "the node learnt it after {:?}", began.elapsed());
    let refused = there.tenants(&made.secret).who_am_i(v1::WhoAmIRequest {}).await.expect_err("dead");
    assert_eq!(Failure::from(refused).known(), Some(Reason::CredentialInvalid));
    assert!(began.elapsed() < A_SECOND, "the replica learnt it after {:?}", began.elapsed());
}

#[tokio::test]
async fn a_placement_reaches_the_nodes_of_every_replica_within_a_second() {
    let here = Rig::start().await;
    let there = here.replica().await;
    let request = WatchRequest { node_id: "n1".into(), stores: vec![], resume_token: 0 };
    let mut watch = there.fleet(NODE).watch(request).await.expect("opens").into_inner();
    watch.message().await.expect("everything");
    let began = Instant::now();
    let request = v1::SetPlacementRequest { tenant_id: "acme".into(), store: "main".into(), epoch: 9 };
    here.placements(ADMIN).set_placement(request).await.expect("placed");
    let told = timeout(SOON, watch.message()).await.expect("soon").expect("one").expect("one");
    assert_eq!(told.placements.iter().map(|p| p.epoch).collect::<Vec<_>>(), [9]);
    assert!(began.elapsed() < A_SECOND, "{:?}", began.elapsed());
}

#[tokio::test]
async fn nodes_of_two_replicas_are_one_fleet() {
    let here = Rig::start().await;
    let there = here.replica().await;
    let mut a = Node::join(&here, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&there, hello("b", P2)).await;
    b.owns(Leases::new()).await;
    a.falls_silent();
    b.owns(main_at(2)).await;
    a.owns(Leases::new()).await;
    a.is_heard_again();
    b.leave().await;
    a.owns(main_at(3)).await;
    let mut new = Node::join(&there, hello("a", P2)).await;
    new.owns(main_at(4)).await;
    assert_eq!(a.end().await.known(), Some(Reason::StaleLease), "also on the other replica");
}

#[tokio::test]
async fn a_node_whose_replica_leaves_goes_on_at_another_with_what_it_had() {
    let here = Rig::start().await;
    let there = here.replica().await;
    let mut a = Node::join(&here, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let (failure, _home) = tokio::join!(a.end(), here.end());
    assert_eq!(failure.known(), Some(Reason::Draining));
    let mut a = Node::join(&there, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    a.is_left_alone(times().give_up_after * 2).await;
}

/// A control plane in a runtime of its own, which can be gone from one moment to the next.
struct Leading {
    runtime: tokio::runtime::Runtime,
}

impl Leading {
    fn start(url: DatabaseUrl) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let opened = runtime.spawn(async move { ControlPlane::open_with(&url, times()).await });
        let began = Instant::now();
        while !opened.is_finished() {
            assert!(began.elapsed() < SOON, "does not open");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { runtime }
    }

    fn dies(self) {
        self.runtime.shutdown_background();
    }
}

#[tokio::test]
async fn when_the_leader_dies_another_gives_the_shards_away() {
    let Home::Url(url) = Home::new() else { panic!("a Postgres") };
    let leader = Leading::start(url.clone());
    tokio::time::sleep(times().give_up_after / 5).await;
    let rig = Rig::start_in(Home::Url(url)).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    leader.dies();
    a.falls_silent();
    let began = Instant::now();
    b.owns(main_at(2)).await;
    assert!(began.elapsed() < times().give_up_after * 5, "{:?}", began.elapsed());
    a.is_heard_again();
    b.leave().await;
    a.owns(main_at(3)).await;
}

#[tokio::test]
async fn a_database_that_is_away_takes_nothing_from_anybody() {
    let cluster = Cluster::start();
    let url = DatabaseUrl::parse(&cluster.database()).expect("an address");
    let rig = Rig::start_in(Home::Url(url)).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    b.owns(Leases::new()).await;
    cluster.crash();
    tokio::time::sleep(times().give_up_after * 3).await;
    rig.tenants(OPERATOR).who_am_i(v1::WhoAmIRequest {}).await.expect("keys are known");
    let asked = rig.tenants(OPERATOR).list_tenants(v1::ListTenantsRequest::default()).await;
    assert_eq!(Failure::from(asked.expect_err("away")).known(), Some(Reason::StoreUnavailable));
    cluster.up();
    a.is_left_alone(times().give_up_after * 3).await;
    b.is_left_alone(Duration::from_millis(10)).await;
    a.falls_silent();
    b.owns(main_at(2)).await;
}
