//! Keys end where they are used, soon after they were ended where they were made.

use std::time::{Duration, Instant};

use orch8_proto::v1;
use tonic::Code;

use crate::rig::{
    Client,
    fleet::{Fleet, Kind},
};

#[tokio::test]
async fn a_revoked_key_is_refused_by_every_node_within_a_second() {
    let fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    let nodes = [fleet.at(0, &acme), fleet.at(1, &acme)];
    for node in &nodes {
        fleet.known(node).await;
    }
    let whoami = Client::new(&fleet.control.address, &acme.key);
    let key_id = whoami.tenants().who_am_i(v1::WhoAmIRequest {}).await.expect("answers").into_inner().key_id;
    fleet.operator().tenants().revoke_key(v1::RevokeKeyRequest { key_id }).await.expect("revoked");
    let revoked = Instant::now();
    for node in &nodes {
        loop {
            match node.sequences().list_sequences(v1::ListSequencesRequest::default()).await {
                Err(refused) if refused.code() == Code::Unauthenticated => break,
                Ok(_) => {}
                Err(other) => panic!("{other:?}"),
            }
            assert!(revoked.elapsed() < Duration::from_secs(1), "still good after {:?}", revoked.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn nodes_go_on_with_what_they_know_while_the_control_plane_is_away() {
    let mut fleet = Fleet::start(Kind::Postgres, 1).await;
    let acme = fleet.tenant("acme").await;
    let document =
        serde_json::json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]});
    acme.publish(&document).await.expect("published");
    fleet.control.kill();
    // Longer than the control plane waits for a node before it gives it up.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let id = acme.start("n", &serde_json::json!({})).await.expect("started");
        assert_eq!(acme.ended(&id).await.state(), v1::InstanceState::Completed);
    }
    fleet.control.up();
    let globex = fleet.operator();
    let began = Instant::now();
    while globex.tenants().list_tenants(v1::ListTenantsRequest::default()).await.is_err() {
        assert!(began.elapsed() < crate::rig::PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fleet.owner().await;
    let id = acme.start("n", &serde_json::json!({})).await.expect("started");
    assert_eq!(acme.ended(&id).await.state(), v1::InstanceState::Completed);
    fleet.nodes[0].check();
    let globex = fleet.tenant("globex").await;
    globex.publish(&document).await.expect("and it hears of new tenants again");
}
