//! A database far away, and callers that do not wait.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use orch8_proto::v1;
use orch8_test_postgres::ask;
use serde_json::json;
use tonic::{Code, Request};

use crate::rig::{
    Client, PATIENCE,
    fleet::{Fleet, Kind, Plan},
    line::Line,
};

const HURRIED: u64 = 500;
const NORMAL: u64 = 100;

fn start(key: String) -> v1::StartInstanceRequest {
    v1::StartInstanceRequest { sequence_name: "n".into(), idempotency_key: key, ..Default::default() }
}

/// Of every kind: a write alone, a write in a group, reads; their deadlines lie before, inside and behind the work.
async fn hurried(client: &Client, n: u64) -> Result<(), Code> {
    let patience = Duration::from_millis(50 + n * 7 % 350);
    fn within<T>(message: T, patience: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(patience);
        request
    }
    let answer = match n % 5 {
        0 | 1 => client.instances().start_instance(within(start(format!("h{n}")), patience)).await.map(drop),
        2 => {
            let document = json!({"name": format!("s{}", n % 20), "blocks": [{"type": "step", "id": "a", "handler": "noop"}]});
            let request = v1::PublishSequenceRequest {
                document: Some(crate::rig::payload(&document)),
                ..Default::default()
            };
            client.sequences().publish_sequence(within(request, patience)).await.map(drop)
        }
        3 => {
            let request = v1::ListInstancesRequest::default();
            client.instances().list_instances(within(request, patience)).await.map(drop)
        }
        _ => {
            let request = v1::ListSequencesRequest::default();
            client.sequences().list_sequences(within(request, patience)).await.map(drop)
        }
    };
    answer.map_err(|status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_give_up_leave_no_transaction_behind_and_spoil_nobodys_connection() {
    let url = orch8_test_postgres::database();
    let (line, far) = Line::to_database(&url).await;
    let fleet =
        Fleet::start_as(Plan { kind: Kind::Postgres, nodes: 1, store_url: Some(far), ..Plan::default() })
            .await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]}))
        .await
        .expect("published");
    line.slow(Duration::from_millis(300));
    let answers: Vec<Result<(), Code>> =
        stream::iter(0..HURRIED).map(|n| hurried(&acme, n)).buffer_unordered(64).collect().await;
    let late =
        answers.iter().filter(|answer| matches!(answer, Err(Code::DeadlineExceeded | Code::Cancelled)));
    assert!(late.count() > 400, "the line is slower than they are patient: {answers:?}");

    let ids: Vec<String> = stream::iter(0..NORMAL)
        .map(|n| {
            let (client, fleet) = (acme.clone(), &fleet);
            async move {
                let answer = client.instances().start_instance(start(format!("n{n}"))).await;
                answer.unwrap_or_else(|why| panic!("{n}: {why:?} {}", fleet.logs())).into_inner().instance_id
            }
        })
        .buffer_unordered(16)
        .collect()
        .await;
    let seen = ask(&url, &format!("SELECT count(*) FROM instances WHERE id IN ('{}')", ids.join("','")));
    assert_eq!(seen, NORMAL.to_string(), "visible from another connection");

    let open = "SELECT pid, state, now() - xact_start, query FROM pg_stat_activity
                WHERE application_name = 'orch8' AND datname = current_database()
                  AND state LIKE 'idle in transaction%' AND now() - state_change > interval '5 s'";
    assert_eq!(ask(&url, open), "");
    line.slow(Duration::ZERO);
    for id in &ids {
        assert_eq!(acme.ended(id).await.state(), v1::InstanceState::Completed);
    }
    let began = Instant::now();
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'orch8'
                AND datname = current_database() AND state <> 'idle' AND now() - state_change > interval '1 s'";
    while ask(&url, open) != "0" {
        assert!(began.elapsed() < PATIENCE, "connections do not come to rest");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let log = fleet.nodes[0].log();
    for sign in ["25P02", "25P01", "current transaction is aborted", "panicked"] {
        assert!(!log.contains(sign), "{sign}: {log}");
    }
}
