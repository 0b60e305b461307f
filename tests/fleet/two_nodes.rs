//! Two nodes on one store: one owns the shards, the other stands by and answers clients all the same.

use std::{collections::HashSet, time::Duration};

use futures::{StreamExt, stream};
use orch8_proto::v1::{self, InstanceState::Completed};
use serde_json::json;
use tonic::Code;

use crate::rig::{
    fleet::{Fleet, Kind},
    payload, reason,
};

fn noop(name: &str) -> serde_json::Value {
    json!({"name": name, "blocks": [{"type": "step", "id": "a", "handler": "noop"}]})
}

fn start(key: &str, n: u64) -> v1::StartInstanceRequest {
    v1::StartInstanceRequest {
        sequence_name: "once".into(),
        idempotency_key: key.into(),
        data: Some(payload(&json!({"n": n}))),
        ..Default::default()
    }
}

#[tokio::test]
async fn sixty_four_starts_with_one_key_over_two_nodes_are_one_run() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let nodes = [fleet.at(0, &acme), fleet.at(1, &acme)];
    for node in &nodes {
        fleet.known(node).await;
    }
    acme.publish(&noop("once")).await.expect("published");
    let answers: Vec<v1::StartInstanceResponse> = stream::iter(0..64)
        .map(|n: usize| {
            let node = nodes[n % 2].clone();
            async move { node.instances().start_instance(start("k", 1)).await.expect("started").into_inner() }
        })
        .buffer_unordered(64)
        .collect()
        .await;
    let ids: HashSet<&str> = answers.iter().map(|answer| answer.instance_id.as_str()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1);
    let id = answers[0].instance_id.clone();
    for node in &nodes {
        assert_eq!(node.ended(&id).await.state(), Completed, "either node shows it");
        let refused = node.instances().start_instance(start("k", 2)).await.expect_err("another body");
        assert_eq!(
            (refused.code(), reason(&refused).as_str()),
            (Code::AlreadyExists, "IDEMPOTENCY_MISMATCH")
        );
        let again = node.instances().start_instance(start("k", 1)).await.expect("answers").into_inner();
        assert!(again.deduplicated && again.instance_id == id, "also after its end");
    }
}

#[tokio::test]
async fn a_node_that_stands_by_takes_starts_and_signals_and_sends_workers_to_the_owner() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let owner = fleet.owner().await;
    let other = fleet.at(1 - owner, &acme);
    fleet.known(&other).await;
    other
        .publish(&json!({"name": "g", "blocks": [
            {"type": "step", "id": "ask", "handler": "noop", "wait_for_input": {"prompt": "go?"}}
        ]}))
        .await
        .expect("published");
    let id = other.start("g", &json!({})).await.expect("started");
    other.signal(&id, "human_input:ask", &json!({"value": "yes"})).await.expect("accepted");
    assert_eq!(other.ended(&id).await.state(), Completed);

    let lane = v1::Lane { name: "main".into(), handlers: vec!["work".into()] };
    let hello = v1::Hello {
        worker_id: "w".into(),
        instance_nonce: "1".into(),
        lanes: vec![lane],
        ..Default::default()
    };
    let hello = v1::SessionRequest { frame: Some(v1::session_request::Frame::Hello(hello)) };
    let open = other.workers().session(stream::iter([hello]).chain(stream::pending())).await;
    let refused = match open {
        Ok(mut frames) => frames.get_mut().message().await.expect_err("no session here"),
        Err(refused) => refused,
    };
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unavailable, "SHARD_MOVING"),
        "{refused:?}"
    );
    let endpoints = v1::FindEndpointsRequest { tenant_id: "acme".into() };
    let found = fleet.operator().fleet().find_endpoints(endpoints).await.expect("answers").into_inner();
    assert_eq!(found.addresses, [fleet.nodes[owner].address.clone()]);
}

#[tokio::test]
async fn a_tenant_without_a_placement_and_one_of_another_store_are_refused_and_never_served_by_default() {
    let fleet = Fleet::start(Kind::Postgres, 1).await;
    let placed = fleet.tenant("acme").await;
    placed.publish(&noop("n")).await.expect("published");
    let operator = fleet.operator();
    let elsewhere =
        v1::RegisterStoreRequest { name: "elsewhere".into(), kind: v1::StoreKind::Postgres.into() };
    operator.placements().register_store(elsewhere).await.expect("a store");
    for (tenant, store, code, why) in [
        ("nowhere", None, Code::NotFound, "TENANT_NOT_PLACED"),
        ("globex", Some("elsewhere"), Code::FailedPrecondition, "STORE_UNSUPPORTED"),
    ] {
        let request = v1::CreateTenantRequest { tenant_id: tenant.into(), ..Default::default() };
        operator.tenants().create_tenant(request).await.expect("a tenant");
        if let Some(store) = store {
            let request = v1::SetPlacementRequest { tenant_id: tenant.into(), store: store.into(), epoch: 1 };
            operator.placements().set_placement(request).await.expect("a placement");
        }
        let key = fleet.key(tenant, &[v1::Role::Client, v1::Role::Worker]).await;
        let client = crate::rig::Client::new(&fleet.nodes[0].address, &key);
        // Until the node has heard of the key, the key itself is what is refused; of the placement it hears with it.
        let refused = loop {
            match client.start("n", &json!({})).await {
                Err(refused) if refused.code() == Code::Unauthenticated => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => break answer.expect_err("never by default"),
            }
        };
        assert_eq!((refused.code(), reason(&refused).as_str()), (code, why), "{tenant}: {refused:?}");
    }
}
