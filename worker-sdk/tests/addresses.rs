//! A worker with several addresses finds the server that takes it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::stream;
use orch8_model::{Fault, Reason, Role};
use orch8_proto::{
    identity::{Grant, KeyRing},
    limited,
    serve::{Services, serve},
    status,
    v1::{self, worker_service_server as workers},
};
use orch8_worker::Worker;
use tokio::{net::TcpListener, sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(5);
/// What a server that does not take a worker asks for; longer than these tests wait.
const MUCH_LATER: Duration = Duration::from_secs(30);

/// A server that owns shards, or does not.
struct Node {
    owns: bool,
    asked: AtomicUsize,
    welcomed: Notify,
}

struct Api(Arc<Node>);

#[tonic::async_trait]
impl workers::WorkerService for Api {
    type SessionStream = stream::BoxStream<'static, Result<v1::SessionResponse, Status>>;

    async fn session(
        &self,
        _: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.0.asked.fetch_add(1, Relaxed);
        if !self.0.owns {
            let fault = Fault::new(Reason::ShardMoving, "owns no shard").retry_after(MUCH_LATER);
            return Err(status::of(fault));
        }
        self.0.welcomed.notify_one();
        let welcome = v1::Welcome { session_id: "s".into(), ..Default::default() };
        let welcome = v1::SessionResponse { frame: Some(v1::session_response::Frame::Welcome(welcome)) };
        let frames = stream::iter([Ok(welcome)]);
        Ok(Response::new(Box::pin(stream::StreamExt::chain(frames, stream::pending()))))
    }

    async fn list_handlers(
        &self,
        _: Request<v1::ListHandlersRequest>,
    ) -> Result<Response<v1::ListHandlersResponse>, Status> {
        Ok(Response::new(v1::ListHandlersResponse::default()))
    }

    async fn list_sessions(
        &self,
        _: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        Ok(Response::new(v1::ListSessionsResponse::default()))
    }
}

async fn node(owns: bool) -> (Arc<Node>, SocketAddr, CancellationToken) {
    let node = Arc::new(Node { owns, asked: AtomicUsize::new(0), welcomed: Notify::new() });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (keys, stop) = (KeyRing::new(), CancellationToken::new());
    let roles = [Role::Worker].into_iter().collect();
    keys.update([(
        orch8_seal::sha256(b"k"),
        Grant { tenant: None, roles, expires_at: None, revoked: false },
    )]);
    let services = Services::new().with(limited!(workers::WorkerServiceServer::new(Api(Arc::clone(&node)))));
    tokio::spawn(serve(listener, services, keys, stop.clone(), Duration::from_millis(100)));
    (node, address, stop)
}

#[tokio::test]
async fn a_worker_goes_from_server_to_server_until_one_takes_it_and_on_when_that_one_leaves() {
    let (refusing, refuses, _one) = node(false).await;
    let (first, takes, leaving) = node(true).await;
    let (second, takes_too, _two) = node(true).await;
    // A port that nobody listens on any more.
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let addresses = format!("http://{dead},http://{refuses},http://{takes},http://{takes_too}");
    let stop = CancellationToken::new();
    let worker = Worker::builder(addresses)
        .credential("k")
        .raw_handler("echo", |_, input| async { Ok(input) })
        .drain_timeout(Duration::from_millis(100));
    let running = tokio::spawn(worker.run(stop.clone().cancelled_owned()));

    let began = Instant::now();
    let either = async {
        tokio::select! {
            () = first.welcomed.notified() => &second,
            () = second.welcomed.notified() => &first,
        }
    };
    let other = timeout(SOON, either).await.expect("a session, whoever was asked first");
    if std::ptr::eq(other, &second) {
        leaving.cancel();
        timeout(SOON, second.welcomed.notified()).await.expect("a session at the other one");
    }
    assert!(began.elapsed() < MUCH_LATER / 2, "nobody waited for the one that does not take it");
    assert!(refusing.asked.load(Relaxed) <= 2, "it is asked once a round");
    stop.cancel();
    let _ended = timeout(SOON, running).await.expect("it ends").expect("no panic");
}
