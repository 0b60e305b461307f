//! Pages over rows that share a time: all of them, none twice, while more arrive (H34).

use std::collections::BTreeSet;

use orch8_proto::v1;
use serde_json::json;
use tonic::Code;

use crate::rig::{Client, payload, reason};

async fn start_many(client: &Client, count: usize) -> Vec<String> {
    let item = v1::StartInstanceRequest {
        sequence_name: "sleepy".into(),
        data: Some(payload(&json!({}))),
        ..Default::default()
    };
    let request = v1::StartInstancesRequest { instances: vec![item; count], ..Default::default() };
    let started = client.instances().start_instances(request).await.expect("started").into_inner();
    started.items.into_iter().map(|item| item.instance_id).collect()
}

fn list(page_size: i32, page_token: &str) -> v1::ListInstancesRequest {
    v1::ListInstancesRequest {
        sequence_name: "sleepy".into(),
        page_size,
        page_token: page_token.into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn pages_of_seven_hold_each_of_a_thousand_rows_once() {
    let engine = crate::house().await;
    let (client, other) = (engine.client(), engine.tenant("other").await);
    let document = json!({"name": "sleepy", "blocks": [
        {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 3_600_000}}
    ]});
    client.publish(&document).await.expect("published");
    other.publish(&document).await.expect("published");
    let ids: BTreeSet<String> = start_many(&client, 1_000).await.into_iter().collect();
    start_many(&other, 20).await;

    let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = client.instances().list_instances(list(7, &token)).await.expect("a page").into_inner();
        assert!(page.instances.len() <= 7);
        seen.extend(page.instances.into_iter().map(|i| i.instance_id));
        pages += 1;
        if pages == 10 {
            start_many(&client, 50).await;
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let unique: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "no row stands on two pages");
    assert!(ids.is_subset(&unique), "every row stands on a page");
}

#[tokio::test]
async fn a_page_token_is_good_for_its_own_query_only() {
    let engine = crate::house().await;
    let (client, other) = (engine.client(), engine.tenant("other").await);
    let document = json!({"name": "sleepy", "blocks": [
        {"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": 3_600_000}}
    ]});
    client.publish(&document).await.expect("published");
    other.publish(&document).await.expect("published");
    start_many(&client, 5).await;
    start_many(&other, 5).await;
    let token =
        client.instances().list_instances(list(2, "")).await.expect("a page").into_inner().next_page_token;

    let truncated = &token[..token.len() / 2];
    for bad in ["garbage", "%%%", truncated, "AAAA"] {
        let refused = client.instances().list_instances(list(2, bad)).await.expect_err("a bad token");
        assert_eq!(
            (refused.code(), reason(&refused).as_str()),
            (Code::InvalidArgument, "BAD_PAGE_TOKEN"),
            "{bad}"
        );
    }
    let foreign =
        other.instances().list_instances(list(2, &token)).await.expect_err("another tenant's token");
    assert_eq!(reason(&foreign), "BAD_PAGE_TOKEN");
    let mut changed = list(2, &token);
    changed.namespace = "other".into();
    let refused = client.instances().list_instances(changed).await.expect_err("another query's token");
    assert_eq!(reason(&refused), "BAD_PAGE_TOKEN");

    let negative = client.instances().list_instances(list(-1, "")).await.expect_err("a negative size");
    assert_eq!(negative.code(), Code::InvalidArgument);
    for size in [0, 1_000_000_000] {
        let page = client.instances().list_instances(list(size, "")).await.expect("clamped").into_inner();
        assert_eq!(page.instances.len(), 5);
    }
}
