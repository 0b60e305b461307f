//! Owners that are killed or paused under load. Whatever was acknowledged is finished by whoever owns the shards next,
//! and whoever owned them before changes nothing any more.
//!
//! `ORCH8_TAKEOVERS` says how often the shards change hands; a few times by default, two hundred before a release.

use std::{
    collections::{HashMap, HashSet},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use orch8_proto::v1::{self, InstanceState::Completed};
use serde_json::json;

use crate::rig::{
    Client, ORCH8, PATIENCE,
    fleet::{Fleet, Kind},
};

const TAKEOVERS: usize = 8;
/// Runs that are open at a time.
const WINDOW: usize = 40;

fn takeovers() -> usize {
    std::env::var("ORCH8_TAKEOVERS").ok().and_then(|n| n.parse().ok()).unwrap_or(TAKEOVERS)
}

/// A step of a worker, a short sleep, another step, and a loop of pure steps in between.
fn document() -> serde_json::Value {
    json!({"name": "m", "blocks": [
        {"type": "step", "id": "w", "handler": "work"},
        {"type": "loop", "id": "l", "condition": "true", "max_iterations": 20, "body": [
            {"type": "step", "id": "i", "handler": "noop"}
        ]},
        {"type": "step", "id": "z", "handler": "sleep", "params": {"duration_ms": 50}},
        {"type": "step", "id": "end", "handler": "work"}
    ]})
}

/// A worker that knows all nodes, and writes down every effect before it reports it.
struct Crew {
    child: Child,
    ledger: std::path::PathBuf,
}

impl Crew {
    fn hire(fleet: &Fleet, key: &str) -> Self {
        let ledger = fleet.dir().join("ledger");
        let command = format!(
            "cat >/dev/null; echo $ORCH8_IDEMPOTENCY_KEY $$ >> {}; echo \"{{\\\"key\\\":\\\"$ORCH8_IDEMPOTENCY_KEY\\\",\\\"run\\\":$$}}\"",
            ledger.display()
        );
        let log = std::fs::File::create(fleet.dir().join("worker.log")).expect("a log");
        let child = Command::new(ORCH8)
            .args(["worker", "--handler", "work", "--exec", &command])
            .env("ORCH8_ADDRESS", fleet.addresses())
            .env("ORCH8_KEY", key)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a worker");
        Self { child, ledger }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts runs over both nodes until told to stop. Answers what was acknowledged.
async fn load(nodes: [Client; 2], stop: Arc<AtomicBool>, ended: Arc<AtomicU64>) -> HashSet<String> {
    let mut started = HashSet::new();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        if started.len() < WINDOW + ended.load(Ordering::Relaxed) as usize {
            n += 1;
            // Said until it is answered: the key makes the second one the first.
            let request = v1::StartInstanceRequest {
                sequence_name: "m".into(),
                idempotency_key: format!("run-{n}"),
                ..Default::default()
            };
            for turn in 0.. {
                let mut node = nodes[(n + turn) % 2].instances();
                let asked = node.start_instance(request.clone());
                if let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(2), asked).await {
                    assert!(started.insert(answer.into_inner().instance_id), "an id twice");
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        } else {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    started
}

/// How many have ended, seen over the node that answers.
async fn count(nodes: [Client; 2], stop: Arc<AtomicBool>, ended: Arc<AtomicU64>) {
    let mut seen = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        for node in &nodes {
            let request = v1::ListInstancesRequest {
                states: vec![Completed.into()],
                page_size: 500,
                ..Default::default()
            };
            let mut node = node.instances();
            let asked = node.list_instances(request);
            if let Ok(Ok(page)) = tokio::time::timeout(Duration::from_secs(1), asked).await {
                seen.extend(page.into_inner().instances.into_iter().map(|run| run.instance_id));
                ended.store(seen.len() as u64, Ordering::Relaxed);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What there is to be known of a run that stands still.
async fn report(fleet: &Fleet, owner: &Client, id: &str) -> String {
    let handlers = owner.workers().list_handlers(v1::ListHandlersRequest::default()).await;
    let sessions = owner.workers().list_sessions(v1::ListSessionsRequest::default()).await;
    let timeline = v1::GetTimelineRequest { instance_id: id.into(), ..Default::default() };
    let timeline = owner.instances().get_timeline(timeline).await;
    let worker = std::fs::read_to_string(fleet.dir().join("worker.log")).unwrap_or_default();
    format!(
        "{:#?}\n{handlers:#?}\n{sessions:#?}\n{timeline:#?}\n{}\n{worker}",
        owner.instance(id).await,
        fleet.logs()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_accepted_twice_while_the_shards_change_hands_under_load() {
    let mut fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let nodes = [fleet.at(0, &acme), fleet.at(1, &acme)];
    for node in &nodes {
        fleet.known(node).await;
    }
    acme.publish(&document()).await.expect("published");
    let crew = Crew::hire(&fleet, &acme.key);
    let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let counting = tokio::spawn(count(nodes.clone(), stop.clone(), ended.clone()));
    let loading = tokio::spawn(load(nodes.clone(), stop.clone(), ended.clone()));

    for round in 0..takeovers() {
        let owner = fleet.owner().await;
        // Something has to be under way, and something has to get done between two take-overs.
        let (before, began) = (ended.load(Ordering::Relaxed), Instant::now());
        while ended.load(Ordering::Relaxed) < before + 3 {
            assert!(began.elapsed() < PATIENCE, "round {round}: nothing ends: {}", fleet.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let killed = round % 2 == 0;
        if killed {
            fleet.nodes[owner].kill();
        } else {
            fleet.nodes[owner].pause();
        }
        let began = Instant::now();
        while fleet.owner().await == owner {
            assert!(began.elapsed() < PATIENCE, "round {round}: nobody takes over: {}", fleet.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if killed {
            fleet.nodes[owner].up();
        } else {
            fleet.nodes[owner].go_on();
        }
    }
    stop.store(true, Ordering::Relaxed);
    counting.await.expect("counts");
    let started = loading.await.expect("loads");
    let owner = fleet.at(fleet.owner().await, &acme);
    let mut accepted: HashMap<String, i64> = HashMap::new();
    for id in &started {
        let began = Instant::now();
        while owner.instance(id).await.state() != Completed {
            assert!(began.elapsed() < PATIENCE, "{id} does not end: {}", report(&fleet, &owner, id).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let outputs = owner.outputs(id).await;
        for (block, rows) in [("w", 1), ("i", 20), ("z", 1), ("end", 1)] {
            assert_eq!(outputs.iter().filter(|(b, ..)| b == block).count(), rows, "rows of {block} in {id}");
        }
        for (_, _, output) in outputs.iter().filter(|(block, ..)| block == "w" || block == "end") {
            let key = output["key"].as_str().expect("a key").to_owned();
            assert!(accepted.insert(key, output["run"].as_i64().expect("a run")).is_none(), "a key twice");
        }
    }
    let mut effects: HashMap<String, HashSet<i64>> = HashMap::new();
    for line in std::fs::read_to_string(&crew.ledger).expect("a ledger").lines() {
        let (key, run) = line.split_once(' ').expect("two words");
        effects.entry(key.to_owned()).or_default().insert(run.parse().expect("a number"));
    }
    for (key, run) in &accepted {
        assert!(effects[key].contains(run), "what was accepted was done");
    }
    let refused =
        fleet.nodes.iter().map(|node| node.log().matches("refused by a fence").count()).sum::<usize>();
    println!(
        "{} take-overs, {} runs, {} effects for {} keys, {refused} turns refused by a fence",
        takeovers(),
        started.len(),
        effects.values().map(HashSet::len).sum::<usize>(),
        effects.len(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_finds_its_shards_gone_when_it_wakes_and_leaves_its_workers_to_the_new_one() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let (owner, other) = (fleet.owner().await, 1 - fleet.owner().await);
    acme.publish(&json!({"name": "g", "blocks": [
        {"type": "step", "id": "ask", "handler": "noop", "wait_for_input": {"prompt": "go?"}}
    ]}))
    .await
    .expect("published");
    let id = acme.start("g", &json!({})).await.expect("started");
    fleet.nodes[owner].pause();
    let began = Instant::now();
    while fleet.owner().await == owner {
        assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let elsewhere = fleet.at(other, &acme);
    elsewhere.signal(&id, "human_input:ask", &json!({"value": "yes"})).await.expect("accepted");
    assert_eq!(elsewhere.ended(&id).await.state(), Completed);
    fleet.nodes[owner].go_on();
    // The woken node is asked as if nothing had happened, and answers from the store.
    assert_eq!(acme.ended(&id).await.state(), Completed);
    let began = Instant::now();
    while !fleet.nodes[owner].log().contains("shard given up") {
        assert!(began.elapsed() < PATIENCE, "it still thinks it owns them: {}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(fleet.owner().await, other, "and it does not get them back by waking up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_leave_hands_its_shards_over_at_once() {
    let mut fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let owner = fleet.owner().await;
    acme.publish(&document()).await.expect("published");
    let crew = Crew::hire(&fleet, &acme.key);
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(acme.start("m", &json!({})).await.expect("started"));
    }
    let (took, status) = tokio::task::block_in_place(|| fleet.nodes[owner].terminate());
    assert!(status.success(), "{status}: {}", fleet.logs());
    let began = Instant::now();
    while fleet.owner().await == owner {
        assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() < Duration::from_millis(900), "it waited for silence: {:?}", began.elapsed());
    let other = fleet.at(1 - owner, &acme);
    for id in &ids {
        assert_eq!(other.ended(id).await.state(), Completed);
    }
    assert!(took < Duration::from_secs(10), "{took:?}");
    drop(crew);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_leaves_under_load_has_nothing_done_twice() {
    let mut fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let nodes = [fleet.at(0, &acme), fleet.at(1, &acme)];
    for node in &nodes {
        fleet.known(node).await;
    }
    acme.publish(&document()).await.expect("published");
    let crew = Crew::hire(&fleet, &acme.key);
    let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let counting = tokio::spawn(count(nodes.clone(), stop.clone(), ended.clone()));
    let loading = tokio::spawn(load(nodes.clone(), stop.clone(), ended.clone()));
    for _ in 0..3 {
        let owner = fleet.owner().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (_, status) = tokio::task::block_in_place(|| fleet.nodes[owner].terminate());
        assert!(status.success(), "{status}: {}", fleet.logs());
        fleet.nodes[owner].up();
    }
    stop.store(true, Ordering::Relaxed);
    counting.await.expect("counts");
    let started = loading.await.expect("loads");
    let owner = fleet.at(fleet.owner().await, &acme);
    for id in &started {
        assert_eq!(owner.ended(id).await.state(), Completed, "{id}");
    }
    let ledger = std::fs::read_to_string(&crew.ledger).expect("a ledger");
    let keys: HashSet<&str> = ledger.lines().filter_map(|line| line.split(' ').next()).collect();
    println!("{} runs, {} effects for {} keys", started.len(), ledger.lines().count(), keys.len());
    assert_eq!(keys.len(), 2 * started.len());
    assert_eq!(ledger.lines().count(), keys.len(), "no lease was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_that_stops_between_taking_and_reading_is_followed_by_the_next() {
    let mut fleet = Fleet::start(Kind::Postgres, 3).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&document()).await.expect("published");
    let crew = Crew::hire(&fleet, &acme.key);
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(acme.start("m", &json!({})).await.expect("started"));
    }
    let first = fleet.owner().await;
    let before: Vec<usize> =
        fleet.nodes.iter().map(|node| node.log().matches("shard taken").count()).collect();
    fleet.nodes[first].kill();
    let began = Instant::now();
    let second = loop {
        let took =
            |n: &usize| *n != first && fleet.nodes[*n].log().matches("shard taken").count() > before[*n];
        if let Some(second) = (0..3).find(took) {
            break second;
        }
        assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    fleet.nodes[second].pause();
    let third = 3 - first - second;
    let began = Instant::now();
    while fleet.owner().await != third {
        assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fleet.nodes[second].go_on();
    let owner = fleet.at(third, &acme);
    for id in &ids {
        assert_eq!(owner.ended(id).await.state(), Completed, "{id}");
        let outputs = owner.outputs(id).await;
        for (block, rows) in [("w", 1), ("i", 20), ("z", 1), ("end", 1)] {
            assert_eq!(outputs.iter().filter(|(b, ..)| b == block).count(), rows, "rows of {block} in {id}");
        }
    }
    drop(crew);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_together_with_the_control_plane_is_followed_when_that_is_back() {
    let mut fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&document()).await.expect("published");
    let _crew = Crew::hire(&fleet, &acme.key);
    let owner = fleet.owner().await;
    let other = fleet.at(1 - owner, &acme);
    fleet.known(&other).await;
    fleet.control.kill();
    fleet.nodes[owner].kill();
    // A node that stands by takes starts meanwhile.
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(other.start("m", &json!({})).await.expect("started"));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    fleet.control.up();
    for id in &ids {
        assert_eq!(other.ended(id).await.state(), Completed, "{id}");
    }
}
