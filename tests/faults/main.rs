//! Processes that are killed, paused, told to leave, or started twice.

mod crash;
#[path = "../rig/mod.rs"]
mod rig;

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use orch8_proto::v1::{self, InstanceState::Completed};
use serde_json::{Value, json};

use crate::rig::{Client, Engine, ORCH8, PATIENCE, signal};

/// The last line that a demo prints for scripts.
fn last_line_of_the_demo(more: &[&str]) -> String {
    let output =
        Command::new(ORCH8).args(["demo", "--output", "json"]).args(more).output().expect("the demo runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said.lines().last().unwrap_or_default().to_owned()
}

const LINE: &str = r#"{"completed":2000,"partial":74,"full":4,"lost":0,"double":0}"#;

#[test]
fn two_thousand_flights_are_handled_exactly() {
    assert_eq!(last_line_of_the_demo(&[]), LINE);
}

#[test]
fn two_thousand_flights_are_handled_exactly_while_engine_and_worker_are_killed() {
    assert_eq!(last_line_of_the_demo(&["--kill"]), LINE);
}

/// `orch8 worker` with a shell command; killed when dropped.
struct ShellWorker(Child);

impl ShellWorker {
    fn start(engine: &Engine, handler: &str, command: &str) -> Self {
        let child = Command::new(ORCH8)
            .args(["worker", "--handler", handler, "--exec", command])
            .env("ORCH8_DIR", engine.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker");
        Self(child)
    }
}

impl Drop for ShellWorker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn in_flight(client: &Client, handler: &str) -> u64 {
    let listed = client.workers().list_handlers(v1::ListHandlersRequest::default()).await.expect("handlers");
    listed.into_inner().handlers.iter().find(|h| h.handler == handler).map_or(0, |h| h.in_flight)
}

#[tokio::test]
async fn a_worker_that_was_paused_beyond_its_lease_changes_nothing_when_it_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine =
        Engine::start_with(&folder.path().join("orch8"), &["--listen", "127.0.0.1:0", "--faster", "10"])
            .await;
    let client = engine.client();
    client
        .publish(&json!({"name": "z", "blocks": [{"type": "step", "id": "s", "handler": "slow"}]}))
        .await
        .expect("published");
    let first = ShellWorker::start(&engine, "slow", "cat >/dev/null; sleep 0.5; echo '{\"by\":\"first\"}'");
    let id = client.start("z", &json!({})).await.expect("started");
    until("the first worker takes the step", async || in_flight(&client, "slow").await == 1).await;
    signal("STOP", first.0.id());
    let _second = ShellWorker::start(&engine, "slow", "cat >/dev/null; sleep 4; echo '{\"by\":\"second\"}'");
    // The lease of the first, 2 s here, passes; the second has the step in hand when the first wakes up and reports.
    tokio::time::sleep(Duration::from_secs(4)).await;
    signal("CONT", first.0.id());
    let ended = client.ended(&id).await;
    assert_eq!(ended.state(), Completed);
    let rows: Vec<Value> = client.outputs(&id).await.into_iter().map(|(_, _, output)| output).collect();
    assert_eq!(rows, [json!({"by": "second"})], "one accepted result, and it is the newer delivery's");
}

#[tokio::test]
async fn a_step_that_runs_while_the_engine_is_killed_is_finished_once() {
    let mut engine = Engine::start().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "k", "blocks": [{"type": "step", "id": "s", "handler": "slow"}]}))
        .await
        .expect("published");
    let ledger = engine.dir().join("ledger");
    let command =
        format!("cat >/dev/null; sleep 3; echo $ORCH8_IDEMPOTENCY_KEY >> {}; echo '{{}}'", ledger.display());
    let worker = ShellWorker::start(&engine, "slow", &command);
    let id = client.start("k", &json!({})).await.expect("started");
    until("the worker takes the step", async || in_flight(&client, "slow").await == 1).await;
    let address = engine.address();
    engine.kill();
    // The worker knows one address: the next process has to be there.
    let listen = address.trim_start_matches("http://").to_owned();
    let next = Engine::start_with(engine.dir(), &["--listen", &listen]).await;
    assert_eq!(next.client().ended(&id).await.state(), Completed);
    let effects = std::fs::read_to_string(ledger).expect("a ledger");
    assert_eq!(effects.lines().count(), 1, "the worker kept its step over the take-over: {effects}");
    drop(worker);
}

// The clients go on while this thread waits for the process.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_told_to_leave_leaves_at_once_and_loses_nothing() {
    let mut engine = Engine::start().await;
    let client = engine.client();
    client.publish(&json!({"name": "l", "blocks": [
        {"type": "step", "id": "g", "handler": "noop", "wait_for_input": {"prompt": "go?"}}, {"type": "step", "id": "w", "handler": "work"}
    ]})).await.expect("published");
    let id = client.start("l", &json!({})).await.expect("started");
    let _worker = ShellWorker::start(&engine, "work", "cat");
    let watch = v1::WatchInstanceRequest { instance_id: id.clone(), ..Default::default() };
    let mut watched = client.instances().watch_instance(watch).await.expect("a stream").into_inner();
    assert!(watched.message().await.expect("a message").is_some());
    until("the worker is there", async || {
        let listed =
            client.workers().list_sessions(v1::ListSessionsRequest::default()).await.expect("sessions");
        !listed.into_inner().sessions.is_empty()
    })
    .await;
    let (took, status) = engine.terminate();
    assert!(status.success(), "{status}: {}", engine.log());
    assert!(took < Duration::from_secs(4), "open streams held it for {took:?}");
    let end = loop {
        match watched.message().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    let refused = end.expect_err("a watch that is cut says why");
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");

    let listen = engine.address().trim_start_matches("http://").to_owned();
    let next = Engine::start_with(engine.dir(), &["--listen", &listen]).await;
    let client = next.client();
    client.signal(&id, "human_input:g", &json!({"value": "yes"})).await.expect("accepted");
    assert_eq!(client.ended(&id).await.state(), Completed);
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused_in_one_line() {
    let engine = Engine::start().await;
    let second = Command::new(ORCH8)
        .args(["dev", "--listen", "127.0.0.1:0", "--dir"])
        .arg(engine.dir())
        .stdin(Stdio::null())
        .output()
        .expect("orch8 runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(said.contains("in use by another process"), "{said}");
    let client = engine.client();
    client
        .publish(&json!({"name": "q", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("the first goes on");
}

#[tokio::test]
async fn a_small_tenant_does_not_wait_behind_ten_thousand_starts() {
    let engine = Engine::start().await;
    let (big, small) = (engine.tenant("big").await, engine.tenant("small").await);
    let document = json!({"name": "q", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]});
    big.publish(&document).await.expect("published");
    small.publish(&document).await.expect("published");
    let item = v1::StartInstanceRequest { sequence_name: "q".into(), ..Default::default() };
    let batch = v1::StartInstancesRequest { instances: vec![item; 10_000], ..Default::default() };
    let started = big.instances().start_instances(batch).await.expect("started").into_inner();
    let id = small.start("q", &json!({})).await.expect("started");
    small.ended(&id).await;
    let filter =
        v1::ListInstancesRequest { states: vec![Completed.into()], page_size: 500, ..Default::default() };
    let mut done = 0;
    let mut page_token = String::new();
    loop {
        let page = big
            .instances()
            .list_instances(v1::ListInstancesRequest { page_token, ..filter.clone() })
            .await
            .expect("a page")
            .into_inner();
        done += page.instances.len();
        page_token = page.next_page_token;
        if page_token.is_empty() || done > 9_000 {
            break;
        }
    }
    assert!(done < 9_000, "the small one came after {done} of the big tenant's {}", started.count);
}

#[tokio::test]
async fn one_instance_that_cannot_be_read_does_not_stop_its_neighbours() {
    use sqlx::ConnectOptions as _;
    let mut engine = Engine::start().await;
    let client = engine.client();
    let gate = json!({"name": "g", "blocks": [{"type": "step", "id": "g", "handler": "noop", "wait_for_input": {"prompt": "go?"}}]});
    client.publish(&gate).await.expect("published");
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(client.start("g", &json!({})).await.expect("started"));
    }
    until("all wait", async || {
        let filter = v1::ListInstancesRequest {
            states: vec![v1::InstanceState::Waiting.into()],
            ..Default::default()
        };
        client.instances().list_instances(filter).await.expect("a page").into_inner().instances.len() == 12
    })
    .await;
    engine.kill();
    let bad = uuid::Uuid::parse_str(&ids[0]).expect("an id");
    let store = sqlx::sqlite::SqliteConnectOptions::new().filename(engine.dir().join("store.db"));
    let mut store = store.connect().await.expect("the store");
    let done = sqlx::query("UPDATE journal SET body = '{' WHERE instance_id = ?")
        .bind(bad.as_bytes().to_vec())
        .execute(&mut store)
        .await
        .expect("spoilt");
    assert_eq!(done.rows_affected(), 1);
    sqlx::Connection::close(store).await.expect("closed");

    engine.crash_and_restart().await;
    let client = engine.client();
    for id in &ids[1..] {
        client.signal(id, "human_input:g", &json!({"value": "yes"})).await.expect("accepted");
        assert_eq!(client.ended(id).await.state(), Completed);
    }
    assert!(engine.log().contains("instance left alone"), "and the operator is told");
}
