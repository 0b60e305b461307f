//! NUL (H08), numbers (H09) and depth (H10): refused by name where they enter, or returned digit by digit.

use orch8_proto::v1::{self, InstanceState};
use serde_json::{Value, json};
use tonic::Code;

use crate::{
    rig::{Client, reason},
    workers::Counting,
};

fn raw(text: impl Into<Vec<u8>>) -> Option<v1::Payload> {
    Some(v1::Payload { data: text.into().into(), content_type: "application/json".into() })
}

async fn start_raw(client: &Client, data: impl Into<Vec<u8>>) -> Result<String, tonic::Status> {
    let request =
        v1::StartInstanceRequest { sequence_name: "echo".into(), data: raw(data), ..Default::default() };
    client.instances().start_instance(request).await.map(|r| r.into_inner().instance_id)
}

async fn echo(engine: &crate::rig::house::House, tenant: &str) -> Client {
    let client = engine.tenant(tenant).await;
    client
        .publish(&json!({"name": "echo", "blocks": [
            {"type": "step", "id": "say", "handler": "echo", "params": {"v": "{{data.v}}"}, "merge_output": false}
        ]}))
        .await
        .expect("published");
    client
}

#[tokio::test]
async fn a_nul_is_refused_where_it_enters() {
    let engine = crate::house().await;
    let client = echo(&engine, "nul").await;
    for text in [r#"{"v":"x\u0000"}"#, r#"{"a\u0000":1}"#, "{\"v\":\"x\0\"}"] {
        let refused = start_raw(&client, text).await.expect_err("a NUL");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(refused.message().contains("data"), "{refused:?}");
    }
    for (field, request) in [
        ("metadata", v1::StartInstanceRequest { metadata: raw(r#"{"l":"\u0000"}"#), ..Default::default() }),
        ("config", v1::StartInstanceRequest { config: raw(r#"{"l":"\u0000"}"#), ..Default::default() }),
        (
            "idempotency_key",
            v1::StartInstanceRequest { idempotency_key: "a\0b".into(), ..Default::default() },
        ),
    ] {
        let request = v1::StartInstanceRequest { sequence_name: "echo".into(), ..request };
        let refused = client.instances().start_instance(request).await.expect_err(field);
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(field), "{refused:?}");
    }
    let id = start_raw(&client, r#"{"v":1}"#).await.expect("started");
    let refused = client
        .signals()
        .send_signal(v1::SendSignalRequest {
            instance_id: id,
            signal: Some(v1::send_signal_request::Signal::Custom(v1::CustomSignal {
                name: "x".into(),
                payload: raw(r#"{"a":"\u0000"}"#),
            })),
            ..Default::default()
        })
        .await
        .expect_err("a NUL");
    assert!(refused.message().contains("custom.payload"), "{refused:?}");
}

#[tokio::test]
async fn a_step_that_answers_with_a_nul_fails_once_and_for_good() {
    let engine = crate::house().await;
    let client = engine.tenant("nul").await;
    client
        .publish(&json!({"name": "nul", "blocks": [
            {"type": "step", "id": "bad", "handler": "bad", "retry": {"max_attempts": 3, "initial_backoff": 1}}
        ]}))
        .await
        .expect("published");
    let worker = Counting::start(&client, "bad", |_, _: Value| async { Ok(json!({"v": "x\u{0}"})) });
    let id = client.start("nul", &json!({})).await.expect("started");
    let ended = client.ended(&id).await;
    assert_eq!(ended.state(), InstanceState::Failed);
    let error = ended.error.expect("why");
    assert_eq!(error.code, "INVALID_OUTPUT");
    assert!(error.message.contains("/v"), "{error:?}");
    assert_eq!(worker.runs(), 1);
}

#[tokio::test]
async fn numbers_come_back_digit_by_digit() {
    let engine = crate::house().await;
    let client = echo(&engine, "numbers").await;
    let _worker = Counting::start(&client, "echo", |_, input: Value| async move { Ok(input["v"].clone()) });
    let exact = [
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "18446744073709551615",
        "-9223372036854775808",
        "1",
        "1.0",
        "-0.0",
        "1e-7",
        "0.1",
    ];
    for digits in exact {
        let id = start_raw(&client, format!(r#"{{"v":{digits}}}"#)).await.expect(digits);
        client.ended(&id).await;
        let request = v1::GetOutputsRequest { instance_id: id, ..Default::default() };
        let rows = client.instances().get_outputs(request).await.expect("outputs").into_inner().outputs;
        let shown = rows[0].output.as_ref().map(|p| String::from_utf8_lossy(&p.data).into_owned());
        assert_eq!(shown.as_deref(), Some(digits));
    }
    for refused in ["1e400", "18446744073709551616", "-9223372036854775809"] {
        let status = start_raw(&client, format!(r#"{{"v":{refused}}}"#)).await.expect_err(refused);
        assert_eq!(reason(&status), "JSON_NUMBER", "{status:?}");
    }
    let twice = start_raw(&client, r#"{"v":1,"v":2}"#).await.expect_err("one key twice");
    assert_eq!(reason(&twice), "JSON_DUPLICATE_KEY");
}

#[tokio::test]
async fn depth_has_one_limit_and_what_is_stored_can_be_read() {
    let engine = crate::house().await;
    let client = echo(&engine, "depth").await;
    let _worker = Counting::start(&client, "echo", |_, input: Value| async move { Ok(input["v"].clone()) });
    // The object around adds one level.
    let nested = |depth: usize| format!(r#"{{"v":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
    for depth in [126, 127] {
        let id = start_raw(&client, nested(depth)).await.expect("within the limit");
        assert_eq!(client.ended(&id).await.state(), InstanceState::Completed, "{depth}");
        assert_eq!(client.outputs(&id).await.len(), 1);
    }
    let id = start_raw(&client, nested(128)).await.expect("at the limit");
    client.ended(&id).await;
    for depth in [129, 10_000] {
        let refused = start_raw(&client, nested(depth)).await.expect_err("too deep");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    for open in ["[", r#"{"a":"#] {
        let refused = start_raw(&client, open.repeat((255 << 10) / open.len())).await.expect_err("too deep");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
}
