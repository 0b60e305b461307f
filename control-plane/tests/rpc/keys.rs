//! CreateKey, ListKeys, RevokeKey.

use std::time::{SystemTime, UNIX_EPOCH};

use orch8_model::Reason;
use orch8_proto::v1::{
    ApiKey, CreateKeyRequest, CreateKeyResponse, ListKeysRequest, RevokeKeyRequest, Role, WhoAmIRequest,
};

use super::rig::{ADMIN, CLIENT, OPERATOR, Rig, field, refused};

fn request(tenant: &str, roles: &[i32]) -> CreateKeyRequest {
    CreateKeyRequest { tenant_id: tenant.to_owned(), roles: roles.to_vec(), ..Default::default() }
}

async fn create(rig: &Rig, request: CreateKeyRequest) -> (ApiKey, String) {
    let made = rig.tenants(ADMIN).create_key(request).await.expect("made");
    let CreateKeyResponse { key, secret } = made.into_inner();
    (key.expect("a key"), secret)
}

async fn is_good(rig: &Rig, secret: &str) -> bool {
    match rig.tenants(secret).who_am_i(WhoAmIRequest {}).await {
        Ok(_) => true,
        answer => {
            assert_eq!(refused(answer).known(), Some(Reason::CredentialInvalid));
            false
        }
    }
}

const WORKER: &[i32] = &[Role::Worker as i32];

#[tokio::test]
async fn a_key_is_good_from_its_answer_until_its_revocation_also_across_a_restart() {
    let rig = Rig::start().await;
    let (key, secret) = create(&rig, request("acme", WORKER)).await;
    assert_eq!(key.key_id, orch8_seal::sha256(secret.as_bytes()).hex()[..16]);
    assert!(is_good(&rig, &secret).await, "at once");
    let rig = rig.restart().await;
    assert!(is_good(&rig, &secret).await, "after a restart");

    let revoke = RevokeKeyRequest { key_id: key.key_id.clone() };
    let first = rig.tenants(OPERATOR).revoke_key(revoke.clone()).await.expect("revoked").into_inner();
    assert!(!is_good(&rig, &secret).await, "at once");
    let again = rig.tenants(OPERATOR).revoke_key(revoke).await.expect("repeatable").into_inner();
    assert_eq!(first, again, "the first revocation stands");
    let rig = rig.restart().await;
    assert!(!is_good(&rig, &secret).await, "after a restart");
}

#[tokio::test]
async fn a_request_id_makes_one_key_and_names_it_afterwards() {
    let rig = Rig::start().await;
    let once = CreateKeyRequest { request_id: "r-1".into(), ..request("acme", WORKER) };
    let (key, secret) = create(&rig, once.clone()).await;
    let failure = refused(rig.tenants(ADMIN).create_key(once).await);
    assert_eq!(failure.known(), Some(Reason::AlreadyExists));
    assert_eq!(failure.metadata["key_id"], key.key_id);
    assert!(!failure.to_string().contains(&secret));
}

#[tokio::test]
async fn a_hostile_field_is_named() {
    let rig = Rig::start().await;
    let mut client = rig.tenants(ADMIN);
    let (client_role, operator) = (Role::Client as i32, Role::Operator as i32);
    let past = prost_types::Timestamp { seconds: 1, nanos: 0 };
    let never = prost_types::Timestamp { seconds: i64::MAX, nanos: -1 };
    for (bad, at) in [
        (request("acme", &[]), "roles"),
        (request("acme", &[0]), "roles"),
        (request("acme", &[99]), "roles"),
        (request("acme", &[-1]), "roles"),
        (request("acme", &[1; 17]), "roles"),
        (request("", &[client_role]), "tenant_id"),
        (request("acme", &[operator]), "tenant_id"),
        (request("", &[client_role, operator]), "tenant_id"),
        (request("a\0", &[client_role]), "tenant_id"),
        (CreateKeyRequest { display_name: "x".repeat(257), ..request("acme", WORKER) }, "display_name"),
        (CreateKeyRequest { request_id: "x".repeat(257), ..request("acme", WORKER) }, "request_id"),
        (CreateKeyRequest { request_id: "\0".into(), ..request("acme", WORKER) }, "request_id"),
        (CreateKeyRequest { expires_at: Some(past), ..request("acme", WORKER) }, "expires_at"),
        (CreateKeyRequest { expires_at: Some(never), ..request("acme", WORKER) }, "expires_at"),
    ] {
        assert_eq!(field(client.create_key(bad.clone()).await).1, at, "{bad:?}");
    }
    let nobody = refused(client.create_key(request("nobody", WORKER)).await);
    assert_eq!(nobody.known(), Some(Reason::NotFound));
    for id in ["", "xyz", "0123456789ABCDEF", "0123456789abcde\0"] {
        let failed = field(client.revoke_key(RevokeKeyRequest { key_id: id.to_owned() }).await);
        assert_eq!(failed.1, "key_id", "{id:?}");
    }
    let missing = client.revoke_key(RevokeKeyRequest { key_id: "0".repeat(16) }).await;
    assert_eq!(refused(missing).known(), Some(Reason::NotFound));
}

#[tokio::test]
async fn an_operator_does_not_make_himself_a_placement_admin() {
    let rig = Rig::start().await;
    let admin = request("", &[Role::Operator as i32, Role::PlacementAdmin as i32]);
    let failure = refused(rig.tenants(OPERATOR).create_key(admin.clone()).await);
    assert_eq!(failure.known(), Some(Reason::RoleMissing));
    create(&rig, admin).await;
}

#[tokio::test]
async fn a_key_ends_at_its_instant() {
    let rig = Rig::start().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let end = orch8_proto::door::wire_instant(orch8_model::Millis(now + 700));
    let (_, secret) =
        create(&rig, CreateKeyRequest { expires_at: Some(end), ..request("acme", WORKER) }).await;
    assert!(is_good(&rig, &secret).await);
    tokio::time::sleep(std::time::Duration::from_millis(750)).await;
    assert!(!is_good(&rig, &secret).await);
}

#[tokio::test]
async fn keys_are_listed_by_tenant_page_by_page() {
    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    let mut wanted = Vec::new();
    for _ in 0..9 {
        wanted.push(create(&rig, request("globex", WORKER)).await.0.key_id);
        create(&rig, request("acme", WORKER)).await;
    }
    wanted.sort();
    let mut client = rig.tenants(OPERATOR);
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListKeysRequest { tenant_id: "globex".into(), page_size: 4, page_token };
        let page = client.list_keys(request).await.expect("a page").into_inner();
        seen.extend(page.keys.into_iter().map(|key| key.key_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
        let other =
            ListKeysRequest { tenant_id: "acme".into(), page_size: 4, page_token: page_token.clone() };
        assert_eq!(field(client.list_keys(other).await).0, "BAD_PAGE_TOKEN");
    }
    assert_eq!(seen, wanted);
    let all = client.list_keys(ListKeysRequest::default()).await.expect("a page").into_inner().keys;
    assert_eq!(all.len(), 9 + 9 + 4, "with the first keys");
}

#[tokio::test]
async fn a_tenant_has_a_bounded_number_of_good_keys() {
    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    let mut client = rig.tenants(ADMIN);
    let mut last = String::new();
    for _ in 0..1_000 {
        last = client
            .create_key(request("globex", WORKER))
            .await
            .expect("made")
            .into_inner()
            .key
            .expect("a key")
            .key_id;
    }
    let failure = refused(client.create_key(request("globex", WORKER)).await);
    assert_eq!(failure.known(), Some(Reason::QuotaExceeded));
    assert_eq!(failure.metadata["limit"], "1000");
    client.create_key(request("acme", WORKER)).await.expect("another tenant is not concerned");
    client.revoke_key(RevokeKeyRequest { key_id: last }).await.expect("revoked");
    client.create_key(request("globex", WORKER)).await.expect("there is room again");
    assert!(is_good(&rig, CLIENT).await);
}

#[tokio::test]
async fn a_certificate_is_registered_once_and_has_no_secret() {
    let rig = Rig::start().await;
    let certificate =
        |bytes| CreateKeyRequest { certificate_sha256: vec![7; bytes].into(), ..request("acme", WORKER) };
    for bytes in [1, 31, 33] {
        let answer = rig.tenants(ADMIN).create_key(certificate(bytes)).await;
        assert_eq!(field(answer), ("INVALID_FIELD".to_owned(), "certificate_sha256".to_owned()), "{bytes}");
    }
    let (key, secret) = create(&rig, certificate(32)).await;
    assert_eq!(secret, "");
    rig.tenants(OPERATOR).revoke_key(RevokeKeyRequest { key_id: key.key_id.clone() }).await.expect("revoked");
    let again = refused(rig.tenants(ADMIN).create_key(certificate(32)).await);
    assert_eq!(again.known(), Some(Reason::AlreadyExists), "once, also when it was revoked since");
    assert_eq!(again.metadata["key_id"], key.key_id);
}
