//! A fleet of real processes: a control plane, and data-plane nodes on one store.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use orch8_proto::v1;
use serde_json::Value;

use super::{Client, ORCH8, PATIENCE, signal};

/// Name of the one store.
pub const STORE: &str = "main";
/// Times of leases and sessions are a tenth: a node is given up after a second.
const FASTER: &str = "10";

/// The database a test runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Sqlite,
    Postgres,
}

/// What a fleet is made of.
#[derive(Default)]
pub struct Plan {
    pub kind: Kind,
    pub nodes: usize,
    /// Where [`STORE`] is, if not in a database of its own.
    pub store_url: Option<String>,
    /// Stores beside it, of the same kind.
    pub more_stores: Vec<(&'static str, String)>,
    /// Where the control plane keeps its own, if not in a file.
    pub control_url: Option<String>,
    /// Replicas of the control plane beside the first.
    pub replicas: usize,
    /// Times of leases and sessions are those of every day.
    pub full_length: bool,
}

/// Processes on addresses of their own, ended when dropped.
pub struct Fleet {
    dir: tempfile::TempDir,
    kind: Kind,
    pub store_url: String,
    /// Every store of every node, [`STORE`] first: name and address.
    stores: Vec<(&'static str, String)>,
    pub control: Process,
    /// More replicas of the control plane.
    pub replicas: Vec<Process>,
    pub nodes: Vec<Process>,
    faster: &'static str,
    operator_key: String,
    node_key: String,
}

/// One process that can be killed, paused, and started again where it was.
pub struct Process {
    name: String,
    args: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
    /// `http://127.a.b.c:7000`
    pub address: String,
}

impl Fleet {
    /// A control plane on SQLite and so many nodes; of a SQLite store one node at most can be alive.
    pub async fn start(kind: Kind, nodes: usize) -> Self {
        Self::start_as(Plan { kind, nodes, ..Plan::default() }).await
    }

    /// Whatever is planned.
    pub async fn start_as(plan: Plan) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let store_url = plan.store_url.unwrap_or_else(|| match plan.kind {
            Kind::Sqlite => format!("sqlite:{}", dir.path().join("store.db").display()),
            Kind::Postgres => orch8_test_postgres::database(),
        });
        let own = format!("sqlite:{}", dir.path().join("control.db").display());
        let control_url = plan.control_url.unwrap_or(own);
        let mut controls = Vec::new();
        for n in 0..=plan.replicas {
            let place = place();
            let name = if n == 0 { "control.toml".to_owned() } else { format!("control-{n}.toml") };
            let config = dir.path().join(name);
            write(&config, &format!("listen = \"{place}\"\ndatabase = \"{control_url}\"\n"));
            controls.push((config, place));
        }
        let operator_key = init(&controls[0].0);
        let faster = if plan.full_length { "1" } else { FASTER };
        let mut controls: Vec<Process> = controls
            .iter()
            .map(|(config, place)| Process::new(dir.path(), "control-plane", config, place, faster))
            .collect();
        controls.iter_mut().for_each(Process::up);
        let stores = [(STORE, store_url.clone())].into_iter().chain(plan.more_stores).collect();
        let control = controls.remove(0);
        let mut fleet = Self {
            dir,
            kind: plan.kind,
            store_url,
            stores,
            control,
            replicas: controls,
            nodes: Vec::new(),
            faster,
            operator_key,
            node_key: String::new(),
        };
        fleet.ready().await;
        fleet.register().await;
        for _ in 0..plan.nodes {
            fleet.add_node();
        }
        if plan.nodes > 0 {
            fleet.owner().await;
        }
        fleet
    }

    /// The same with leases and sessions of their real length.
    pub async fn start_at_full_length(kind: Kind, nodes: usize) -> Self {
        Self::start_as(Plan { kind, nodes, full_length: true, ..Plan::default() }).await
    }

    /// Clients of the control plane, with the operator's key.
    pub fn operator(&self) -> Client {
        self.operator_at(&self.control.address)
    }

    /// The same at another replica.
    pub fn operator_at(&self, address: &str) -> Client {
        Client::new(address, &self.operator_key)
    }

    /// Another node on the same stores.
    pub fn add_node(&mut self) {
        let node = self.process_of_node(self.nodes.len() + 1);
        self.nodes.push(node);
        self.nodes.last_mut().expect("one").up();
    }

    /// One more process with the name of node `n`, counted from 1, at another place; not started.
    pub fn process_of_node(&self, n: usize) -> Process {
        let place = place();
        let config = self.dir.path().join(format!("node-{n}-{}.toml", place.replace([':', '.'], "-")));
        let controls: Vec<String> = std::iter::once(&self.control)
            .chain(&self.replicas)
            .map(|control| format!("\"{}\"", control.address))
            .collect();
        let mut text = format!(
            "node = \"n{n}\"\nlisten = \"{place}\"\nadvertise = \"http://{place}\"\ncontrol_plane = [{}]\nkey = \"{}\"\ndrain = \"3s\"\n",
            controls.join(", "),
            self.node_key,
        );
        for (name, url) in &self.stores {
            text += &format!("[stores.{name}]\nurl = \"{url}\"\n");
        }
        write(&config, &text);
        Process::new(self.dir.path(), "data-plane", &config, &place, self.faster)
    }

    /// Index of the node that owns every shard, once there is one that the control plane believes alive.
    pub async fn owner(&self) -> usize {
        let began = Instant::now();
        loop {
            if let Some(owner) = self.owner_now().await {
                return owner;
            }
            assert!(began.elapsed() < PATIENCE, "nobody owns the shards: {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn owner_now(&self) -> Option<usize> {
        let (node, _) = self.owner_of(STORE).await?;
        Some(node)
    }

    /// The node that owns every shard of a store and is believed alive, and the epoch.
    pub async fn owner_of(&self, store: &str) -> Option<(usize, u64)> {
        let fleet =
            self.operator().fleet().describe_fleet(v1::DescribeFleetRequest {}).await.ok()?.into_inner();
        let of_store: Vec<_> = fleet.shards.iter().filter(|shards| shards.store == store).collect();
        let [all] = of_store.as_slice() else { return None };
        let live = fleet.nodes.iter().any(|node| node.node_id == all.node_id && node.live);
        if !live {
            return None;
        }
        let node = all.node_id.strip_prefix('n')?.parse::<usize>().ok()?;
        Some((node - 1, all.lease_epoch))
    }

    /// A tenant placed in the store; clients with a key of all its roles, at the owner of the shards.
    pub async fn tenant(&self, tenant: &str) -> Client {
        self.tenant_in(tenant, STORE).await
    }

    /// The same in another store.
    pub async fn tenant_in(&self, tenant: &str, store: &str) -> Client {
        let operator = self.operator();
        let request = v1::CreateTenantRequest { tenant_id: tenant.into(), ..Default::default() };
        operator.tenants().create_tenant(request).await.expect("a tenant");
        self.place(tenant, store, 1).await;
        let roles = [v1::Role::Client, v1::Role::Publisher, v1::Role::Worker];
        let key = self.key(tenant, &roles).await;
        let began = Instant::now();
        let owner = loop {
            if let Some((owner, _)) = self.owner_of(store).await {
                break owner;
            }
            assert!(began.elapsed() < PATIENCE, "nobody owns {store}: {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let client = Client::new(&self.nodes[owner].address, &key);
        self.known(&client).await;
        client
    }

    /// Places a tenant.
    pub async fn place(&self, tenant: &str, store: &str, epoch: u64) {
        let request = v1::SetPlacementRequest { tenant_id: tenant.into(), store: store.into(), epoch };
        self.operator().placements().set_placement(request).await.expect("a placement");
    }

    /// The same key at another node.
    pub fn at(&self, node: usize, client: &Client) -> Client {
        Client::new(&self.nodes[node].address, &client.key)
    }

    /// Addresses of all nodes, as commands take them.
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(",")
    }

    pub async fn key(&self, tenant: &str, roles: &[v1::Role]) -> String {
        let request = v1::CreateKeyRequest {
            tenant_id: tenant.into(),
            roles: roles.iter().map(|role| i32::from(*role)).collect(),
            ..Default::default()
        };
        self.operator().tenants().create_key(request).await.expect("a key").into_inner().secret
    }

    /// Waits until a node knows the tenant of this key.
    pub async fn known(&self, client: &Client) {
        let began = Instant::now();
        while let Err(why) = client.sequences().list_sequences(v1::ListSequencesRequest::default()).await {
            assert!(began.elapsed() < PATIENCE, "the tenant is not known: {why:?} {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends of all logs.
    pub fn logs(&self) -> String {
        let all = std::iter::once(&self.control).chain(&self.replicas).chain(&self.nodes);
        all.map(|process| format!("== {}\n{}\n", process.name, process.log_end())).collect()
    }

    async fn ready(&mut self) {
        let began = Instant::now();
        let operator = self.operator();
        while operator.tenants().list_tenants(v1::ListTenantsRequest::default()).await.is_err() {
            self.control.check();
            assert!(began.elapsed() < PATIENCE, "the control plane does not answer: {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn register(&mut self) {
        let kind = match self.kind {
            Kind::Sqlite => v1::StoreKind::Sqlite,
            Kind::Postgres => v1::StoreKind::Postgres,
        };
        for (name, _) in &self.stores {
            let request = v1::RegisterStoreRequest { name: (*name).into(), kind: kind.into() };
            self.operator().placements().register_store(request).await.expect("a store");
        }
        self.node_key = self.key("", &[v1::Role::Node]).await;
    }
}

impl Process {
    fn new(dir: &Path, what: &str, config: &Path, place: &str, faster: &str) -> Self {
        let name = config.file_stem().expect("a name").to_string_lossy().into_owned();
        let config = config.to_str().expect("UTF-8");
        Self {
            args: [what, "--config", config, "--faster", faster].map(str::to_owned).to_vec(),
            log: dir.join(format!("{name}.log")),
            name,
            child: None,
            address: format!("http://{place}"),
        }
    }

    /// Starts it.
    pub fn up(&mut self) {
        let log = || fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        let child = Command::new(ORCH8)
            .args(&self.args)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log())
            .stderr(log())
            .spawn()
            .expect("orch8 starts");
        self.child = Some(child);
    }

    /// SIGKILL, if it is up.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM; how long it took to end, and with what.
    pub fn terminate(&mut self) -> (Duration, std::process::ExitStatus) {
        let began = Instant::now();
        let mut child = self.child.take().expect("it is up");
        signal("TERM", child.id());
        let status = child.wait().expect("a child");
        (began.elapsed(), status)
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        signal("STOP", self.pid());
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        signal("CONT", self.pid());
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it is up").id()
    }

    /// Panics when it ended by itself.
    pub fn check(&mut self) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("a child"));
        assert!(ended.is_none(), "{} ended with {ended:?}: {}", self.name, self.log_end());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A place to listen that is nobody else's, also after a restart: all of 127.0.0.0/8 is this machine.
fn place() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = ((std::process::id() % 0xffff) as u16).to_be_bytes();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(
        "127.{}.{low}.{}:{}",
        64 + high % 128,
        1 + n % 250,
        7_000 + n / 250 + u16::from(high / 128) * 1_000
    )
}

/// Makes the first operator key.
fn init(config: &Path) -> String {
    let said = Command::new(ORCH8)
        .args(["control-plane", "init", "--output", "json", "--config"])
        .arg(config)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("orch8 runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    said["secret"].as_str().expect("a secret").to_owned()
}

fn write(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .expect("a file");
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("written");
}
