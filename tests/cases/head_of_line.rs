//! A batch made only of dead rows must not be read again and again in front of a live one (H02).

use std::time::Instant;

use orch8_proto::v1::{self, InstanceState::Cancelled};
use serde_json::json;

use crate::rig::{PATIENCE, payload};

#[tokio::test]
async fn a_thousand_cancelled_runs_do_not_stand_in_front_of_a_live_one() {
    let engine = crate::house().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "wait", "blocks": [
            {"type": "step", "id": "gate", "handler": "sleep", "params": {"duration_ms": 3_600_000}}
        ]}))
        .await
        .expect("published");
    client
        .publish(&json!({"name": "quick", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");
    let item = v1::StartInstanceRequest {
        sequence_name: "wait".into(),
        data: Some(payload(&json!({}))),
        ..Default::default()
    };
    let request = v1::StartInstancesRequest { instances: vec![item; 1000], ..Default::default() };
    let started = client.instances().start_instances(request).await.expect("started").into_inner();
    let cancels = started.items.iter().map(|item| {
        let client = client.clone();
        async move {
            let request =
                v1::CancelInstanceRequest { instance_id: item.instance_id.clone(), ..Default::default() };
            client.instances().cancel_instance(request).await.expect("cancelled");
        }
    });
    let live = client.start("quick", &json!({})).await.expect("started");
    let began = Instant::now();
    futures::future::join_all(cancels).await;
    assert_eq!(client.ended(&live).await.state(), v1::InstanceState::Completed);
    for item in &started.items {
        assert_eq!(client.ended(&item.instance_id).await.state(), Cancelled);
    }
    assert!(began.elapsed() < PATIENCE);
}
