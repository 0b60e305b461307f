//! Who may call: every RPC with every role, against the one table.

use orch8_model::{Reason, Role, Roles};
use orch8_proto::{
    identity::access,
    v1::{self},
};
use tonic::{Code, Status};

use crate::{
    methods, owed, path_of,
    raw::Raw,
    rig::{Client, Engine, PATIENCE},
};

/// Each role alone, and whether its key is of a tenant.
const ROLES: [(v1::Role, Role, bool); 6] = [
    (v1::Role::Client, Role::Client, true),
    (v1::Role::Worker, Role::Worker, true),
    (v1::Role::Publisher, Role::Publisher, true),
    (v1::Role::Operator, Role::Operator, false),
    (v1::Role::PlacementAdmin, Role::PlacementAdmin, false),
    (v1::Role::Node, Role::Node, false),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_role_enters_where_the_table_says_and_nowhere_else() {
    let engine = Engine::start().await;
    let raw = Raw::connect(&engine.address());
    for (wire, role, of_tenant) in ROLES {
        let key = new_key(&engine, wire, of_tenant).await;
        let roles: Roles = [role].into_iter().collect();
        for method in methods() {
            let path = path_of(&method);
            let (_, row) = access::row(&path).expect("a row");
            let answer = raw.call_as(&method, Some(&format!("Bearer {}", key.secret))).await;
            let what = format!("{path} as {role:?}");
            assert_eq!(admitted(&what, answer), row.admits(roles), "{what}");
        }
    }
}

/// Whether the guard let a request in; what became of it there is not asked here.
fn admitted(what: &str, answer: Result<Option<Vec<u8>>, Status>) -> bool {
    let Err(status) = answer else { return true };
    let reason = owed(what, &status);
    assert_ne!(reason, Reason::CredentialInvalid, "{what}: {status:?}");
    reason != Reason::RoleMissing
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_every_bad_key_are_refused_with_the_same_bytes_everywhere() {
    let engine = Engine::start().await;
    let raw = Raw::connect(&engine.address());
    let good = engine.key("client");
    let revoked = revoked(&engine).await;
    let (cut, long) = (&good[..good.len() - 1], "x".repeat(600));
    let bearers = ["", cut, "wrong", &long, &revoked].map(|key| format!("Bearer {key}"));
    let others = [good.clone(), format!("Basic {good}"), format!("Bearer {good} {good}")];
    let credentials: Vec<Option<&str>> =
        std::iter::once(None).chain(bearers.iter().chain(&others).map(|c| Some(c.as_str()))).collect();
    let mut first: Option<Status> = None;
    for method in methods() {
        let path = path_of(&method);
        for credential in &credentials {
            let status = raw.call_as(&method, *credential).await.expect_err("refused");
            assert_eq!(owed(&path, &status), Reason::CredentialInvalid, "{path} {credential:?}");
            let first = first.get_or_insert_with(|| status.clone());
            assert_eq!(
                (status.code(), status.message(), status.details()),
                (first.code(), first.message(), first.details()),
                "{path} {credential:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_no_rpc_is_told_only_to_those_with_a_key() {
    let engine = Engine::start().await;
    let raw = Raw::connect(&engine.address());
    for path in [
        "/orch8.v1.InstanceService/DropEverything",
        "/orch8.v1.NoService/Get",
        "//orch8.v1.InstanceService/GetInstance",
        "/orch8.v1.InstanceService/GetInstance/",
        "/orch8.v1.InstanceService/../InstanceService/GetInstance",
        "/orch8.v1.InstanceService/%47etInstance",
        "/",
    ] {
        let code = async |key: &str| {
            crate::raw::status_of(raw.post(path, key, "identity", vec![0; 5]).await).await.code()
        };
        assert_eq!(code(&engine.key("client")).await, Code::Unimplemented, "{path}");
        assert_eq!(code("wrong").await, Code::Unauthenticated, "{path}");
    }
}

async fn new_key(engine: &Engine, role: v1::Role, of_tenant: bool) -> v1::CreateKeyResponse {
    let tenant_id = if of_tenant { "dev".to_owned() } else { String::new() };
    let request = v1::CreateKeyRequest { tenant_id, roles: vec![role.into()], ..Default::default() };
    let made = engine.operator().tenants().create_key(request).await.expect("a key").into_inner();
    until(engine, &made.secret, true).await;
    made
}

async fn revoked(engine: &Engine) -> String {
    let made = new_key(engine, v1::Role::Client, true).await;
    let request = v1::RevokeKeyRequest { key_id: made.key.expect("a key").key_id };
    engine.operator().tenants().revoke_key(request).await.expect("revoked");
    until(engine, &made.secret, false).await;
    made.secret
}

/// Waits for the guard to hear of a key, or of its end.
async fn until(engine: &Engine, secret: &str, known: bool) {
    let began = std::time::Instant::now();
    let caller = Client::new(&engine.address(), secret);
    while caller.tenants().who_am_i(v1::WhoAmIRequest {}).await.is_ok() != known {
        assert!(began.elapsed() < PATIENCE, "the guard does not hear of a key");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
