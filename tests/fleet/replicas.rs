//! Replicas of the control plane that go away, go silent or sleep.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::rig::{
    PATIENCE,
    fleet::{Fleet, Kind, Plan},
    line::Line,
};

/// When the node was last heard, by every replica that answers.
async fn is_heard(fleet: &Fleet, node: usize) -> bool {
    let name = format!("n{}", node + 1);
    let request = orch8_proto::v1::DescribeFleetRequest {};
    for control in std::iter::once(&fleet.control).chain(&fleet.replicas) {
        let client = fleet.operator_at(&control.address);
        let mut client = client.fleet();
        let asked = client.describe_fleet(request);
        if let Ok(Ok(fleet)) = tokio::time::timeout(Duration::from_secs(1), asked).await {
            return fleet.into_inner().nodes.iter().any(|node| node.node_id == name && node.live);
        }
    }
    false
}

async fn of_two() -> Fleet {
    Fleet::start_as(Plan {
        kind: Kind::Postgres,
        nodes: 2,
        control_url: Some(orch8_test_postgres::database()),
        replicas: 1,
        ..Plan::default()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_find_the_replica_that_is_left_each_time_one_dies() {
    let mut fleet = of_two().await;
    for round in 0..6 {
        let dying = if round % 2 == 0 { &mut fleet.control } else { &mut fleet.replicas[0] };
        dying.kill();
        let died = Instant::now();
        // What it last heard is worth a second; whoever is live behind that has found the other.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        for node in 0..2 {
            while !is_heard(&fleet, node).await {
                assert!(
                    died.elapsed() < Duration::from_secs(4),
                    "round {round}: n{} is still not heard after {:?}: {}",
                    node + 1,
                    died.elapsed(),
                    fleet.logs()
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let risen = if round % 2 == 0 { &mut fleet.control } else { &mut fleet.replicas[0] };
        risen.up();
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_sleeps_and_wakes_takes_nobodys_shards() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let before = fleet.owner_of("main").await.expect("an owner");
    for round in 0..15 {
        fleet.control.pause();
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        fleet.control.go_on();
        tokio::time::sleep(Duration::from_millis(600)).await;
        let began = Instant::now();
        loop {
            if let Some(now) = fleet.owner_of("main").await {
                assert_eq!(now, before, "round {round}: nobody was silent while nobody listened");
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_without_a_control_plane_waits_for_it_and_can_be_told_to_go() {
    let mut fleet = Fleet::start(Kind::Postgres, 1).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");
    for pause in [false, true] {
        fleet.nodes[0].kill();
        if pause {
            fleet.control.pause();
        } else {
            fleet.control.kill();
        }
        fleet.nodes[0].up();
        tokio::time::sleep(Duration::from_secs(1)).await;
        fleet.nodes[0].check();
        let (took, _) = tokio::task::block_in_place(|| fleet.nodes[0].terminate());
        assert!(took < Duration::from_secs(5), "paused: {pause}: {took:?}");
        fleet.nodes[0].up();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if pause {
            fleet.control.go_on();
        } else {
            fleet.control.up();
        }
        fleet.owner().await;
        fleet.known(&acme).await;
        let id = acme.start("n", &json!({})).await.expect("started");
        acme.ended(&id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_in_time_although_the_control_plane_is_silent() {
    let mut fleet = Fleet::start(Kind::Postgres, 1).await;
    fleet.control.pause();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (took, status) = tokio::task::block_in_place(|| fleet.nodes[0].terminate());
    assert!(took < Duration::from_secs(6), "{took:?} {status}");
    fleet.control.go_on();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_goes_silent_is_left_before_its_nodes_count_as_silent() {
    // At full length: the pings of a connection are not shortened with the rest.
    let fleet = of_two().await;
    let owner = fleet.owner().await;
    let _ = owner;
    fleet.control.pause();
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut longest = Duration::ZERO;
    for node in 0..2 {
        while !is_heard(&fleet, node).await {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "n{} is not heard: {}",
                node + 1,
                fleet.logs()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        longest = longest.max(began.elapsed());
    }
    println!("heard elsewhere after {longest:?}");
    fleet.control.go_on();
    assert!(longest < Duration::from_secs(9), "longer than a node is waited for: {longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_whose_database_is_silent_takes_nothing_and_keeps_nobody_from_leaving() {
    let (line, database) = Line::to_database(&orch8_test_postgres::database()).await;
    let mut fleet = Fleet::start_as(Plan {
        kind: Kind::Postgres,
        nodes: 2,
        control_url: Some(database),
        ..Plan::default()
    })
    .await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");
    let before = fleet.owner_of("main").await.expect("an owner");
    for seconds in [3, 20] {
        line.silent(true);
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            let id = acme.start("n", &json!({})).await.expect("started");
            acme.ended(&id).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        line.silent(false);
        let began = Instant::now();
        while fleet.owner_of("main").await.is_none() {
            assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(fleet.owner_of("main").await, Some(before), "after {seconds} s: {}", fleet.logs());
    }
    line.silent(true);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (took, status) = tokio::task::block_in_place(|| fleet.nodes[before.0].terminate());
    assert!(status.success() && took < Duration::from_secs(6), "{took:?} {status}");
    let (took, status) = tokio::task::block_in_place(|| fleet.control.terminate());
    assert!(took < Duration::from_secs(35), "twenty to drain, five to close: {took:?} {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_replaced_without_a_word_is_found_again() {
    let (line, database) = Line::to_database(&orch8_test_postgres::database()).await;
    let (far, store) = Line::to_database(&orch8_test_postgres::database()).await;
    let mut fleet = Fleet::start_as(Plan {
        kind: Kind::Postgres,
        nodes: 2,
        control_url: Some(database),
        store_url: Some(store),
        ..Plan::default()
    })
    .await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");
    // Far enough that there is always a statement under way.
    line.slow(Duration::from_millis(40));
    tokio::time::sleep(Duration::from_secs(1)).await;
    line.hush();
    far.hush();
    line.slow(Duration::ZERO);
    let began = Instant::now();
    let within = Duration::from_secs(5);
    let soon = Duration::from_secs(60);
    while !matches!(tokio::time::timeout(within, acme.start("n", &json!({}))).await, Ok(Ok(_))) {
        assert!(began.elapsed() < soon, "the store takes nothing: {}", fleet.logs());
    }
    println!("starts again after {:?}", began.elapsed());
    let id = acme.start("n", &json!({})).await.expect("started");
    acme.ended_within(&id, soon).await;
    println!("runs again after {:?}", began.elapsed());
    let (owner, _) = loop {
        let asked = tokio::time::timeout(within, fleet.owner_of("main")).await;
        if let Ok(Some(owner)) = asked {
            break owner;
        }
        assert!(began.elapsed() < soon, "the control plane does not answer: {}", fleet.logs());
    };
    println!("the control plane answers after {:?}", began.elapsed());
    fleet.nodes[owner].kill();
    let killed = Instant::now();
    while fleet.owner().await == owner {
        assert!(killed.elapsed() < PATIENCE, "nobody leads: {}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("and gives shards away {:?} after a node died", killed.elapsed());
}
