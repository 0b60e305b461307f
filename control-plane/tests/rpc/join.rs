//! Join, DescribeFleet, FindEndpoints: nodes take their place, fall silent, leave and come back.

use std::time::{Duration, Instant};

use orch8_control_plane::FleetTimes;
use orch8_model::Reason;
use orch8_proto::v1::{
    self, DescribeFleetRequest, FindEndpointsRequest, StoreKind, join_request::Frame as Says,
};
use tokio::time::timeout;

use super::{
    node::{Leases, Node, P1, P2, P3, hello, held, main_at, offer},
    rig::{ADMIN, CLIENT, NODE, OPERATOR, Rig, SOON, field, refused, times},
};

async fn described(rig: &Rig) -> v1::DescribeFleetResponse {
    rig.fleet(OPERATOR).describe_fleet(DescribeFleetRequest {}).await.expect("described").into_inner()
}

/// Waits until the fleet is so.
async fn until(rig: &Rig, so: impl Fn(&v1::DescribeFleetResponse) -> bool) -> v1::DescribeFleetResponse {
    let wait = async {
        loop {
            let fleet = described(rig).await;
            if so(&fleet) {
                return fleet;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match timeout(SOON, wait).await {
        Ok(fleet) => fleet,
        Err(_) => panic!("the fleet stays {:?}", described(rig).await),
    }
}

#[tokio::test]
async fn the_first_node_gets_the_store_and_the_second_stands_by() {
    let rig = Rig::start().await;
    assert_eq!(described(&rig).await, v1::DescribeFleetResponse::default());
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    b.owns(Leases::new()).await;
    let fleet = described(&rig).await;
    let nodes: Vec<_> = fleet.nodes.iter().map(|n| (n.node_id.as_str(), n.live, n.stores.clone())).collect();
    assert_eq!(nodes, [("a", true, vec!["main".to_owned()]), ("b", true, vec!["main".to_owned()])]);
    assert_eq!(fleet.nodes[0].address, "http://a:7233");
    let shards: Vec<_> =
        fleet.shards.iter().map(|s| (s.first_shard, s.last_shard, s.node_id.as_str(), s.lease_epoch)).collect();
    assert_eq!(shards, [(0, 3, "a", 1)]);
    a.is_left_alone(times().give_up_after * 2).await;
    b.is_left_alone(Duration::from_millis(10)).await;
}

#[tokio::test]
async fn a_node_that_falls_silent_loses_its_shards_and_does_not_get_them_back() {
    let rig = Rig::start().await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    a.falls_silent();
    let began = Instant::now();
    b.owns(main_at(2)).await;
    assert!(began.elapsed() > times().give_up_after / 2, "not before its time: {:?}", began.elapsed());
    a.owns(Leases::new()).await;
    until(&rig, |fleet| fleet.nodes.iter().any(|n| n.node_id == "a" && !n.live)).await;
    a.is_heard_again();
    until(&rig, |fleet| fleet.nodes.iter().all(|n| n.live)).await;
    b.is_left_alone(times().give_up_after).await;
}

#[tokio::test]
async fn a_node_that_leaves_gives_its_shards_away_at_once() {
    // With real times: whoever waited for silence would not be done soon.
    let rig = Rig::start_with(FleetTimes::default()).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    let began = Instant::now();
    a.leave().await;
    b.owns(main_at(2)).await;
    assert!(began.elapsed() < FleetTimes::default().give_up_after / 2, "{:?}", began.elapsed());
    let fleet = described(&rig).await;
    assert_eq!(fleet.nodes.iter().map(|n| n.node_id.as_str()).collect::<Vec<_>>(), ["b"]);
    b.leave().await;
    until(&rig, |fleet| fleet.nodes.is_empty() && fleet.shards.iter().all(|s| s.node_id.is_empty())).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(3)).await;
}

#[tokio::test]
async fn a_stream_that_breaks_takes_nothing_from_whoever_comes_back_in_time() {
    let rig = Rig::start_with(FleetTimes::default()).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    b.owns(Leases::new()).await;
    drop(a);
    b.is_left_alone(Duration::from_secs(1)).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let rig = rig.restart().await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
}

#[tokio::test]
async fn a_silent_node_that_nobody_can_follow_goes_on_as_if_nothing_had_been() {
    let rig = Rig::start().await;
    rig.register_store("east", StoreKind::Postgres).await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let east = v1::JoinHello { stores: vec![offer("east", StoreKind::Postgres, 2)], ..hello("b", P2) };
    let mut b = Node::join(&rig, east).await;
    b.owns([(("east".to_owned(), 0), 1), (("east".to_owned(), 1), 1)].into()).await;
    a.falls_silent();
    until(&rig, |fleet| fleet.nodes.iter().any(|n| !n.live)).await;
    a.is_heard_again();
    until(&rig, |fleet| fleet.nodes.iter().all(|n| n.live)).await;
    a.is_left_alone(times().give_up_after).await;
    assert_eq!(described(&rig).await.shards.len(), 2);
}

#[tokio::test]
async fn a_new_process_takes_the_name_the_shards_and_the_stream_of_the_old_one() {
    let rig = Rig::start().await;
    let mut idle = Node::join(&rig, hello("b", P3)).await;
    idle.owns(main_at(1)).await;
    let mut old = Node::join(&rig, hello("a", P1)).await;
    idle.falls_silent();
    old.owns(main_at(2)).await;
    idle.is_heard_again();
    let mut new = Node::join(&rig, hello("a", P2)).await;
    new.owns(main_at(3)).await;
    assert_eq!(old.end().await.known(), Some(Reason::StaleLease));
    let again = Node::join_as(&rig, NODE, hello("a", P1)).await.map(|_| ()).expect_err("replaced");
    assert_eq!(again.known(), Some(Reason::StaleLease), "it does not take the name back");
    new.is_left_alone(times().give_up_after).await;
    new.leave().await;
    idle.owns(main_at(4)).await;
    let mut old = Node::join(&rig, hello("a", P1)).await;
    old.owns(Leases::new()).await;
}

#[tokio::test]
async fn a_refused_lease_is_given_again_above_what_the_store_holds() {
    let rig = Rig::start().await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let refusal = |shard, lease_epoch, stored_epoch| v1::RefusedShard {
        store: "main".into(),
        shard,
        lease_epoch,
        stored_epoch,
    };
    a.beat(vec![], vec![refusal(1, 1, 40), refusal(2, 1, 1)]).await;
    let mut wanted = main_at(1);
    wanted.insert(("main".into(), 1), 41);
    wanted.insert(("main".into(), 2), 2);
    a.owns(wanted.clone()).await;
    // Of another epoch, of a shard that is not his, and beyond belief: nothing follows.
    a.beat(vec![], vec![refusal(1, 1, 90), refusal(9, 1, 90), refusal(0, 1, i64::MAX as u64)]).await;
    a.is_left_alone(times().give_up_after).await;
}

#[tokio::test]
async fn a_commit_number_that_falls_stays_visible_until_the_epoch_rises() {
    let rig = Rig::start().await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    let fell = |fleet: &v1::DescribeFleetResponse| fleet.shards.iter().map(|s| s.fell_from).max();
    a.beat(vec![held(0, 1, 100), held(1, 1, 7)], vec![]).await;
    a.beat(vec![held(0, 1, 0), held(1, 1, 7), held(2, 1, 1)], vec![]).await;
    a.beat(vec![held(0, 9, 3), held(3, 2, 1)], vec![]).await;
    a.beat(vec![held(0, 1, 60)], vec![]).await;
    until(&rig, |fleet| fell(fleet) == Some(100)).await;
    a.beat(vec![held(0, 1, 500)], vec![]).await;
    let rig = rig.restart().await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    assert_eq!(fell(&described(&rig).await), Some(100), "who looks later sees it too");
    a.beat(vec![held(1, 1, 2)], vec![]).await;
    let mut b = Node::join(&rig, hello("b", P2)).await;
    a.leave().await;
    b.owns(main_at(2)).await;
    assert_eq!(fell(&described(&rig).await), Some(0));
}

#[tokio::test]
async fn only_the_store_that_is_meant_is_served() {
    let rig = Rig::start().await;
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    for (offers, told) in [
        (vec![offer("unknown", StoreKind::Sqlite, 4)], "orch8 store register unknown --kind sqlite"),
        (vec![offer("main", StoreKind::Postgres, 4)], "registered as sqlite"),
        (vec![offer("main", StoreKind::Sqlite, 64)], "has 4 shards"),
        (vec![offer("main", StoreKind::Sqlite, 4), offer("east", StoreKind::Postgres, 64)], "east"),
    ] {
        let other = v1::JoinHello { stores: offers, ..hello("b", P2) };
        let failure = Node::join_as(&rig, NODE, other).await.map(|_| ()).expect_err("refused");
        assert_eq!(failure.known(), Some(Reason::StoreUnsupported), "{failure}");
        assert!(failure.message.contains(told), "{failure}");
        assert!(failure.metadata.contains_key("store"));
    }
    let nothing = v1::JoinHello { stores: vec![], ..hello("b", P2) };
    Node::join(&rig, nothing).await.owns(Leases::new()).await;
    let listed = rig.placements(ADMIN).list_stores(v1::ListStoresRequest::default()).await.expect("a page");
    let stores: Vec<_> = listed.into_inner().stores.into_iter().map(|s| (s.name, s.shard_count)).collect();
    assert_eq!(stores, [("main".to_owned(), 4)], "the count was learnt, and nothing else");
}

#[tokio::test]
async fn a_hostile_frame_is_named_and_ends_the_stream() {
    let rig = Rig::start().await;
    let with = |change: &dyn Fn(&mut v1::JoinHello)| {
        let mut hello = hello("n", P1);
        change(&mut hello);
        Says::Hello(hello)
    };
    let beat = |held, refused| Says::Heartbeat(v1::JoinHeartbeat { held, refused });
    let refusal = |stored| v1::RefusedShard { store: "s".into(), shard: 0, lease_epoch: 1, stored_epoch: stored };
    let many = |n: usize| (0..n).map(|n| offer(&format!("s{n}"), StoreKind::Sqlite, 1_024)).collect::<Vec<_>>();
    for (first, at) in [
        (with(&|h| h.node_id = String::new()), "hello.node_id"),
        (with(&|h| h.node_id = "n".repeat(257)), "hello.node_id"),
        (with(&|h| h.process_id = "1".into()), "hello.process_id"),
        (with(&|h| h.address = "n:1".into()), "hello.address"),
        (with(&|h| h.address = format!("http://{}:1", "a".repeat(512))), "hello.address"),
        (with(&|h| h.stores = many(257)), "hello.stores"),
        (with(&|h| h.stores = many(17)), "hello.stores"),
        (with(&|h| h.stores.push(h.stores[0].clone())), "hello.stores"),
        (with(&|h| h.stores[0].name = "a/b".into()), "hello.stores.name"),
        (with(&|h| h.stores[0].kind = 0), "hello.stores.kind"),
        (with(&|h| h.stores[0].kind = 9), "hello.stores.kind"),
        (with(&|h| h.stores[0].shard_count = 0), "hello.stores.shard_count"),
        (with(&|h| h.stores[0].shard_count = 1_025), "hello.stores.shard_count"),
        (Says::Leave(v1::JoinLeave {}), "frame"),
        (beat(vec![], vec![]), "frame"),
        (beat(vec![held(1_024, 1, 1)], vec![]), "heartbeat.held.shard"),
        (beat(vec![held(0, u64::MAX, 1)], vec![]), "heartbeat.held.lease_epoch"),
        (beat(vec![held(0, 1, u64::MAX)], vec![]), "heartbeat.held.commit_seq"),
        (beat(vec![held(0, 1, 1); 16_385], vec![]), "heartbeat.held"),
        (beat(vec![], vec![refusal(u64::MAX)]), "heartbeat.refused.stored_epoch"),
        (beat(vec![], vec![refusal(1); 16_385]), "heartbeat.refused"),
    ] {
        let failure = Node::open(&rig, NODE, first).await.end().await;
        assert_eq!(failure.fields.first().map(|f| f.field.as_str()), Some(at), "{failure}");
    }
    let mut node = Node::join(&rig, hello("n", P1)).await;
    node.say(Says::Hello(hello("n", P1))).await;
    assert_eq!(node.end().await.known(), Some(Reason::InvalidField), "hello is said once");
}

#[tokio::test]
async fn a_nodes_stream_ends_with_its_key() {
    let rig = Rig::start().await;
    let request = v1::CreateKeyRequest { roles: vec![v1::Role::Node.into()], ..Default::default() };
    let made = rig.tenants(ADMIN).create_key(request).await.expect("made").into_inner();
    let mut node = Node::join_as(&rig, &made.secret, hello("a", P1)).await.expect("welcome");
    node.owns(main_at(1)).await;
    let revoke = v1::RevokeKeyRequest { key_id: made.key.expect("a key").key_id };
    rig.tenants(OPERATOR).revoke_key(revoke).await.expect("revoked");
    assert_eq!(node.end().await.known(), Some(Reason::CredentialInvalid));
}

#[tokio::test]
async fn a_shutdown_tells_the_nodes_and_does_not_wait_for_them() {
    let rig = Rig::start().await;
    let mut node = Node::join(&rig, hello("a", P1)).await;
    let (failure, _home) = tokio::join!(node.end(), rig.end());
    assert_eq!(failure.known(), Some(Reason::Draining));
}

#[tokio::test]
async fn a_worker_finds_the_nodes_of_its_tenants_store() {
    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    let find = |key: &str, tenant: &str| {
        let (mut client, tenant_id) = (rig.fleet(key), tenant.to_owned());
        async move { client.find_endpoints(FindEndpointsRequest { tenant_id }).await }
    };
    assert!(find(CLIENT, "").await.expect("placed").into_inner().addresses.is_empty(), "nobody is there yet");
    let mut a = Node::join(&rig, hello("a", P1)).await;
    a.owns(main_at(1)).await;
    for (key, tenant) in [(CLIENT, ""), (CLIENT, "acme"), (OPERATOR, "acme")] {
        let found = find(key, tenant).await.expect("found").into_inner();
        assert_eq!(found.addresses, ["http://a:7233"], "{key} {tenant}");
    }
    assert_eq!(refused(find(CLIENT, "globex").await).known(), Some(Reason::TenantMismatch));
    assert_eq!(refused(find(OPERATOR, "globex").await).known(), Some(Reason::TenantNotPlaced));
    assert_eq!(refused(find(OPERATOR, "nobody").await).known(), Some(Reason::TenantNotPlaced));
    assert_eq!(field(find(OPERATOR, "").await).1, "tenant_id");
}
