//! Watch.

use orch8_model::{Millis, Reason};
use orch8_proto::{
    client::Failure,
    identity::{Follower, KeyRing},
    v1::{
        CreateKeyRequest, RevokeKeyRequest, Role, SetPlacementRequest, WatchRequest,
        WatchResponse,
    },
};
use tokio::time::timeout;
use tonic::Streaming;

use super::rig::{ADMIN, CLIENT, NODE, OPERATOR, Rig, SOON, field};

/// A node that follows as a data plane does.
struct Node {
    stream: Streaming<WatchResponse>,
    follower: Follower,
    ring: KeyRing,
}

impl Node {
    async fn watch(rig: &Rig, key: &str, resume_token: u64) -> Self {
        let request = WatchRequest { node_id: "n1".into(), stores: vec!["main".into()], resume_token };
        let stream = rig.fleet(key).watch(request).await.expect("opens").into_inner();
        Self { stream, follower: Follower::new(), ring: KeyRing::new() }
    }

    async fn next(&mut self) -> WatchResponse {
        loop {
            let part = timeout(SOON, self.stream.message()).await.expect("soon").expect("one").expect("one");
            if let Some(group) = self.follower.push(part) {
                self.ring.follow(&group);
                return group;
            }
        }
    }

    async fn end(&mut self) -> Failure {
        let ended = timeout(SOON, self.stream.message()).await.expect("soon");
        Failure::from(ended.expect_err("an end with a reason"))
    }

    fn admits(&self, secret: &str) -> bool {
        self.ring.principal(&orch8_seal::sha256(secret.as_bytes()), Millis(0)).is_some()
    }
}

async fn place(rig: &Rig, tenant: &str, epoch: u64) {
    let request = SetPlacementRequest { tenant_id: tenant.into(), store: "main".into(), epoch };
    rig.placements(ADMIN).set_placement(request).await.expect("placed");
}

async fn create_key(rig: &Rig, roles: &[i32], tenant: &str) -> (String, String) {
    let request = CreateKeyRequest { tenant_id: tenant.into(), roles: roles.to_vec(), ..Default::default() };
    let made = rig.tenants(ADMIN).create_key(request).await.expect("made").into_inner();
    (made.key.expect("a key").key_id, made.secret)
}

#[tokio::test]
async fn a_node_is_told_everything_and_then_each_change() {
    let rig = Rig::start().await;
    let mut node = Node::watch(&rig, NODE, 0).await;
    let first = node.next().await;
    assert!(first.full);
    assert_eq!(first.placements[0].tenant_id, "acme");
    assert!(node.admits(CLIENT) && node.admits(NODE));

    let (key_id, secret) = create_key(&rig, &[Role::Worker as i32], "acme").await;
    let change = node.next().await;
    assert!(!change.full && change.placements.is_empty() && change.resume_token > first.resume_token);
    assert!(node.admits(&secret));
    rig.tenants(OPERATOR).revoke_key(RevokeKeyRequest { key_id }).await.expect("revoked");
    assert!(node.next().await.keys[0].revoked);
    assert!(!node.admits(&secret));
    place(&rig, "acme", 5).await;
    assert_eq!(node.next().await.placements[0].epoch, 5);
}

#[tokio::test]
async fn a_node_that_comes_back_is_told_what_it_missed_also_after_a_restart() {
    let rig = Rig::start().await;
    let mut node = Node::watch(&rig, NODE, 0).await;
    let token = node.next().await.resume_token;
    drop(node);
    rig.create_tenant("globex").await;
    for epoch in 1..=3 {
        place(&rig, "globex", epoch).await;
    }
    let (_, secret) = create_key(&rig, &[Role::Worker as i32], "globex").await;

    let rig = rig.restart().await;
    let mut node = Node::watch(&rig, NODE, token).await;
    let missed = node.next().await;
    assert!(!missed.full);
    assert_eq!(missed.placements.len(), 1, "the last state of each thing, not its history");
    assert_eq!((missed.placements[0].tenant_id.as_str(), missed.placements[0].epoch), ("globex", 3));
    assert!(node.admits(&secret) && !node.admits(CLIENT), "only what changed");
}

#[tokio::test]
async fn a_token_of_another_database_brings_everything() {
    let rig = Rig::start().await;
    for foreign in [u64::MAX, 1_000_000] {
        let mut node = Node::watch(&rig, NODE, foreign).await;
        assert!(node.next().await.full, "{foreign}");
    }
}

#[tokio::test]
async fn a_watch_ends_with_its_key() {
    let rig = Rig::start().await;
    let (key_id, secret) = create_key(&rig, &[Role::Node as i32], "").await;
    let mut node = Node::watch(&rig, &secret, 0).await;
    node.next().await;
    rig.tenants(OPERATOR).revoke_key(RevokeKeyRequest { key_id }).await.expect("revoked");
    assert_eq!(node.end().await.known(), Some(Reason::CredentialInvalid));
}

#[tokio::test]
async fn a_shutdown_tells_the_nodes_and_does_not_wait_for_them() {
    let rig = Rig::start().await;
    let mut node = Node::watch(&rig, NODE, 0).await;
    node.next().await;
    let told = async { node.end().await };
    let (failure, _folder) = tokio::join!(told, rig.end());
    assert_eq!(failure.known(), Some(Reason::Draining));
}

#[tokio::test]
async fn a_snapshot_larger_than_one_message_arrives_whole() {
    let rig = Rig::start().await;
    // Bounded per tenant, so many tenants: 3 parts of keys and 2 of placements.
    for tenant in 0..5 {
        let tenant = format!("{tenant}{}", "x".repeat(250));
        rig.create_tenant(&tenant).await;
        for _ in 0..500 {
            create_key(&rig, &[Role::Worker as i32], &tenant).await;
        }
    }
    let mut node = Node::watch(&rig, NODE, 0).await;
    let first = timeout(SOON, node.stream.message()).await.expect("soon").expect("one").expect("one");
    assert!(first.full && first.more);
    assert_eq!(node.follower.push(first), None);
    let whole = node.next().await;
    assert!(whole.full);
    assert_eq!(whole.keys.len(), 2_500 + 4);
}

#[tokio::test]
async fn a_hostile_field_is_named() {
    let rig = Rig::start().await;
    let request =
        |node: &str, stores: Vec<String>| WatchRequest { node_id: node.into(), stores, resume_token: 0 };
    for (bad, at) in [
        (request("", vec![]), "node_id"),
        (request("a\0", vec![]), "node_id"),
        (request(&"n".repeat(257), vec![]), "node_id"),
        (request("n", vec!["a/b".into()]), "stores"),
        (request("n", vec!["s".into(); 257]), "stores"),
    ] {
        assert_eq!(field(rig.fleet(NODE).watch(bad).await.map(|r| r.map(|_| ()))).1, at);
    }
}
