//! A join waits for all, of none and of six thousand (H17).

use orch8_proto::v1::InstanceState::Completed;
use serde_json::{Value, json};
use tonic::Code;

use crate::{rig::PATIENCE, workers::Counting};

#[tokio::test]
async fn a_join_over_six_thousand_branches_is_exact() {
    let engine = crate::house().await;
    let client = engine.tenant("wide").await;
    client
        .publish(&json!({"name": "wide", "blocks": [
            {"type": "for_each", "id": "each", "collection": "items", "max_iterations": 6000, "concurrency": 100,
             "body": [{"type": "step", "id": "one", "handler": "index", "params": {"i": "{{item}}"}, "merge_output": false}]}
        ]}))
        .await
        .expect("published");
    let worker = Counting::start(&client, "index", |_, input: Value| async move { Ok(input["i"].clone()) });
    for size in [0_u64, 1, 6_000] {
        let before = worker.runs();
        let items: Vec<u64> = (0..size).collect();
        let id = client.start("wide", &json!({ "items": items })).await.expect("started");
        assert_eq!(client.ended_within(&id, 4 * PATIENCE).await.state(), Completed);
        let rows = client.outputs(&id).await;
        let joined = rows.iter().find(|(block, ..)| block == "each").expect("the join has a row");
        assert_eq!(joined.2["results"], json!(items), "results stand in item order");
        let accepted = rows.iter().filter(|(block, ..)| block == "one").count();
        assert_eq!(accepted as u64, size, "one accepted result for each item");
        // A machine that holds a worker up for longer than an acknowledgement may take costs a run, never a result.
        assert!(worker.runs() - before >= size);
    }
}

#[tokio::test]
async fn a_parallel_without_branches_is_refused() {
    let engine = crate::house().await;
    let document = json!({"name": "p", "blocks": [{"type": "parallel", "id": "p", "branches": []}]});
    let refused = engine.client().publish(&document).await.expect_err("no branches");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("/blocks/0/branches"), "{refused:?}");
}
