//! Cancel against completion: whoever was accepted stays right for ever (H14).

use std::time::Duration;

use futures::{StreamExt, stream};
use orch8_proto::v1::{self, InstanceState};
use serde_json::{Value, json};
use tonic::Code;

use crate::{rig::reason, workers::Counting};

const RUNS: usize = 1_000;

#[tokio::test]
async fn an_accepted_cancel_is_never_a_completion() {
    let engine = crate::house().await;
    let client = engine.tenant("racer").await;
    client
        .publish(&json!({"name": "race", "blocks": [
            {"type": "step", "id": "last", "handler": "finish", "merge_output": false}
        ]}))
        .await
        .expect("published");
    let _worker = Counting::start(&client, "finish", |_, _: Value| async { Ok(json!({"done": true})) });

    let races = stream::iter(0..RUNS).map(|n| {
        let client = client.clone();
        async move {
            let id = client.start("race", &json!({})).await.expect("started");
            tokio::time::sleep(Duration::from_micros((n as u64 * 104_729) % 40_000)).await;
            let request = v1::CancelInstanceRequest { instance_id: id.clone(), ..Default::default() };
            let cancelled = match client.instances().cancel_instance(request).await {
                Ok(_) => true,
                Err(status) => {
                    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
                    assert_eq!(reason(&status), "INSTANCE_TERMINAL");
                    false
                }
            };
            (id, cancelled)
        }
    });
    let raced: Vec<(String, bool)> = races.buffer_unordered(32).collect().await;
    for (id, cancelled) in &raced {
        let expected = if *cancelled { InstanceState::Cancelled } else { InstanceState::Completed };
        assert_eq!(client.ended(id).await.state(), expected, "{id}");
    }
    let cancelled = raced.iter().filter(|(_, cancelled)| *cancelled).count();
    assert!(cancelled > 0 && cancelled < RUNS, "both outcomes were raced: {cancelled} of {RUNS} cancelled");
}
