//! What is in the middle of something when the process is killed.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use orch8_proto::v1::{
    self,
    InstanceState::{Cancelled, Completed},
};
use serde_json::{Value, json};

use crate::{
    ShellWorker,
    rig::{Client, Engine, payload},
    until,
};

/// Processor time that a process has used. Linux only: elsewhere nothing is known.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // A tick is a hundredth of a second wherever Linux runs today.
    Some(Duration::from_millis(ticks * 10))
}

/// An idle process may look around, it may not be busy: a tenth of one core is far more than looking costs.
async fn assert_idle(engine: &Engine, what: &str) {
    let span = Duration::from_secs(3);
    let Some(before) = processor_time(engine.pid()) else { return };
    tokio::time::sleep(span).await;
    let used = processor_time(engine.pid()).expect("still there") - before;
    assert!(used < span / 10, "{what}: {used:?} of processor time in {span:?}");
}

fn noop(id: &str) -> Value {
    json!({"type": "step", "id": id, "handler": "noop"})
}

#[tokio::test]
async fn a_loop_longer_than_a_turn_goes_on_after_a_crash() {
    let mut engine = Engine::start().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "l", "blocks": [
            {"type": "loop", "id": "l", "condition": "true", "max_iterations": 10_000, "body": [noop("a")]}
        ]}))
        .await
        .expect("published");
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(client.start("l", &json!({})).await.expect("started"));
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        engine.crash_and_restart().await;
    }
    for id in &ids {
        assert_eq!(engine.client().ended(id).await.state(), Completed);
    }
}

#[tokio::test]
async fn a_run_that_ended_before_its_start_leaves_nothing_that_keeps_its_owner_busy() {
    let mut engine = Engine::start().await;
    let client = engine.client();
    client.publish(&json!({"name": "n", "blocks": [noop("a")]})).await.expect("published");
    let at = std::time::SystemTime::now() + Duration::from_secs(4);
    let request = v1::StartInstanceRequest {
        sequence_name: "n".into(),
        next_fire_at: Some(at.into()),
        ..Default::default()
    };
    let id = client.instances().start_instance(request).await.expect("started").into_inner().instance_id;
    // A message before the start is a turn before the start.
    client.signal(&id, "hello", &json!({})).await.expect("accepted");
    tokio::time::sleep(Duration::from_millis(500)).await;
    engine.crash_and_restart().await;
    let client = engine.client();
    let request = v1::CancelInstanceRequest { instance_id: id.clone(), ..Default::default() };
    client.instances().cancel_instance(request).await.expect("accepted");
    assert_eq!(client.ended(&id).await.state(), Cancelled);
    tokio::time::sleep(at.duration_since(std::time::SystemTime::now()).unwrap_or_default()).await;
    assert_idle(&engine, "its start fell due").await;
}

#[tokio::test]
async fn ten_thousand_sleeping_runs_cost_no_processor_time_and_come_back_soon() {
    let mut engine = Engine::start().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "s", "blocks": [
            {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 3_600_000}}
        ]}))
        .await
        .expect("published");
    let item = v1::StartInstanceRequest { sequence_name: "s".into(), ..Default::default() };
    let batch = v1::StartInstancesRequest { instances: vec![item; 10_000], ..Default::default() };
    client.instances().start_instances(batch).await.expect("started");
    until("nobody waits for a start", async || {
        let filter = v1::ListInstancesRequest {
            states: vec![v1::InstanceState::Scheduled.into()],
            ..Default::default()
        };
        client.instances().list_instances(filter).await.expect("a page").into_inner().instances.is_empty()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_idle(&engine, "ten thousand sleep").await;
    let began = Instant::now();
    engine.crash_and_restart().await;
    let client = engine.client();
    client.publish(&json!({"name": "n", "blocks": [noop("a")]})).await.expect("published");
    let id = client.start("n", &json!({})).await.expect("started");
    client.ended(&id).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "a start waited {took:?} behind the recovery of others");
}

const KILLS: usize = 10;
/// Long enough that something of every kind is under way at each kill.
const BETWEEN: Duration = Duration::from_millis(700);

/// Everything at once: pure steps, a loop of several turns, a short sleep, a worker's step, a gate.
fn mixed() -> Value {
    json!({"name": "m", "blocks": [
        noop("begin"),
        {"type": "parallel", "id": "p", "branches": [
            [{"type": "loop", "id": "l", "condition": "true", "max_iterations": 600, "body": [noop("i")]}],
            [{"type": "step", "id": "z", "handler": "sleep", "params": {"duration_ms": 400}},
             {"type": "step", "id": "w", "handler": "work"}],
            [{"type": "step", "id": "g", "handler": "noop", "wait_for_input": {"prompt": "go?"}}],
        ]},
        {"type": "step", "id": "end", "handler": "work"}
    ]})
}

/// What was acknowledged.
#[derive(Default)]
struct Said {
    started: Vec<String>,
    answered: HashSet<String>,
    cancelled: HashSet<String>,
}

impl Said {
    /// One round of everything; what is refused or not answered was not promised, except that a start has a key and a
    /// signal an id, so both are simply said again.
    async fn speak(&mut self, client: &Client, round: usize) {
        let request = v1::StartInstanceRequest {
            sequence_name: "m".into(),
            idempotency_key: format!("start-{round}"),
            ..Default::default()
        };
        if let Ok(started) = client.instances().start_instance(request).await {
            let id = started.into_inner().instance_id;
            if !self.started.contains(&id) {
                self.started.push(id);
            }
        }
        let waiting: Vec<String> = self
            .started
            .iter()
            .rev()
            .skip(3)
            .filter(|id| !self.answered.contains(*id))
            .take(2)
            .cloned()
            .collect();
        for id in waiting {
            self.answer(client, &id).await;
        }
        if round.is_multiple_of(7)
            && let Some(id) = self.started.last().cloned()
        {
            let request = v1::CancelInstanceRequest { instance_id: id.clone(), ..Default::default() };
            if client.instances().cancel_instance(request).await.is_ok() {
                self.cancelled.insert(id);
            }
        }
    }

    async fn answer(&mut self, client: &Client, id: &str) {
        let custom = v1::CustomSignal {
            name: "human_input:g".into(),
            payload: Some(payload(&json!({"value": "yes"}))),
        };
        let request = v1::SendSignalRequest {
            instance_id: id.to_owned(),
            signal_id: format!("answer-{id}"),
            signal: Some(v1::send_signal_request::Signal::Custom(custom)),
            ..Default::default()
        };
        match client.signals().send_signal(request).await {
            Ok(_) => drop(self.answered.insert(id.to_owned())),
            Err(refused) if refused.code() == tonic::Code::FailedPrecondition => {
                assert!(self.cancelled.contains(id), "{id} ended by itself: {refused:?}");
                self.answered.insert(id.to_owned());
            }
            Err(_) => {}
        }
    }
}

#[tokio::test]
async fn nothing_that_was_acknowledged_is_lost_over_ten_kills() {
    let mut engine = Engine::start().await;
    engine.client().publish(&mixed()).await.expect("published");
    let ledger = engine.dir().join("ledger");
    let command = format!(
        "cat >/dev/null; echo $ORCH8_IDEMPOTENCY_KEY $$ >> {}; sleep 0.2; echo \"{{\\\"key\\\":\\\"$ORCH8_IDEMPOTENCY_KEY\\\",\\\"run\\\":$$}}\"",
        ledger.display()
    );
    let worker = ShellWorker::start(&engine, "work", &command);
    let listen = engine.address().trim_start_matches("http://").to_owned();
    let dir = engine.dir().to_owned();
    let (mut said, mut round) = (Said::default(), 0);
    let mut next: Option<Engine> = None;
    for _ in 0..KILLS {
        let client = next.as_ref().unwrap_or(&engine).client();
        let until = Instant::now() + BETWEEN;
        while Instant::now() < until {
            round += 1;
            said.speak(&client, round).await;
        }
        next.as_mut().unwrap_or(&mut engine).kill();
        next = Some(Engine::start_with(&dir, &["--listen", &listen]).await);
    }
    let client = next.as_ref().expect("the last one").client();
    for id in said.started.clone() {
        until("the answer is accepted", async || {
            said.answer(&client, &id).await;
            said.answered.contains(&id)
        })
        .await;
    }
    assert!(said.started.len() > 2 * KILLS, "only {} were started", said.started.len());
    let mut accepted: HashMap<String, i64> = HashMap::new();
    for id in &said.started {
        let ended = client.ended_within(id, Duration::from_secs(45)).await;
        let outputs = client.outputs(id).await;
        if said.cancelled.contains(id) {
            assert_eq!(ended.state(), Cancelled, "an accepted cancel wins: {id}");
        } else {
            assert_eq!(ended.state(), Completed, "{id}");
            for (block, rows) in [("i", 600), ("z", 1), ("w", 1), ("g", 1), ("end", 1)] {
                let found = outputs.iter().filter(|(b, ..)| b == block).count();
                assert_eq!(found, rows, "rows of {block} in {id}");
            }
        }
        for (_, _, output) in outputs.iter().filter(|(block, ..)| block == "w" || block == "end") {
            let key = output["key"].as_str().expect("a key").to_owned();
            assert!(accepted.insert(key, output["run"].as_i64().expect("a run")).is_none(), "a key twice");
        }
    }
    let mut last: HashMap<String, i64> = HashMap::new();
    for line in std::fs::read_to_string(&ledger).expect("a ledger").lines() {
        let (key, run) = line.split_once(' ').expect("two words");
        last.insert(key.to_owned(), run.parse().expect("a number"));
    }
    for (key, run) in &accepted {
        assert_eq!(last.get(key), Some(run), "{key} ran again after its result was accepted");
    }
    drop(worker);
}
