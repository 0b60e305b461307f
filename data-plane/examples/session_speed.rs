//! Tasks per second through worker sessions with an owner that commits nothing: what the sessions and the transport
//! cost by themselves, over loopback, client and server in one process.
//!
//! `cargo run --release -p orch8-data-plane --example session_speed [workers] [in flight per worker] [seconds]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use orch8_data_plane::{
    grpc::Workers,
    session::{FromSession, Offered, ReadyTask, SessionConfig, Sessions},
    shard::{Mailboxes, Post},
};
use orch8_engine::Dispatch;
use orch8_model::{
    ClaimEpoch, ContinuityId, InstanceId, PlacementEpoch, Role, SequenceName, Shard, TaskId, TenantId,
};
use orch8_proto::{
    identity::{Authenticate, Grant, KeyRing},
    v1::{ResultAck, ResultStatus, worker_service_server::WorkerServiceServer},
};
use orch8_seal::SecretText;
use orch8_worker::{StepContext, Worker};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use uuid::Uuid;

const SHARDS: u16 = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |default: usize| arguments.next().transpose().map(|n| n.unwrap_or(default));
    let (workers, in_flight, seconds) = (next(2)?, next(256)?, next(5)?);

    let mailboxes = Mailboxes::new(SHARDS);
    let ends: Vec<_> = (0..SHARDS).map(|shard| mailboxes.open(Shard(shard))).collect();
    let sessions = Sessions::start(SessionConfig::default(), mailboxes);
    let done = Arc::new(AtomicU64::new(0));
    let window = workers * in_flight * 2;
    for (shard, end) in ends.into_iter().enumerate() {
        let shard = Shard(u16::try_from(shard)?);
        tokio::spawn(own(shard, end, sessions.clone(), done.clone(), window / usize::from(SHARDS)));
    }

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let keys = KeyRing::new();
    let (tenant, roles) = (Some(TenantId::parse("acme")?), [Role::Worker].into_iter().collect());
    let grant = Grant { tenant, roles, expires_at: None, revoked: false };
    keys.replace([(SecretText::new("key".to_owned()).digest(), grant)]);
    let service = WorkerServiceServer::new(Workers(move |_: &TenantId| Ok(sessions.clone())));
    let server = Server::builder().tcp_nodelay(true).layer(Authenticate::new(keys)).add_service(service);
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(server.serve_with_incoming(incoming));
    for _ in 0..workers {
        let worker = Worker::builder(&address)
            .credential("key")
            .raw_handler("echo", |_: StepContext, input: Bytes| async move { Ok(input) })
            .max_in_flight(in_flight);
        tokio::spawn(worker.run(std::future::pending()));
    }

    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..seconds {
        let (before, began) = (done.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let rate = (done.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
        println!(
            "{rate:9.0} tasks/s  ({workers} workers × {in_flight} in flight, 256-byte params and output)"
        );
    }
    Ok(())
}

/// An owner without a store: every result is committed at once and followed by another task.
async fn own(
    shard: Shard,
    mut mail: mpsc::Receiver<Post>,
    sessions: Sessions,
    done: Arc<AtomicU64>,
    window: usize,
) {
    let params = json!({ "text": "x".repeat(244) });
    offer(&sessions, (0..window).map(|_| task(shard, &params)).collect());
    let mut posts = Vec::new();
    while mail.recv_many(&mut posts, 1_024).await > 0 {
        let mut ready = Vec::new();
        for post in posts.drain(..) {
            if let Post::Session(FromSession::Reported { answer, .. }) = post {
                done.fetch_add(1, Ordering::Relaxed);
                let status = ResultStatus::Committed.into();
                let _ = answer.send(ResultAck { status, ..ResultAck::default() });
                ready.push(task(shard, &params));
            }
        }
        offer(&sessions, ready);
    }
}

fn offer(sessions: &Sessions, tasks: Vec<ReadyTask>) {
    let refused: Vec<Offered> = sessions.offer_all(tasks);
    assert!(refused.is_empty(), "the window is far below the bounds of the queue");
}

fn task(shard: Shard, params: &Value) -> ReadyTask {
    let instance = Uuid::from_u128(7);
    ReadyTask {
        tenant: TenantId::parse("acme").expect("a name"),
        weight: 1,
        priority: 1,
        instance: InstanceId(instance),
        continuity: ContinuityId(instance),
        sequence: SequenceName::parse("orders").expect("a name"),
        shard,
        placement: PlacementEpoch::default(),
        dispatch: Box::new(Dispatch {
            node: Default::default(),
            task: TaskId(Uuid::now_v7()),
            attempt: 0,
            claim_epoch: ClaimEpoch::default(),
            handler: "echo".to_owned(),
            block_id: "echo".to_owned(),
            block_path: vec!["echo".to_owned()],
            iteration: String::new(),
            params: params.clone(),
            context: json!({ "data": {}, "config": {} }),
            idempotency_key: "00".repeat(32),
            at_most_once: false,
            timeout_ms: None,
            schedule_to_start_ms: None,
        }),
    }
}
