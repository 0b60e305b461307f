//! Long and odd names: a limit in bytes, no folding, no control characters (H35).

use orch8_proto::v1;
use serde_json::json;
use tonic::Code;

use crate::rig::Client;

async fn start(client: &Client, key: &str) -> Result<v1::StartInstanceResponse, tonic::Status> {
    let request = v1::StartInstanceRequest {
        sequence_name: "q".into(),
        idempotency_key: key.into(),
        ..Default::default()
    };
    client.instances().start_instance(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn names_are_counted_in_bytes_and_never_folded() {
    let engine = crate::house().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "q", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");

    let three = |bytes: usize| "漢".repeat(bytes / 3) + &"x".repeat(bytes % 3);
    let four = |bytes: usize| "😀".repeat(bytes / 4) + &"x".repeat(bytes % 4);
    for key in [
        three(255),
        three(256),
        four(255),
        four(256),
        "\u{202e}rtl".into(),
        "a\u{200b}b".into(),
        "../..".into(),
        "%2f".into(),
    ] {
        let started = start(&client, &key).await.unwrap_or_else(|e| panic!("{key:?}: {e}"));
        assert!(!started.deduplicated, "{key:?}");
    }
    for key in
        [three(257), four(1_000), "a\nb".into(), "a\tb".into(), " ".into(), "\u{7f}".into(), "\u{85}".into()]
    {
        let refused = start(&client, &key).await.expect_err("not a name");
        assert_eq!(refused.code(), Code::InvalidArgument, "{key:?}");
        assert!(refused.message().contains("idempotency_key"), "{refused:?}");
    }
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    let first = start(&client, composed).await.expect("a name");
    let second = start(&client, decomposed).await.expect("another name");
    assert_ne!(first.instance_id, second.instance_id, "twins are two keys");

    let log = engine.log();
    assert!(
        log.lines().all(|line| line.starts_with("20")
            || line.contains("orch8")
            || line.contains("next:")
            || line.contains("data and keys")
            || line.is_empty()),
        "one line per event"
    );
}
