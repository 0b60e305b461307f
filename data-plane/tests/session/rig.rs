//! A server, an owner, a raw client that may say anything, and a proxy that may cut.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use orch8_data_plane::{
    grpc::Workers,
    session::{FromSession, Offered, ReadyTask, SessionConfig, Sessions, TaskRef},
    shard::{Mailboxes, Post},
};
use orch8_engine::{Dispatch, HowLost, Outcome};
use orch8_model::{
    ClaimEpoch, ContinuityId, InstanceId, PlacementEpoch, Role, SequenceName, Shard, TaskId, TenantId,
};
use orch8_proto::identity::{Authenticate, Grant, KeyRing};
use orch8_proto::v1::{
    self, session_request::Frame as Out, session_response::Frame as In,
    worker_service_client::WorkerServiceClient, worker_service_server::WorkerServiceServer,
};
use orch8_seal::SecretText;
use orch8_worker::{Worker, WorkerBuilder};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, Streaming, transport::Channel, transport::Server};
use uuid::Uuid;

/// Longest wait for something that must happen. Generous: the machine is shared.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A tenth of every time.
pub fn fast() -> SessionConfig {
    SessionConfig::default().faster(10)
}

/// A node with one shard.
pub struct Node {
    pub sessions: Sessions,
    pub address: SocketAddr,
    pub owner: Arc<Owner>,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Node {
    pub async fn start(config: SessionConfig) -> Self {
        let mailboxes = Mailboxes::new(1);
        let ends = vec![mailboxes.open(orch8_model::Shard(0))];
        let sessions = Sessions::start(config, mailboxes);
        let owner = Arc::new(Owner::new(sessions.clone()));
        for end in ends {
            tokio::spawn(owner.clone().read(end));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let hub = sessions.clone();
        let service = WorkerServiceServer::new(Workers(move |_: &TenantId| Ok(hub.clone())));
        let stop = CancellationToken::new();
        let serve = Server::builder()
            .tcp_nodelay(true)
            .layer(Authenticate::new(keys()))
            .add_service(service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
        let server = tokio::spawn(async move { serve.await.expect("serves") });
        Self { sessions, address, owner, stop, server }
    }

    /// Tells the server to stop accepting; true when it ended in time.
    pub async fn stop_serving(self) -> bool {
        self.stop.cancel();
        timeout(PATIENCE, self.server).await.is_ok()
    }

    /// A worker of the SDK that runs until the token fires.
    pub fn worker(&self, tenant: &str) -> WorkerBuilder {
        worker_at(self.address, tenant)
    }

    pub async fn raw(&self, tenant: &str) -> Raw {
        Raw::connect(self.address, tenant).await
    }

    pub fn offer(&self, tenant: &str, handler: &str, params: Value) -> TaskId {
        self.owner.offer(task(tenant, handler, params))
    }
}

pub fn worker_at(address: SocketAddr, tenant: &str) -> WorkerBuilder {
    Worker::builder(format!("http://{address}"))
        .credential(tenant)
        .reconnect(Duration::from_millis(20), Duration::from_millis(500))
}

/// A worker's key of each tenant, which is the tenant's name, and a client's key.
fn keys() -> KeyRing {
    let grant = |tenant: &str, role: Role, key: &str| {
        let tenant = Some(TenantId::parse(tenant).expect("a name"));
        let grant = Grant { tenant, roles: [role].into_iter().collect(), expires_at: None, revoked: false };
        (SecretText::new(key.to_owned()).digest(), grant)
    };
    let keys = KeyRing::new();
    keys.replace(["acme", "globex", "big", "small"].into_iter().flat_map(|tenant| {
        [grant(tenant, Role::Worker, tenant), grant(tenant, Role::Client, &format!("{tenant}-client"))]
    }));
    keys
}

/// A try of the step `handler`, ready for a worker.
pub fn task(tenant: &str, handler: &str, params: Value) -> ReadyTask {
    let instance = Uuid::now_v7();
    ReadyTask {
        tenant: TenantId::parse(tenant).expect("a name"),
        weight: 1,
        priority: 1,
        instance: InstanceId(instance),
        continuity: ContinuityId(instance),
        sequence: SequenceName::parse("orders").expect("a name"),
        shard: Shard(0),
        placement: PlacementEpoch::default(),
        dispatch: Box::new(Dispatch {
            node: Default::default(),
            task: TaskId(Uuid::now_v7()),
            attempt: 0,
            claim_epoch: ClaimEpoch::new(1).expect("small"),
            handler: handler.to_owned(),
            block_id: "block".to_owned(),
            block_path: vec!["outer".to_owned(), "block".to_owned()],
            iteration: "0.2".to_owned(),
            params,
            context: json!({ "data": { "who": tenant }, "config": {} }),
            idempotency_key: "ab".repeat(32),
            at_most_once: false,
            timeout_ms: None,
            schedule_to_start_ms: None,
        }),
    }
}

/// How the owner takes results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Commits,
    /// Drops the sender of the first answer to each task.
    LosesTheFirst,
    /// Commits, and never says so.
    CommitsInSilence,
}

/// What the owner knows of one task.
#[derive(Clone, Debug)]
pub struct Page {
    pub claim_epoch: ClaimEpoch,
    pub outcome: Option<Outcome>,
    pub lost: Vec<HowLost>,
    /// Results received, whatever became of them.
    pub reports: usize,
    pub commits: usize,
    pub stale: usize,
    again: Option<Again>,
}

/// Makes the task once more, with this claim epoch.
#[derive(Clone)]
struct Again(Arc<dyn Fn(ClaimEpoch) -> ReadyTask + Send + Sync>);

impl std::fmt::Debug for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Again")
    }
}

/// The owner of a shard, without a store: judges by (task, claim epoch), sends again what never started.
pub struct Owner {
    sessions: Sessions,
    book: Mutex<HashMap<TaskId, Page>>,
    changed: watch::Sender<u64>,
    mood: Mutex<Mood>,
}

impl Owner {
    fn new(sessions: Sessions) -> Self {
        Self {
            sessions,
            book: Mutex::default(),
            changed: watch::Sender::new(0),
            mood: Mutex::new(Mood::Commits),
        }
    }

    pub fn mood(&self, mood: Mood) {
        *self.mood.lock().expect("not poisoned") = mood;
    }

    pub fn offer(&self, task: ReadyTask) -> TaskId {
        let id = task.dispatch.task;
        self.write(id, task.dispatch.claim_epoch, None);
        assert!(matches!(self.sessions.offer(task), Offered::Queued));
        id
    }

    /// Offers a task, and the same with a higher claim epoch whenever it is lost.
    pub fn offer_until_done(&self, make: impl Fn() -> ReadyTask + Send + Sync + 'static) -> TaskId {
        let first = make();
        let (id, template) = (first.dispatch.task, Mutex::new(first));
        let again = move |claim_epoch| {
            let template = template.lock().expect("not poisoned");
            let mut next = make();
            next.instance = template.instance;
            next.dispatch.task = template.dispatch.task;
            next.dispatch.claim_epoch = claim_epoch;
            next
        };
        let first = again(ClaimEpoch::new(1).expect("small"));
        self.write(id, first.dispatch.claim_epoch, Some(Again(Arc::new(again))));
        assert!(matches!(self.sessions.offer(first), Offered::Queued));
        id
    }

    fn write(&self, id: TaskId, claim_epoch: ClaimEpoch, again: Option<Again>) {
        let page =
            Page { claim_epoch, outcome: None, lost: Vec::new(), reports: 0, commits: 0, stale: 0, again };
        self.book.lock().expect("not poisoned").insert(id, page);
    }

    pub fn page(&self, task: TaskId) -> Page {
        self.book.lock().expect("not poisoned")[&task].clone()
    }

    /// Waits until the page says so.
    pub async fn until(&self, task: TaskId, what: &str, holds: impl Fn(&Page) -> bool) -> Page {
        let mut changes = self.changed.subscribe();
        let found = timeout(PATIENCE, async {
            loop {
                changes.borrow_and_update();
                let page = self.page(task);
                if holds(&page) {
                    return page;
                }
                changes.changed().await.expect("the owner lives");
            }
        });
        match found.await {
            Ok(page) => page,
            Err(_) => panic!("{what}: {:?}", self.page(task)),
        }
    }

    pub async fn done(&self, task: TaskId) -> Outcome {
        let page = self.until(task, "never done", |page| page.outcome.is_some()).await;
        page.outcome.expect("done")
    }

    async fn read(self: Arc<Self>, mut mail: mpsc::Receiver<Post>) {
        // Held, so that an answer that is not given is not an answer either.
        let mut silent = Vec::new();
        while let Some(post) = mail.recv().await {
            match post {
                Post::Session(FromSession::Reported { task, outcome, answer, .. }) => {
                    let mood = *self.mood.lock().expect("not poisoned");
                    let (status, reports) = self.judge(task, outcome, mood);
                    match mood {
                        Mood::LosesTheFirst if reports == 1 => drop(answer),
                        Mood::Commits | Mood::LosesTheFirst => {
                            let _ = answer
                                .send(v1::ResultAck { status: status.into(), ..v1::ResultAck::default() });
                        }
                        Mood::CommitsInSilence => silent.push(answer),
                    }
                }
                Post::Session(FromSession::Lost { task, how }) => self.lost(task, how),
                Post::Session(FromSession::Adopt { task, answer, .. }) => {
                    let _ = answer.send(self.adopted(task));
                }
                Post::Nudge | Post::Settled(_) => {}
            }
            self.changed.send_modify(|n| *n += 1);
        }
    }

    fn judge(&self, task: TaskRef, outcome: Outcome, mood: Mood) -> (v1::ResultStatus, usize) {
        let mut book = self.book.lock().expect("not poisoned");
        let Some(page) = book.get_mut(&task.task) else { return (v1::ResultStatus::StaleLease, 0) };
        page.reports += 1;
        if mood == Mood::LosesTheFirst && page.reports == 1 {
            return (v1::ResultStatus::RetryLater, 1);
        }
        let status = if page.claim_epoch != task.claim_epoch {
            page.stale += 1;
            v1::ResultStatus::StaleLease
        } else if page.outcome.is_some() {
            v1::ResultStatus::Duplicate
        } else {
            page.outcome = Some(outcome);
            page.commits += 1;
            v1::ResultStatus::Committed
        };
        (status, page.reports)
    }

    /// A task that was sent before this node was there: in the book, and never offered.
    pub fn inherit(&self, make: impl Fn() -> ReadyTask + Send + Sync + 'static) -> TaskRef {
        let reference = make().reference();
        self.write(reference.task, reference.claim_epoch, Some(Again(Arc::new(move |_| make()))));
        reference
    }

    fn adopted(&self, task: TaskRef) -> Option<Box<ReadyTask>> {
        let book = self.book.lock().expect("not poisoned");
        let page = book.get(&task.task).filter(|page| page.claim_epoch == task.claim_epoch)?;
        page.again.as_ref().map(|Again(again)| Box::new(again(task.claim_epoch)))
    }

    fn lost(&self, task: TaskRef, how: HowLost) {
        let mut book = self.book.lock().expect("not poisoned");
        let Some(page) = book.get_mut(&task.task) else { return };
        if page.claim_epoch != task.claim_epoch || page.outcome.is_some() {
            return;
        }
        page.lost.push(how);
        if let Some(Again(again)) = page.again.clone() {
            page.claim_epoch = page.claim_epoch.checked_next().expect("small");
            let next = again(page.claim_epoch);
            assert!(matches!(self.sessions.offer(next), Offered::Queued));
        }
    }
}

/// A client that says what it likes.
pub struct Raw {
    pub out: mpsc::Sender<v1::SessionRequest>,
    pub inbound: Streaming<v1::SessionResponse>,
}

impl Raw {
    pub async fn client(address: SocketAddr) -> WorkerServiceClient<Channel> {
        let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
        WorkerServiceClient::new(channel.connect().await.expect("connects"))
    }

    pub async fn connect(address: SocketAddr, tenant: &str) -> Self {
        let (out, frames) = mpsc::channel(64);
        let mut request = Request::new(ReceiverStream::new(frames));
        let key = format!("Bearer {tenant}").parse().expect("ascii");
        request.metadata_mut().insert("authorization", key);
        let inbound = Self::client(address).await.session(request).await.expect("a stream").into_inner();
        Self { out, inbound }
    }

    /// Connects and opens a session; answers its Welcome.
    pub async fn open(node: &Node, tenant: &str, hello: v1::Hello) -> (Self, v1::Welcome) {
        let mut raw = node.raw(tenant).await;
        raw.say(Out::Hello(hello)).await;
        match raw.next().await {
            Some(In::Welcome(welcome)) => (raw, welcome),
            other => panic!("not a Welcome: {other:?}"),
        }
    }

    pub async fn say(&self, frame: Out) {
        self.out.send(v1::SessionRequest { frame: Some(frame) }).await.expect("the stream stands");
    }

    pub async fn credit(&self, tasks: u32) {
        self.say(Out::Credit(v1::Credit { lane: "lane".to_owned(), tasks, bytes: 0 })).await;
    }

    pub async fn received(&self, up_to_seq: u64) {
        self.say(Out::Received(v1::Received { up_to_seq })).await;
    }

    /// The next frame that is not a Ping. `None`: the stream ended without an error.
    pub async fn next(&mut self) -> Option<In> {
        self.result().await.expect("no error")
    }

    pub async fn result(&mut self) -> Result<Option<In>, Status> {
        loop {
            match timeout(PATIENCE, self.inbound.message()).await.expect("in time")? {
                Some(v1::SessionResponse { frame: Some(In::Ping(_)) }) => {}
                Some(response) => return Ok(response.frame),
                None => return Ok(None),
            }
        }
    }

    pub async fn dispatch(&mut self) -> v1::Dispatch {
        match self.next().await {
            Some(In::Dispatch(dispatch)) => dispatch,
            other => panic!("not a Dispatch: {other:?}"),
        }
    }

    /// No frame but Pings for this long.
    pub async fn is_quiet(&mut self, long: Duration) -> bool {
        let until = Instant::now() + long;
        loop {
            match timeout(until.saturating_duration_since(Instant::now()), self.inbound.message()).await {
                Err(_) => return true,
                Ok(Ok(Some(v1::SessionResponse { frame: Some(In::Ping(_)) }))) => {}
                Ok(_) => return false,
            }
        }
    }

    /// How the stream ends, whatever else it says before.
    pub async fn end(&mut self) -> Result<(), Status> {
        while self.result().await?.is_some() {}
        Ok(())
    }
}

pub fn hello(worker: &str, handlers: &[&str]) -> v1::Hello {
    v1::Hello {
        worker_id: worker.to_owned(),
        instance_nonce: "nonce".to_owned(),
        version: "1.2.3".to_owned(),
        lanes: vec![v1::Lane {
            name: "lane".to_owned(),
            handlers: handlers.iter().map(|handler| (*handler).to_owned()).collect(),
        }],
        ..v1::Hello::default()
    }
}

pub fn completed(task: &v1::Task, json: &str) -> v1::TaskResult {
    let payload = v1::Payload { data: json.to_owned().into(), content_type: String::new() };
    v1::TaskResult {
        lease: task.lease.clone(),
        route: task.route,
        outcome: Some(v1::task_result::Outcome::Completed(payload)),
    }
}

/// Forwards TCP to a server, until it is told to cut.
pub struct Proxy {
    pub address: SocketAddr,
    cut: Mutex<CancellationToken>,
}

impl Proxy {
    pub async fn to(target: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let proxy = Arc::new(Self { address, cut: Mutex::default() });
        let forward = proxy.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let cut = forward.cut.lock().expect("not poisoned").clone();
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = cut.cancelled() => {}
                    }
                });
            }
        });
        proxy
    }

    /// Closes every connection that stands; later ones work.
    pub fn cut(&self) {
        let mut cut = self.cut.lock().expect("not poisoned");
        std::mem::take(&mut *cut).cancel();
    }
}

/// Waits until something holds.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
