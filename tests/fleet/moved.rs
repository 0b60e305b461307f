//! Placements that change under load: the old handle is refused, nothing is lost, and whoever worked for the tenant goes
//! on to do so.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use orch8_proto::v1::InstanceState::Completed;
use orch8_test_postgres::ask;
use serde_json::json;

use crate::rig::{
    ORCH8, PATIENCE,
    fleet::{Fleet, Kind, Plan},
};

fn document() -> serde_json::Value {
    json!({"name": "m", "blocks": [
        {"type": "step", "id": "w", "handler": "work"},
        {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 100}},
        {"type": "loop", "id": "l", "condition": "true", "max_iterations": 5, "body": [
            {"type": "step", "id": "i", "handler": "noop"},
            {"type": "step", "id": "t", "handler": "sleep", "params": {"duration_ms": 60}}
        ]},
        {"type": "step", "id": "end", "handler": "work"}
    ]})
}

struct Worker(Child);

impl Worker {
    fn hire(fleet: &Fleet, key: &str) -> Self {
        let child = Command::new(ORCH8)
            .args([
                "worker",
                "--handler",
                "work",
                "--exec",
                "cat >/dev/null; echo $ORCH8_IDEMPOTENCY_KEY >> $LEDGER; echo '{}'",
            ])
            .env("ORCH8_ADDRESS", fleet.addresses())
            .env("ORCH8_KEY", key)
            .env("LEDGER", fleet.dir().join("ledger"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(fleet.dir().join("worker.log")).expect("a log"))
            .spawn()
            .expect("a worker");
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placement_that_is_raised_again_and_again_under_load_loses_nothing() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&document()).await.expect("published");
    let worker = Worker::hire(&fleet, &acme.key);
    let mut ids = Vec::new();
    for epoch in 2..12 {
        for _ in 0..10 {
            let began = Instant::now();
            loop {
                match acme.start("m", &json!({})).await {
                    Ok(id) => {
                        ids.push(id);
                        break;
                    }
                    Err(why) => assert!(began.elapsed() < Duration::from_secs(5), "{why:?} {}", fleet.logs()),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fleet.place("acme", "main", epoch).await;
    }
    for id in &ids {
        assert_eq!(acme.ended(id).await.state(), Completed, "{id}");
        let outputs = acme.outputs(id).await;
        for (block, rows) in [("w", 1), ("s", 1), ("i", 5), ("t", 5), ("end", 1)] {
            assert_eq!(outputs.iter().filter(|(b, ..)| b == block).count(), rows, "{block} of {id}");
        }
    }
    let ledger = std::fs::read_to_string(fleet.dir().join("ledger")).expect("a ledger");
    let keys: std::collections::HashSet<&str> = ledger.lines().collect();
    println!("{} runs, {} effects for {} keys", ids.len(), ledger.lines().count(), keys.len());
    assert_eq!(keys.len(), 2 * ids.len());
    assert_eq!(ledger.lines().count(), keys.len(), "no lease was lost: nothing runs twice");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_of_a_tenant_that_is_placed_elsewhere_find_its_new_store() {
    let other = orch8_test_postgres::database();
    let plan = Plan {
        kind: Kind::Postgres,
        nodes: 1,
        more_stores: vec![("other", other.clone())],
        ..Plan::default()
    };
    let fleet = Fleet::start_as(plan).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&document()).await.expect("published");
    let _worker = Worker::hire(&fleet, &acme.key);
    let id = acme.start("m", &json!({})).await.expect("started");
    assert_eq!(acme.ended(&id).await.state(), Completed);
    fleet.place("acme", "other", 2).await;
    // Until the node has heard of it, runs are of the old store.
    let began = Instant::now();
    let id = loop {
        let published = acme.publish(&document()).await;
        if let Ok(id) = published.and(acme.start("m", &json!({})).await)
            && ask(&other, &format!("SELECT count(*) FROM instances WHERE id = '{id}'")) == "1"
        {
            break id;
        }
        assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        acme.ended_within(&id, Duration::from_secs(15)).await.state(),
        Completed,
        "its worker came along"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_left_behind_by_a_pointer_cost_their_store_nothing() {
    let other = orch8_test_postgres::database();
    let plan = Plan {
        kind: Kind::Postgres,
        nodes: 1,
        more_stores: vec![("other", other.clone())],
        ..Plan::default()
    };
    let fleet = Fleet::start_as(plan).await;
    let (acme, globex) = (fleet.tenant("acme").await, fleet.tenant("globex").await);
    for tenant in [&acme, &globex] {
        tenant.publish(&document()).await.expect("published");
    }
    let commits = || -> i64 {
        let sql =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        ask(&fleet.store_url, sql).parse().expect("a number")
    };
    let at_rest = {
        let before = commits();
        tokio::time::sleep(Duration::from_secs(5)).await;
        commits() - before
    };
    for _ in 0..300 {
        acme.start("m", &json!({})).await.expect("started");
    }
    fleet.place("acme", "other", 2).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let _worker = Worker::hire(&fleet, &globex.key);
    let id = globex.start("m", &json!({})).await.expect("started");
    assert_eq!(globex.ended(&id).await.state(), Completed);
    let (before, log) = (commits(), fleet.nodes[0].log().len());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (now, said) = (commits() - before, fleet.nodes[0].log().len() - log);
    println!(
        "{at_rest} transactions in five seconds of rest, {now} with what was left behind; {said} bytes of log"
    );
    assert!(now < 2 * at_rest, "{now} transactions");
    assert!(said < 10_000, "{}", fleet.logs());
}
