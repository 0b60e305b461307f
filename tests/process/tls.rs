//! Whom a server with TLS lets in, and until when.

use std::{
    process::Output,
    time::{Duration, Instant},
};

use orch8_proto::{
    client::{Channels, Code, Failure},
    tls::{Authorities, ClientTls, Identity, fingerprint},
    v1::{
        self, CreateKeyRequest, RevokeKeyRequest, WatchRequest, WhoAmIRequest,
        tenant_service_client::TenantServiceClient,
    },
};
use tokio::time::timeout;

use crate::{
    pki::{Authority, Files},
    server::{ADMIN, NODE, PATIENCE, Server, keyed, orch8},
};

async fn server(authority: &Authority) -> Server {
    let Files { certificate, key } = authority.issue("localhost");
    let settings = [
        format!("tls.certificate={certificate}"),
        format!("tls.key={key}"),
        format!("tls.client_ca={}", authority.ca()),
    ];
    let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting.as_str()]).collect();
    Server::start(&args).await
}

fn trusting(authority: &Authority, identity: Option<&Files>) -> ClientTls {
    let read = |path: &str| std::fs::read(path).expect("a file");
    ClientTls {
        authorities: Some(Authorities::read(&read(&authority.ca())).expect("an authority")),
        identity: identity
            .map(|files| Identity::read(&read(&files.certificate), &read(&files.key)).expect("an identity")),
    }
}

/// The command towards the server, which asks the data plane's services and so is told that there are none.
fn command(server: &Server, more: &[&str]) -> Output {
    orch8(&["workers", "--address", &server.named(), "--key", ADMIN]).args(more).output().expect("runs")
}

#[tokio::test]
async fn the_command_believes_a_server_of_the_authority_it_was_given_and_no_other() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    let server = server(&ours).await;
    assert!(server.address.starts_with("https://"), "{}", server.address);
    let reached = command(&server, &["--ca", &ours.ca()]);
    let said = String::from_utf8_lossy(&reached.stderr).into_owned();
    assert!(said.contains("not served here"), "reached, and asked for what it has not: {said}");
    let refused = command(&server, &["--ca", &foreign.ca()]);
    assert_eq!(refused.status.code(), Some(5));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("certificate"), "{said}");
}

#[tokio::test]
async fn a_data_plane_follows_its_control_plane_over_tls_with_a_key_or_a_certificate() {
    let ours = Authority::new("ours");
    let control = server(&ours).await;
    let mut admin = control.tenants(trusting(&ours, None)).await;
    let node = ours.issue("node-1");
    let shown = fingerprint(&std::fs::read(&node.certificate).expect("a file")).expect("a certificate");
    let request = CreateKeyRequest {
        roles: vec![v1::Role::Node.into()],
        certificate_sha256: shown.0.to_vec().into(),
        ..Default::default()
    };
    admin.create_key(keyed(ADMIN, request)).await.expect("registered");

    let by_key = vec![format!("key={NODE}")];
    let by_certificate = vec![
        format!("control_plane_tls.certificate={}", node.certificate),
        format!("control_plane_tls.key={}", node.key),
    ];
    let Files { certificate, key } = ours.issue("localhost");
    for identity in [by_key, by_certificate] {
        let settings = [
            format!("control_plane={}", control.named()),
            format!("control_plane_tls.ca={}", ours.ca()),
            format!("tls.certificate={certificate}"),
            format!("tls.key={key}"),
        ];
        let settings = settings.iter().chain(&identity);
        let args: Vec<&str> = settings.flat_map(|setting| ["--set", setting.as_str()]).collect();
        let data = Server::start_data_plane(&args).await;
        assert!(data.address.starts_with("https://"), "{}", data.address);
        publisher_is_let_in(&data, &ours, &publisher(&mut admin).await).await;
    }
}

/// A new key of the tenant `acme`.
async fn publisher(admin: &mut TenantServiceClient<Channels>) -> String {
    let request = CreateKeyRequest {
        tenant_id: "acme".into(),
        roles: vec![v1::Role::Publisher.into()],
        ..Default::default()
    };
    admin.create_key(keyed(ADMIN, request)).await.expect("made").into_inner().secret
}

/// Once the data plane has heard of the key over its watch.
async fn publisher_is_let_in(data: &Server, ours: &Authority, key: &str) {
    let began = Instant::now();
    loop {
        let listed = orch8(&["--output", "json", "sequence", "list", "--ca", &ours.ca()])
            .args(["--address", &data.named(), "--key", key])
            .output()
            .expect("runs");
        if listed.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        assert!(said.contains("CREDENTIAL_INVALID"), "{said}");
        assert!(began.elapsed() < PATIENCE, "the key does not arrive: {said} {}", data.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_client_certificate_speaks_for_a_principal_until_it_is_revoked() {
    let ours = Authority::new("ours");
    let server = server(&ours).await;
    let mine = ours.issue("node-1");
    let certificate = std::fs::read(&mine.certificate).expect("a file");
    let shown = fingerprint(&certificate).expect("a certificate");
    let mut admin = server.tenants(trusting(&ours, None)).await;
    let request = CreateKeyRequest {
        roles: vec![v1::Role::Node.into()],
        certificate_sha256: shown.0.to_vec().into(),
        ..Default::default()
    };

    let mut me = server.tenants(trusting(&ours, Some(&mine))).await;
    let before = Failure::from(me.who_am_i(WhoAmIRequest {}).await.expect_err("not registered yet"));
    assert_eq!(before.code, Code::Unauthenticated);
    let made = admin.create_key(keyed(ADMIN, request)).await.expect("registered").into_inner();
    let key_id = made.key.expect("a key").key_id;
    assert_eq!(made.secret, "");
    let known = me.who_am_i(WhoAmIRequest {}).await.expect("known at once").into_inner();
    assert_eq!((known.key_id.as_str(), known.roles), (key_id.as_str(), vec![v1::Role::Node.into()]));

    let channel = server.connect(trusting(&ours, Some(&mine))).await.expect("connects");
    let mut fleet = v1::fleet_service_client::FleetServiceClient::new(channel);
    let watching = WatchRequest { node_id: "node-1".into(), ..Default::default() };
    let mut watch = fleet.watch(watching).await.expect("opens").into_inner();
    watch.message().await.expect("a snapshot").expect("a snapshot");
    admin.revoke_key(keyed(ADMIN, RevokeKeyRequest { key_id })).await.expect("revoked");
    assert_ends(&mut watch).await;
    let after = Failure::from(me.who_am_i(WhoAmIRequest {}).await.expect_err("revoked"));
    assert_eq!(after.code, Code::Unauthenticated);
}

#[tokio::test]
async fn an_open_stream_ends_within_a_second_of_its_keys_end() {
    let server = Server::start(&[]).await;
    let mut admin = server.tenants(ClientTls::default()).await;
    let mut fleet = server.fleet().await;
    let watching = || WatchRequest { node_id: "n".into(), ..Default::default() };
    let mut other = fleet.watch(keyed(NODE, watching())).await.expect("opens").into_inner();

    let soon = prost_types::Timestamp::from(std::time::SystemTime::now() + Duration::from_secs(2));
    for expires_at in [None, Some(soon)] {
        let request =
            CreateKeyRequest { roles: vec![v1::Role::Node.into()], expires_at, ..Default::default() };
        let made = admin.create_key(keyed(ADMIN, request)).await.expect("made").into_inner();
        let mut watch = fleet.watch(keyed(&made.secret, watching())).await.expect("opens").into_inner();
        watch.message().await.expect("a snapshot").expect("a snapshot");
        match expires_at {
            None => {
                let key_id = made.key.expect("a key").key_id;
                admin.revoke_key(keyed(ADMIN, RevokeKeyRequest { key_id })).await.expect("revoked");
            }
            Some(_) => tokio::time::sleep(Duration::from_secs(2)).await,
        }
        assert_ends(&mut watch).await;
    }
    let next = timeout(Duration::from_millis(300), async {
        loop {
            other.message().await.expect("no end");
        }
    });
    assert!(next.await.is_err(), "another key's stream goes on");
}

/// With UNAUTHENTICATED, within a second; what was on its way may come before.
async fn assert_ends(watch: &mut tonic::Streaming<v1::WatchResponse>) {
    let began = Instant::now();
    let end = async {
        loop {
            match watch.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("ended without a status"),
                Err(status) => return status,
            }
        }
    };
    let status = timeout(Duration::from_secs(1), end).await.expect("within a second");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?} after {:?}", began.elapsed());
}
