//! Long, short and impossible delays beside ordinary timers (H06); back-off that neither overflows nor hammers (H07).

use std::time::{Duration, Instant};

use orch8_proto::v1::InstanceState::{Completed, Waiting};
use serde_json::{Value, json};
use tonic::Code;

use crate::rig::Client;

fn sleeper(name: &str, duration: &Value) -> Value {
    json!({"name": name, "blocks": [{"type": "step", "id": "s", "handler": "sleep", "params": {"duration_ms": duration}}]})
}

async fn ordinary_timers(client: &Client) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(client.start("ordinary", &json!({})).await.expect("started"));
    }
    ids
}

#[tokio::test]
async fn a_delay_is_exact_or_refused_and_never_disturbs_the_others() {
    let engine = crate::house().await;
    let client = engine.client();
    client.publish(&sleeper("ordinary", &json!(1_000))).await.expect("published");
    let began = Instant::now();
    let ordinary = ordinary_timers(&client).await;

    for (n, ms) in [0_i64, 1, 1 << 31, 1 << 36, 315_360_000_000].into_iter().enumerate() {
        let name = format!("long-{n}");
        client.publish(&sleeper(&name, &json!(ms))).await.expect("published");
        let id = client.start(&name, &json!({})).await.expect("started");
        if ms < 2 {
            assert_eq!(client.ended(&id).await.state(), Completed);
            continue;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        let instance = loop {
            let instance = client.instance(&id).await;
            if instance.state() == Waiting || Instant::now() > deadline {
                break instance;
            }
        };
        let (due, wait) = (instance.next_fire_at.expect("a timer"), &instance.waits[0]);
        assert_eq!(Some(due), wait.until);
        let millis = |t: prost_types::Timestamp| t.seconds * 1000 + i64::from(t.nanos) / 1_000_000;
        let drift = millis(due) - millis(instance.created_at.expect("a birth")) - ms;
        assert!((0..10_000).contains(&drift), "{ms}: due {drift} ms beside its time");
    }
    for bad in [
        json!(9_007_199_254_740_992_i64),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(-1),
        json!(315_360_000_001_i64),
    ] {
        let refused = client.publish(&sleeper("bad", &bad)).await.expect_err("impossible");
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}");
    }
    for id in &ordinary {
        assert_eq!(client.ended(id).await.state(), Completed);
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_start_before_the_calendar_is_due_at_once_and_one_at_its_end_waits() {
    let engine = crate::house().await;
    let client = engine.client();
    client
        .publish(&json!({"name": "quick", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");
    let start = |seconds: i64| orch8_proto::v1::StartInstanceRequest {
        sequence_name: "quick".into(),
        next_fire_at: Some(prost_types::Timestamp { seconds, nanos: 0 }),
        ..Default::default()
    };
    let past = client.instances().start_instance(start(-62_135_596_800)).await.expect("year 1").into_inner();
    assert_eq!(client.ended(&past.instance_id).await.state(), Completed);
    let far =
        client.instances().start_instance(start(253_402_300_799)).await.expect("year 9999").into_inner();
    let waiting = client.instance(&far.instance_id).await;
    assert_eq!(waiting.next_fire_at.map(|at| at.seconds), Some(253_402_300_799));
    for seconds in [-62_135_596_801, 253_402_300_800, i64::MAX, i64::MIN] {
        let refused =
            client.instances().start_instance(start(seconds)).await.expect_err("outside the calendar");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("next_fire_at"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_retry_policy_that_cannot_work_is_refused_by_name() {
    let engine = crate::house().await;
    let client = engine.client();
    let document = |factor: Value| {
        json!({"name": "r", "blocks": [
            {"type": "step", "id": "a", "handler": "work", "retry": {"max_attempts": 3, "backoff_multiplier": factor}}
        ]})
    };
    for bad in [json!(0), json!(-1), json!(0.5), json!("NaN"), json!(null)] {
        match client.publish(&document(bad.clone())).await {
            Err(refused) => {
                assert_eq!(refused.code(), Code::InvalidArgument);
                assert!(refused.message().contains("backoff_multiplier"), "{bad}: {refused:?}");
            }
            Ok(_) => assert!(bad.is_null(), "{bad} was accepted"),
        }
    }
    for good in [json!(1), json!(1.5), json!(2), json!(10), json!(1e308)] {
        client.publish(&document(good.clone())).await.unwrap_or_else(|e| panic!("{good}: {e}"));
    }
}
