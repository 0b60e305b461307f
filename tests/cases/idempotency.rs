//! Concurrent starts with one key make one run, and everybody is told which (H11).

use std::collections::BTreeSet;

use futures::future::join_all;
use orch8_proto::v1;
use serde_json::json;
use tonic::Code;

use crate::rig::{Client, payload, reason};

fn request(key: &str, n: u32) -> v1::StartInstanceRequest {
    v1::StartInstanceRequest {
        sequence_name: "quick".into(),
        data: Some(payload(&json!({ "n": n }))),
        idempotency_key: key.into(),
        ..Default::default()
    }
}

async fn start(client: &Client, key: &str, n: u32) -> Result<v1::StartInstanceResponse, tonic::Status> {
    client.instances().start_instance(request(key, n)).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn sixty_four_starts_with_one_key_are_one_run() {
    let engine = crate::house().await;
    let (client, other) = (engine.client(), engine.tenant("other").await);
    let document = json!({"name": "quick", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]});
    client.publish(&document).await.expect("published");
    other.publish(&document).await.expect("published");

    let answers = join_all((0..64).map(|_| start(&client, "order-1", 1))).await;
    let answers: Vec<_> = answers.into_iter().map(|a| a.expect("every caller is answered OK")).collect();
    let ids: BTreeSet<&str> = answers.iter().map(|a| a.instance_id.as_str()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|a| !a.deduplicated).count(), 1);
    let first = answers[0].instance_id.clone();

    let refused = start(&client, "order-1", 2).await.expect_err("other content");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::AlreadyExists, "IDEMPOTENCY_MISMATCH"));
    use tonic_types::StatusExt;
    let info = refused.get_details_error_info().expect("details");
    assert_eq!(info.metadata["existing_id"], first);

    let elsewhere = start(&other, "order-1", 1).await.expect("a tenant's keys are its own");
    assert_ne!(elsewhere.instance_id, first);

    client.ended(&first).await;
    let after = start(&client, "order-1", 1).await.expect("the key outlives the run");
    assert_eq!((after.instance_id.as_str(), after.deduplicated), (first.as_str(), true));
}

#[tokio::test]
async fn a_batch_is_started_whole_or_not_at_all() {
    let engine = crate::house().await;
    let client = engine.client();
    let document = json!({"name": "quick", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]});
    client.publish(&document).await.expect("published");
    start(&client, "taken", 1).await.expect("started");
    let batch = |items| v1::StartInstancesRequest { instances: items, ..Default::default() };

    let empty =
        client.instances().start_instances(batch(vec![])).await.expect("nothing is fine").into_inner();
    assert_eq!(empty.count, 0);
    let refused =
        client.instances().start_instances(batch(vec![request("free", 1), request("taken", 2)])).await;
    assert_eq!(refused.expect_err("one is bad").code(), Code::AlreadyExists);
    let missing = v1::StartInstanceRequest { sequence_name: "nosuch".into(), ..Default::default() };
    let refused = client.instances().start_instances(batch(vec![request("free", 1), missing])).await;
    assert_eq!(refused.expect_err("one is bad").code(), Code::NotFound);
    let free = start(&client, "free", 1).await.expect("still free");
    assert!(!free.deduplicated, "nothing of a refused batch was stored");
}
