//! A wait and the signal it waits for may race in any order; neither is lost (H03).

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use orch8_proto::v1::{self, InstanceState::Completed};
use serde_json::json;

use crate::rig::{PATIENCE, payload};

const RUNS: usize = 2_000;

#[tokio::test]
async fn two_thousand_gates_meet_two_thousand_answers() {
    let engine = crate::house().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "gate", "blocks": [
            {"type": "step", "id": "ask", "handler": "noop", "wait_for_input": {"prompt": "go?"}}
        ]}))
        .await
        .expect("published");
    let races = stream::iter(0..RUNS).map(|n| {
        let client = client.clone();
        async move {
            let id = client.start("gate", &json!({})).await.expect("started");
            tokio::time::sleep(Duration::from_micros((n as u64 * 7919) % 5_000)).await;
            let sent =
                client.signal(&id, "human_input:ask", &json!({"value": "yes"})).await.expect("accepted");
            assert!(!sent.duplicate);
            id
        }
    });
    let ids: Vec<String> = races.buffer_unordered(64).collect().await;
    let last_sent = Instant::now();
    let mut open = ids.clone();
    while !open.is_empty() {
        assert!(last_sent.elapsed() < PATIENCE, "{} of {RUNS} still wait", open.len());
        let mut still = Vec::new();
        for id in open {
            if client.instance(&id).await.state() != Completed {
                still.push(id);
            }
        }
        open = still;
    }
    let sample = client.outputs(&ids[0]).await;
    assert_eq!(sample.len(), 1, "each signal is consumed once: {sample:?}");
}

#[tokio::test]
async fn a_signal_sent_twice_is_consumed_once() {
    let engine = crate::house().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "twice", "blocks": [
            {"type": "step", "id": "first", "handler": "noop", "wait_for_input": {"prompt": "a"}},
            {"type": "step", "id": "second", "handler": "noop", "wait_for_input": {"prompt": "b"}}
        ]}))
        .await
        .expect("published");
    let id = client.start("twice", &json!({})).await.expect("started");
    let request = |name: &str| v1::SendSignalRequest {
        instance_id: id.clone(),
        signal_id: "s-1".into(),
        signal: Some(v1::send_signal_request::Signal::Custom(v1::CustomSignal {
            name: name.into(),
            payload: Some(payload(&json!({"value": "yes"}))),
        })),
        ..Default::default()
    };
    let first =
        client.signals().send_signal(request("human_input:first")).await.expect("accepted").into_inner();
    let again =
        client.signals().send_signal(request("human_input:second")).await.expect("known").into_inner();
    assert_eq!((first.duplicate, again.duplicate), (false, true));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let instance = client.instance(&id).await;
    assert_eq!(instance.state(), v1::InstanceState::Waiting);
    assert_eq!(instance.waits.iter().map(|w| w.block_id.as_str()).collect::<Vec<_>>(), ["second"]);
}

#[tokio::test]
async fn a_message_to_a_run_that_is_not_due_yet_does_not_start_it() {
    let mut engine = crate::house().await;
    let client = engine.client();
    let document = json!({"name": "later", "blocks": [{"type": "step", "id": "a", "handler": "log", "params": {"message": "{{data.n}}"}}]});
    client.publish(&document).await.expect("published");
    let due = std::time::SystemTime::now() + Duration::from_secs(4);
    let request = v1::StartInstanceRequest {
        sequence_name: "later".into(),
        data: Some(payload(&json!({"n": 1}))),
        next_fire_at: Some(due.into()),
        ..Default::default()
    };
    let id = client.instances().start_instance(request).await.expect("started").into_inner().instance_id;
    let update = v1::UpdateContextSignal { data: Some(payload(&json!({"n": 2}))) };
    let request = v1::SendSignalRequest {
        instance_id: id.clone(),
        signal: Some(v1::send_signal_request::Signal::UpdateContext(update)),
        ..Default::default()
    };
    client.signals().send_signal(request).await.expect("accepted");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.instance(&id).await.state(), v1::InstanceState::Scheduled);
    // Nor is it forgotten when the process is.
    engine.crash_and_restart().await;
    let client = engine.client();
    assert_eq!(client.ended(&id).await.state(), Completed);
    assert!(std::time::SystemTime::now() >= due, "it did not start before its time");
    let rows = client.outputs(&id).await;
    assert_eq!(rows[0].2, json!({"message": 2}));
}

#[tokio::test]
async fn a_sender_that_awaits_each_answer_keeps_its_order() {
    let engine = crate::house().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "gate", "blocks": [
            {"type": "step", "id": "ask", "handler": "log", "params": {"message": "{{data.last}}"}, "wait_for_input": {"prompt": "go?"}}
        ]}))
        .await
        .expect("published");
    for _ in 0..20 {
        let id = client.start("gate", &json!({})).await.expect("started");
        for n in 1..=10 {
            let update = v1::UpdateContextSignal { data: Some(payload(&json!({ "last": n }))) };
            let request = v1::SendSignalRequest {
                instance_id: id.clone(),
                signal: Some(v1::send_signal_request::Signal::UpdateContext(update)),
                ..Default::default()
            };
            client.signals().send_signal(request).await.expect("accepted");
        }
        client.signal(&id, "human_input:ask", &json!({"value": "yes"})).await.expect("accepted");
        assert_eq!(client.ended(&id).await.state(), Completed);
        assert_eq!(client.outputs(&id).await[0].2, json!({"message": 10}));
    }
}
