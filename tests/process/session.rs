//! A worker's session lives as long as its key.

use std::time::Duration;

use orch8_proto::v1::{
    self, Hello, Lane, ListSessionsRequest, SessionRequest, session_request::Frame as Out,
    session_response::Frame as In,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::rig::{Client, Engine, PATIENCE};

#[tokio::test]
async fn a_session_ends_within_a_second_of_its_keys_revocation() {
    let engine = Engine::start().await;
    let operator = engine.operator();
    let request = v1::CreateKeyRequest {
        tenant_id: "dev".into(),
        roles: vec![v1::Role::Worker.into()],
        ..Default::default()
    };
    let made = operator.tenants().create_key(request).await.expect("made").into_inner();
    let worker = Client::new(&engine.address(), &made.secret);
    let mut session = open(&worker).await;
    assert_eq!(sessions(&engine).await, 1);

    let key_id = made.key.expect("a key").key_id;
    operator.tenants().revoke_key(v1::RevokeKeyRequest { key_id }).await.expect("revoked");
    let last = timeout(Duration::from_secs(1), async {
        loop {
            if let Err(status) = session.1.message().await {
                return status;
            }
        }
    });
    assert_eq!(last.await.expect("within a second").code(), Code::Unauthenticated);
    let began = std::time::Instant::now();
    while sessions(&engine).await > 0 {
        assert!(began.elapsed() < PATIENCE, "the session is gone for the engine too");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

type Session = (mpsc::Sender<SessionRequest>, tonic::Streaming<v1::SessionResponse>);

/// Opened and welcomed, once the data plane has heard of the key.
async fn open(worker: &Client) -> Session {
    let began = std::time::Instant::now();
    loop {
        let (frames, sent) = mpsc::channel(2);
        let lane = Lane { name: "default".into(), handlers: vec!["h".into()] };
        let hello = Hello {
            worker_id: "w".into(),
            instance_nonce: "n".into(),
            lanes: vec![lane],
            ..Default::default()
        };
        frames.send(SessionRequest { frame: Some(Out::Hello(hello)) }).await.expect("room");
        match worker.workers().session(ReceiverStream::new(sent)).await {
            Ok(answer) => {
                let mut heard = answer.into_inner();
                let first = heard.message().await.expect("a frame").expect("a frame").frame;
                assert!(matches!(first, Some(In::Welcome(_))), "{first:?}");
                return (frames, heard);
            }
            Err(status) => assert!(began.elapsed() < PATIENCE, "{status:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn sessions(engine: &Engine) -> usize {
    let listed = engine.client().workers().list_sessions(ListSessionsRequest::default()).await;
    listed.expect("a page").into_inner().sessions.len()
}
