//! Real processes for system tests: an engine in a folder of its own, and clients that speak to it over gRPC.

#![allow(dead_code)]

pub mod fleet;
pub mod house;
pub mod line;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use orch8_proto::v1::{
    self, fleet_service_client::FleetServiceClient, instance_service_client::InstanceServiceClient,
    placement_service_client::PlacementServiceClient, sequence_service_client::SequenceServiceClient,
    signal_service_client::SignalServiceClient, tenant_service_client::TenantServiceClient,
    worker_service_client::WorkerServiceClient,
};
use serde_json::Value;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

/// Longest wait for something that must happen; the machine is shared.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The `orch8` command that these tests are of.
pub const ORCH8: &str = env!("CARGO_BIN_EXE_orch8");

/// `orch8 dev` in a folder that outlives it.
pub struct Engine {
    dir: PathBuf,
    _own: Option<tempfile::TempDir>,
    child: Child,
    pub connection: Value,
}

impl Engine {
    /// Starts one in a new folder.
    pub async fn start() -> Self {
        let own = tempfile::tempdir().expect("a folder");
        let dir = own.path().join("orch8");
        let mut engine = Self::start_in(&dir).await;
        engine._own = Some(own);
        engine
    }

    /// Starts one in this folder.
    pub async fn start_in(dir: &Path) -> Self {
        Self::start_with(dir, &["--listen", "127.0.0.1:0"]).await
    }

    /// Starts one in this folder with more arguments.
    pub async fn start_with(dir: &Path, more: &[&str]) -> Self {
        let child = Command::new(ORCH8)
            .args(["dev", "--dir"])
            .arg(dir)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(
                fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(dir.with_extension("log"))
                    .expect("a log"),
            )
            .spawn()
            .expect("orch8 starts");
        let mut engine = Self { dir: dir.to_owned(), _own: None, child, connection: Value::Null };
        engine.connection = engine.wait_until_ready().await;
        engine
    }

    async fn wait_until_ready(&mut self) -> Value {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                panic!("orch8 dev ended with {status}: {}", self.log());
            }
            let text = fs::read(self.dir.join("connection.json")).unwrap_or_default();
            if let Ok(found) = serde_json::from_slice::<Value>(&text)
                && found["pid"] == self.child.id()
            {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "orch8 dev is not ready: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.with_extension("log")).unwrap_or_default()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> String {
        self.connection["address"].as_str().expect("an address").to_owned()
    }

    pub fn key(&self, name: &str) -> String {
        self.connection[format!("{name}_key")].as_str().expect("a key").to_owned()
    }

    /// SIGTERM; how long it took to end, and with what.
    pub fn terminate(&mut self) -> (Duration, std::process::ExitStatus) {
        let began = Instant::now();
        signal("TERM", self.child.id());
        let status = self.child.wait().expect("a child");
        (began.elapsed(), status)
    }

    /// SIGKILL, then a new process on the same folder.
    pub async fn crash_and_restart(&mut self) {
        self.kill();
        let next = Self::start_in(&self.dir).await;
        let own = self._own.take();
        *self = next;
        self._own = own;
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Clients with the tenant's key.
    pub fn client(&self) -> Client {
        Client::new(&self.address(), &self.key("client"))
    }

    /// Clients with the operator's key.
    pub fn operator(&self) -> Client {
        Client::new(&self.address(), &self.key("operator"))
    }

    /// A tenant of its own beside `dev`, placed in the same store; clients with a key of all its roles.
    pub async fn tenant(&self, tenant: &str) -> Client {
        let operator = self.operator();
        operator
            .tenants()
            .create_tenant(v1::CreateTenantRequest { tenant_id: tenant.into(), ..Default::default() })
            .await
            .expect("a tenant");
        operator
            .placements()
            .set_placement(v1::SetPlacementRequest {
                tenant_id: tenant.into(),
                store: "local".into(),
                epoch: 1,
            })
            .await
            .expect("a placement");
        let roles = [v1::Role::Client, v1::Role::Publisher, v1::Role::Worker];
        let key = operator
            .tenants()
            .create_key(v1::CreateKeyRequest {
                tenant_id: tenant.into(),
                roles: roles.map(i32::from).to_vec(),
                request_id: format!("{tenant}-key"),
                ..Default::default()
            })
            .await
            .expect("a key")
            .into_inner();
        let client = Client::new(&self.address(), &key.secret);
        // The data plane hears of the placement over its watch.
        let began = Instant::now();
        while client.sequences().list_sequences(v1::ListSequencesRequest::default()).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the placement of {tenant} does not arrive");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process.
pub fn signal(name: &str, pid: u32) {
    let sent =
        Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "kill -{name} {pid}");
}

/// Puts a key on every call.
#[derive(Clone)]
pub struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

type Api = InterceptedService<Channel, Bearer>;

/// Clients of every service, with one key.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    bearer: Bearer,
    pub key: String,
    pub address: String,
}

impl Client {
    pub fn new(address: &str, key: &str) -> Self {
        let channel = Endpoint::from_shared(address.to_owned()).expect("an address").connect_lazy();
        let bearer = Bearer(format!("Bearer {key}").parse().expect("a header"));
        Self { channel, bearer, key: key.to_owned(), address: address.to_owned() }
    }

    pub fn sequences(&self) -> SequenceServiceClient<Api> {
        SequenceServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }
    pub fn instances(&self) -> InstanceServiceClient<Api> {
        InstanceServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }
    pub fn signals(&self) -> SignalServiceClient<Api> {
        SignalServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }
    pub fn workers(&self) -> WorkerServiceClient<Api> {
        WorkerServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }
    pub fn tenants(&self) -> TenantServiceClient<Api> {
        TenantServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }
    pub fn placements(&self) -> PlacementServiceClient<Api> {
        PlacementServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }
    pub fn fleet(&self) -> FleetServiceClient<Api> {
        FleetServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }

    /// Publishes a document.
    pub async fn publish(&self, document: &Value) -> Result<v1::PublishSequenceResponse, Status> {
        let request = v1::PublishSequenceRequest { document: Some(payload(document)), ..Default::default() };
        self.sequences().publish_sequence(request).await.map(tonic::Response::into_inner)
    }

    /// Starts one run of a sequence by name.
    pub async fn start(&self, name: &str, data: &Value) -> Result<String, Status> {
        let request = v1::StartInstanceRequest {
            sequence_name: name.into(),
            data: Some(payload(data)),
            ..Default::default()
        };
        self.instances().start_instance(request).await.map(|r| r.into_inner().instance_id)
    }

    /// The run as it is now.
    pub async fn instance(&self, id: &str) -> v1::Instance {
        let request = v1::GetInstanceRequest { instance_id: id.into(), ..Default::default() };
        let asked = async || self.instances().get_instance(request.clone()).await;
        patiently(asked).await.expect("the instance").instance.expect("one")
    }

    /// The run once it has ended.
    pub async fn ended(&self, id: &str) -> v1::Instance {
        self.ended_within(id, PATIENCE).await
    }

    /// The run once it has ended, for runs that take long.
    pub async fn ended_within(&self, id: &str, patience: Duration) -> v1::Instance {
        let began = Instant::now();
        loop {
            let instance = self.instance(id).await;
            use v1::InstanceState::{Cancelled, Completed, Failed};
            if matches!(instance.state(), Completed | Failed | Cancelled) {
                return instance;
            }
            let waits: Vec<_> = instance.waits.iter().take(3).collect();
            assert!(
                began.elapsed() < patience,
                "instance {id} does not end: {:?} {waits:?}",
                instance.state()
            );
            // A short run ends soon; a long one is not slowed down by being watched.
            tokio::time::sleep(began.elapsed().clamp(Duration::from_millis(20), Duration::from_secs(1)))
                .await;
        }
    }

    /// Output rows of a run, all of them: (block, iteration, output).
    pub async fn outputs(&self, id: &str) -> Vec<(String, String, Value)> {
        let (mut rows, mut after_seq) = (Vec::new(), 0);
        loop {
            let request = v1::GetOutputsRequest {
                instance_id: id.into(),
                after_seq,
                page_size: 1000,
                ..Default::default()
            };
            let asked = async || self.instances().get_outputs(request.clone()).await;
            let page = patiently(asked).await.expect("outputs");
            rows.extend(
                page.outputs.into_iter().map(|row| (row.block_id, row.iteration, value(row.output.as_ref()))),
            );
            if page.next_after_seq == 0 {
                return rows;
            }
            after_seq = page.next_after_seq;
        }
    }

    /// Sends a custom signal.
    pub async fn signal(
        &self,
        id: &str,
        name: &str,
        payload_value: &Value,
    ) -> Result<v1::SendSignalResponse, Status> {
        let custom = v1::CustomSignal { name: name.into(), payload: Some(payload(payload_value)) };
        let request = v1::SendSignalRequest {
            instance_id: id.into(),
            signal: Some(v1::send_signal_request::Signal::Custom(custom)),
            ..Default::default()
        };
        self.signals().send_signal(request).await.map(tonic::Response::into_inner)
    }
}

/// Asks again while the answer is UNAVAILABLE: something is moving, and says so.
async fn patiently<T>(ask: impl AsyncFn() -> Result<tonic::Response<T>, Status>) -> Result<T, Status> {
    let began = Instant::now();
    loop {
        match ask().await {
            Err(why) if why.code() == tonic::Code::Unavailable && began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer.map(tonic::Response::into_inner),
        }
    }
}

/// A value as a payload.
pub fn payload(value: &Value) -> v1::Payload {
    v1::Payload { data: value.to_string().into(), content_type: String::new() }
}

/// A payload's value.
pub fn value(payload: Option<&v1::Payload>) -> Value {
    payload.map_or(Value::Null, |p| serde_json::from_slice(&p.data).expect("JSON"))
}

/// `ErrorInfo.reason` of a refusal.
pub fn reason(status: &Status) -> String {
    use tonic_types::StatusExt;
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}
