//! Another tenant's things and things that are not there answer the same bytes.

use futures::StreamExt;
use orch8_proto::v1::{self, session_request::Frame, session_response::Frame as Answer};
use prost::Message;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::{
    baseline::{Baseline, NOBODY},
    methods, owed, path_of,
    raw::Raw,
    rig::{Client, Engine, PATIENCE, payload},
};

type Bytes<'a> = (Code, &'a str, &'a [u8]);

fn bytes(status: &Status) -> Bytes<'_> {
    (status.code(), status.message(), status.details())
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_missing_are_the_same_bytes() {
    let engine = Engine::start().await;
    let baseline = Baseline::make(&engine).await;
    let other = engine.tenant("other").await;
    let raw = Raw::connect(&engine.address());
    let mut asked = 0;
    for method in methods() {
        let path = path_of(&method);
        for (foreign, missing) in foreign_and_missing(&baseline, method.name()) {
            let foreign = raw.call(&method, &other.key, vec![foreign]).await.expect_err("foreign");
            let missing = raw.call(&method, &other.key, vec![missing]).await.expect_err("missing");
            owed(&path, &foreign);
            assert_eq!(bytes(&foreign), bytes(&missing), "{path}");
            asked += 1;
        }
    }
    assert_eq!(asked, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_exists_is_refused_like_one_that_does_not() {
    let engine = Engine::start().await;
    engine.tenant("other").await;
    let baseline = Baseline::make(&engine).await;
    let raw = Raw::connect(&engine.address());
    let mut asked = 0;
    for method in methods() {
        let path = path_of(&method);
        let Some(field) = method.input().get_field_by_name("tenant_id") else { continue };
        for good in baseline.requests(&path).iter().filter(|good| good.key == engine.key("client")) {
            let mut refusals = Vec::new();
            for tenant in ["other", "nobody"] {
                let message = good.messages[0].as_slice();
                let mut message =
                    prost_reflect::DynamicMessage::decode(method.input(), message).expect("good");
                message.set_field(&field, prost_reflect::Value::String(tenant.into()));
                let call = raw.call(&method, &good.key, vec![message.encode_to_vec()]).await;
                refusals.push(call.expect_err("another tenant"));
            }
            assert_eq!(owed(&path, &refusals[0]), orch8_model::Reason::TenantMismatch, "{path}");
            assert_eq!(bytes(&refusals[0]), bytes(&refusals[1]), "{path}");
            asked += 1;
        }
    }
    assert!(asked > 12, "{asked} asked");
}

/// Requests about something of `dev`'s and the same about nothing, for RPCs that look one thing up.
fn foreign_and_missing(baseline: &Baseline, rpc: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (run, sequence, nobody) = (baseline.instance.as_str(), baseline.sequence.as_str(), NOBODY);
    let pair = |make: &dyn Fn(String) -> Vec<u8>, real: &str, missing: &str| {
        vec![(make(real.to_owned()), make(missing.to_owned()))]
    };
    match rpc {
        "GetSequence" => {
            let by_id = |sequence_id| v1::GetSequenceRequest { sequence_id, ..Default::default() };
            let by_name = |name| v1::GetSequenceRequest { name, ..Default::default() };
            let mut both = pair(&|id| by_id(id).encode_to_vec(), sequence, nobody);
            both.extend(pair(&|name| by_name(name).encode_to_vec(), "still", "nothing"));
            both
        }
        "StartInstance" => {
            let by_id = |sequence_id| v1::StartInstanceRequest { sequence_id, ..Default::default() };
            let by_name = |sequence_name| v1::StartInstanceRequest { sequence_name, ..Default::default() };
            let mut both = pair(&|id| by_id(id).encode_to_vec(), sequence, nobody);
            both.extend(pair(&|name| by_name(name).encode_to_vec(), "still", "nothing"));
            both
        }
        "GetInstance" => pair(
            &|instance_id| v1::GetInstanceRequest { instance_id, ..Default::default() }.encode_to_vec(),
            run,
            nobody,
        ),
        "GetTimeline" => pair(
            &|instance_id| v1::GetTimelineRequest { instance_id, ..Default::default() }.encode_to_vec(),
            run,
            nobody,
        ),
        "GetOutputs" => pair(
            &|instance_id| v1::GetOutputsRequest { instance_id, ..Default::default() }.encode_to_vec(),
            run,
            nobody,
        ),
        "WatchInstance" => pair(
            &|instance_id| v1::WatchInstanceRequest { instance_id, ..Default::default() }.encode_to_vec(),
            run,
            nobody,
        ),
        "CancelInstance" => pair(
            &|instance_id| v1::CancelInstanceRequest { instance_id, ..Default::default() }.encode_to_vec(),
            run,
            nobody,
        ),
        "SendSignal" => pair(
            &|instance_id| {
                let signal = Some(v1::send_signal_request::Signal::Pause(v1::PauseSignal {}));
                v1::SendSignalRequest { instance_id, signal, ..Default::default() }.encode_to_vec()
            },
            run,
            nobody,
        ),
        "ListInstances" => pair(
            &|page_token| v1::ListInstancesRequest { page_token, ..Default::default() }.encode_to_vec(),
            &baseline.page_token,
            "AAAA",
        ),
        _ => Vec::new(),
    }
}

/// A task is known by its lease; the lease of another tenant's is as good as an invented one.
#[tokio::test(flavor = "multi_thread")]
async fn the_task_of_another_tenant_cannot_be_touched() {
    let engine = Engine::start().await;
    let other = engine.tenant("other").await;
    let dev = engine.client();
    let document = json!({"name": "work", "blocks": [{"type": "step", "id": "s", "handler": "h"}]});
    dev.publish(&document).await.expect("published");
    let run = dev.start("work", &json!({})).await.expect("started");

    let mut owner = Session::open(&Client::new(&engine.address(), &engine.key("worker")), hello()).await;
    owner.say(Frame::Credit(v1::Credit { lane: "main".into(), tasks: 1, bytes: 0 })).await;
    let task = loop {
        if let Answer::Dispatch(dispatch) = owner.hear().await {
            break dispatch.tasks.into_iter().next().expect("a task");
        }
    };
    let (lease, route) = (task.lease.expect("a lease"), task.route.expect("a route"));
    let invented = v1::Lease { task_id: NOBODY.into(), ..lease.clone() };

    let foreign = touched(&other, lease.clone(), route).await;
    let missing = touched(&other, invented, route).await;
    assert_eq!(foreign, missing);

    owner.say(Frame::Results(v1::Results { results: vec![result(lease, route)] })).await;
    let status = loop {
        if let Answer::ResultAcks(acks) = owner.hear().await {
            break acks.acks[0].status();
        }
    };
    assert_eq!(status, v1::ResultStatus::Committed, "the owner's lease still stands");
    assert_eq!(dev.ended(&run).await.state(), v1::InstanceState::Completed);
}

/// Everything a worker can say about a lease, and what it is answered, without the lease.
async fn touched(worker: &Client, lease: v1::Lease, route: v1::Route) -> Vec<(i32, String)> {
    let held = v1::HeldTask { lease: Some(lease.clone()), route: Some(route) };
    let returning = v1::Hello {
        running: vec![held.clone()],
        unacknowledged: vec![result(lease.clone(), route)],
        ..hello()
    };
    let mut session = Session::open(worker, returning).await;
    let Some(welcome) = session.welcome.take() else { panic!("no welcome") };
    let mut answers: Vec<_> = welcome.held.into_iter().map(|held| (held.state, String::new())).collect();
    answers.extend(welcome.acks.into_iter().map(|ack| (ack.status, ack.message)));
    let (seq, checkpoint) = (1, Some(payload(&json!({}))));
    let progress = v1::Progress { lease: Some(lease.clone()), route: Some(route), seq, checkpoint };
    session.say(Frame::Progress(progress)).await;
    session.say(Frame::Release(v1::Release { tasks: vec![held] })).await;
    session.say(Frame::Results(v1::Results { results: vec![result(lease, route)] })).await;
    loop {
        if let Answer::ResultAcks(acks) = session.hear().await {
            answers.extend(acks.acks.into_iter().map(|ack| (ack.status, ack.message)));
            return answers;
        }
    }
}

fn hello() -> v1::Hello {
    v1::Hello {
        worker_id: "w".into(),
        instance_nonce: "n".into(),
        lanes: vec![v1::Lane { name: "main".into(), handlers: vec!["h".into()] }],
        ..Default::default()
    }
}

fn result(lease: v1::Lease, route: v1::Route) -> v1::TaskResult {
    let outcome = Some(v1::task_result::Outcome::Completed(payload(&json!({"ok": true}))));
    v1::TaskResult { lease: Some(lease), route: Some(route), outcome }
}

/// A worker's stream, frame by frame.
struct Session {
    say: mpsc::Sender<v1::SessionRequest>,
    answers: Streaming<v1::SessionResponse>,
    welcome: Option<v1::Welcome>,
}

impl Session {
    async fn open(worker: &Client, hello: v1::Hello) -> Self {
        let (say, frames) = mpsc::channel(8);
        say.send(v1::SessionRequest { frame: Some(Frame::Hello(hello)) }).await.expect("room");
        let answers = worker.workers().session(ReceiverStream::new(frames)).await.expect("a session");
        let mut session = Self { say, answers: answers.into_inner(), welcome: None };
        match session.hear().await {
            Answer::Welcome(welcome) => session.welcome = Some(welcome),
            other => panic!("no welcome but {other:?}"),
        }
        session
    }

    async fn say(&self, frame: Frame) {
        self.say.send(v1::SessionRequest { frame: Some(frame) }).await.expect("a session");
    }

    async fn hear(&mut self) -> Answer {
        let next = tokio::time::timeout(PATIENCE, self.answers.next()).await.expect("an answer in time");
        next.expect("a frame").expect("a frame").frame.expect("a known frame")
    }
}
