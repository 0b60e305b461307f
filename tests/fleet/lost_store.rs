//! A store that is away, and those who have nothing to do with it.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use orch8_proto::v1::{self, InstanceState::Completed};
use orch8_test_postgres::{Cluster, ask};
use serde_json::json;
use tonic::Code;

use crate::rig::{
    Client, PATIENCE,
    fleet::{Fleet, Kind, Plan},
    line::Line,
    reason,
};

fn noop() -> serde_json::Value {
    json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]})
}

/// Runs one to its end; how long that took.
async fn run(client: &Client) -> Duration {
    let began = Instant::now();
    let id = client.start("n", &json!({})).await.expect("started");
    assert_eq!(client.ended(&id).await.state(), Completed);
    began.elapsed()
}

/// Two stores of one node, of which one has gone silent in the middle of its work.
struct Split {
    fleet: Fleet,
    line: Line,
    here: Client,
    there: Client,
}

impl Split {
    async fn start(nodes: usize) -> Self {
        let (line, far) = Line::to_database(&orch8_test_postgres::database()).await;
        let plan = Plan { kind: Kind::Postgres, nodes, more_stores: vec![("far", far)], ..Plan::default() };
        let fleet = Fleet::start_as(plan).await;
        let here = fleet.tenant("here").await;
        let there = fleet.tenant_in("there", "far").await;
        for client in [&here, &there] {
            client.publish(&noop()).await.expect("published");
            run(client).await;
        }
        Self { fleet, line, here, there }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_of_other_stores_notice_nothing_of_a_store_that_is_silent() {
    let Split { fleet, line, here, there } = Split::start(1).await;
    let before = fleet.owner_of("main").await.expect("an owner");
    line.silent(true);
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { there.start("n", &json!({})).await }
    });
    // Somebody is placed in the store that is away: that has to wait, and nobody else.
    let request = v1::CreateTenantRequest { tenant_id: "late".into(), ..Default::default() };
    fleet.operator().tenants().create_tenant(request).await.expect("a tenant");
    fleet.place("late", "far", 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;

    let began = Instant::now();
    let newcomer = fleet.tenant("newcomer").await;
    assert!(began.elapsed() < Duration::from_secs(3), "a new tenant waits {:?}", began.elapsed());
    newcomer.publish(&noop()).await.expect("published");
    run(&newcomer).await;

    let key = fleet.key("here", &[v1::Role::Client]).await;
    let doomed = Client::new(&here.address, &key);
    fleet.known(&doomed).await;
    let who = Client::new(&fleet.control.address, &key);
    let key_id = who.tenants().who_am_i(v1::WhoAmIRequest {}).await.expect("answers").into_inner().key_id;
    fleet.operator().tenants().revoke_key(v1::RevokeKeyRequest { key_id }).await.expect("revoked");
    let revoked = Instant::now();
    while doomed.sequences().list_sequences(v1::ListSequencesRequest::default()).await.is_ok() {
        assert!(revoked.elapsed() < Duration::from_secs(1), "the key is still good");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..20 {
        let took = run(&here).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(fleet.owner_of("main").await, Some(before), "and the node is heard all the while");

    line.silent(false);
    let refused_or_started = waiting.await.expect("a task");
    if let Err(refused) = refused_or_started {
        assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused:?}");
    }
    let began = Instant::now();
    while there.start("n", &json!({})).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "the store is back: {}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run(&there).await;
    let late = Client::new(&there.address, &fleet.key("late", &[v1::Role::Client]).await);
    fleet.known(&late).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_in_time_and_hands_over_what_it_can_although_a_store_is_silent() {
    let Split { mut fleet, line, here, .. } = Split::start(1).await;
    let heir = fleet.process_of_node(2);
    fleet.nodes.push(heir);
    fleet.nodes[1].up();
    let heir = fleet.at(1, &here);
    fleet.known(&heir).await;
    line.silent(true);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (took, _) = tokio::task::block_in_place(|| fleet.nodes[0].terminate());
    assert!(took < Duration::from_secs(9), "three to drain and five to close: {took:?}");
    let took = run(&heir).await;
    assert!(took < Duration::from_secs(3), "its shards are taken up at once or after its silence: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_store_is_silent_says_so_and_ends() {
    let Split { mut fleet, line, .. } = Split::start(1).await;
    fleet.nodes[0].kill();
    line.silent(true);
    fleet.nodes[0].up();
    let began = Instant::now();
    while !fleet.nodes[0].log().contains("store far") {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a node opens all of its stores before it serves any"]
async fn a_node_starts_for_those_whose_stores_are_there() {
    let Split { mut fleet, line, here, there } = Split::start(1).await;
    fleet.nodes[0].kill();
    line.silent(true);
    fleet.nodes[0].up();
    let began = Instant::now();
    let soon = Duration::from_secs(1);
    while !matches!(tokio::time::timeout(soon, here.start("n", &json!({}))).await, Ok(Ok(_))) {
        fleet.nodes[0].check();
        assert!(began.elapsed() < Duration::from_secs(10), "one store keeps the other from being served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run(&here).await;
    line.silent(false);
    let began = Instant::now();
    while there.start("n", &json!({})).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "the store is back: {}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_is_answered_soon_while_the_server_is_down_and_nothing_accepted_is_lost() {
    let cluster = Cluster::start();
    let url = cluster.database();
    let plan = Plan { kind: Kind::Postgres, nodes: 1, store_url: Some(url.clone()), ..Plan::default() };
    let mut fleet = Fleet::start_as(plan).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&json!({"name": "n", "blocks": [
        {"type": "step", "id": "a", "handler": "noop"},
        {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 300}},
        {"type": "step", "id": "b", "handler": "noop"}
    ]}))
    .await
    .expect("published");
    let mut accepted = Vec::new();
    for round in 0..3 {
        let client = acme.clone();
        let load = stream::iter(0..200)
            .map(move |n: usize| {
                let acme = client.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(n as u64 * 5)).await;
                    let began = Instant::now();
                    (acme.start("n", &json!({"n": n})).await, began.elapsed())
                }
            })
            .buffer_unordered(200)
            .collect::<Vec<_>>();
        let load = tokio::spawn(load);
        tokio::time::sleep(Duration::from_millis(400)).await;
        tokio::task::block_in_place(|| cluster.crash());
        let answers = load.await.expect("a task");
        let slowest = answers.iter().map(|(_, took)| *took).max().expect("some");
        for (answer, _) in answers {
            match answer {
                Ok(id) => accepted.push(id),
                Err(refused) => assert_eq!(
                    (refused.code(), reason(&refused).as_str()),
                    (Code::Unavailable, "STORE_UNAVAILABLE"),
                    "{refused:?}"
                ),
            }
        }
        assert!(slowest < Duration::from_secs(25), "round {round}: somebody waits {slowest:?}");
        tokio::task::block_in_place(|| cluster.up());
        let began = Instant::now();
        while acme.start("n", &json!({})).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the server is back: {}", fleet.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        fleet.nodes[0].check();
    }
    assert!(accepted.len() > 100, "{}", accepted.len());
    for id in &accepted {
        assert_eq!(acme.ended(id).await.state(), Completed, "{id}");
        assert_eq!(acme.outputs(id).await.len(), 3, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_ended_one_after_the_other_under_load_cost_nobody_a_run() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let other = fleet.at(1 - fleet.owner().await, &acme);
    fleet.known(&other).await;
    acme.publish(&json!({"name": "n", "blocks": [
        {"type": "loop", "id": "l", "condition": "true", "max_iterations": 10, "body": [
            {"type": "step", "id": "a", "handler": "noop"},
            {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 20}}
        ]}
    ]}))
    .await
    .expect("published");
    let url = fleet.store_url.clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let ending = tokio::task::spawn_blocking(move || {
        let mut stopped = stopped;
        let mut ended = 0;
        while stopped.try_recv().is_err() {
            let said = ask(&url, "SELECT count(pg_terminate_backend(pid)) FROM (
                SELECT pid FROM pg_stat_activity WHERE application_name = 'orch8' AND datname = current_database()
                ORDER BY random() LIMIT 4) AS a_few");
            ended += said.parse::<usize>().expect("a number");
            std::thread::sleep(Duration::from_millis(30));
        }
        ended
    });
    let began = Instant::now();
    let mut ids = Vec::new();
    let mut n = 0;
    while began.elapsed() < Duration::from_secs(8) {
        n += 1;
        let client = if n % 2 == 0 { &acme } else { &other };
        let request = v1::StartInstanceRequest {
            sequence_name: "n".into(),
            idempotency_key: format!("k{n}"),
            ..Default::default()
        };
        // Said until it is answered: the key makes the second one the first.
        let id = loop {
            match client.instances().start_instance(request.clone()).await {
                Ok(answer) => break answer.into_inner().instance_id,
                Err(why) => assert!(
                    matches!(why.code(), Code::Unavailable | Code::Unknown | Code::Aborted),
                    "{why:?}"
                ),
            }
        };
        ids.push(id);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = stop.send(());
    let ended = ending.await.expect("a task");
    assert!(ended > 50, "{ended}");
    for id in &ids {
        assert_eq!(acme.ended(id).await.state(), Completed, "{id}");
        let outputs = acme.outputs(id).await;
        let count = |block: &str| outputs.iter().filter(|(b, ..)| b == block).count();
        assert_eq!((count("a"), count("s")), (10, 10), "{id}");
    }
    let live = fleet.owner_of("main").await.expect("an owner");
    assert_eq!(live.1, 1, "nobody's shards changed hands for it");
}
