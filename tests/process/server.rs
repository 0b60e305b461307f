//! Server commands as processes, and clients of them.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use orch8_control_plane::{Bootstrap, ControlPlane, StoreKind};
use orch8_model::{DatabaseUrl, Role, StoreName, TenantId};
use orch8_proto::{
    client::{Address, Channels, Dial},
    tls::ClientTls,
    v1::{fleet_service_client::FleetServiceClient, tenant_service_client::TenantServiceClient},
};
use orch8_seal::SecretText;
use tonic::Request;

/// Longest wait for something that must happen; the machine is shared.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// May everything that the deployment itself may.
pub const ADMIN: &str = "admin";
pub const NODE: &str = "node";

/// The command without any setting of this process.
pub fn orch8(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch8"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ORCH8_")) {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Output {
    orch8(args).output().expect("orch8 runs")
}

/// A server process in a folder of its own.
pub struct Server {
    pub child: Child,
    pub address: String,
    said: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a control plane whose database has the keys [`ADMIN`] and [`NODE`], on a free port of loopback.
    pub async fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("control.db");
        make_keys(&database).await;
        let setting = format!("database=sqlite:{}", database.display());
        let args = ["control-plane", "--listen", "127.0.0.1:0", "--set", &setting];
        Self::spawn(folder, &[&args, more].concat()).await
    }

    /// Starts a data plane with one store, `main`, on a free port of loopback.
    pub async fn start_data_plane(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = format!("stores.main.url=sqlite:{}", folder.path().join("store.db").display());
        let args = ["data-plane", "--listen", "127.0.0.1:0", "--node", "n1", "--set", &setting];
        Self::spawn(folder, &[&args, more].concat()).await
    }

    async fn spawn(folder: tempfile::TempDir, args: &[&str]) -> Self {
        let mut child =
            orch8(args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("orch8 starts");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, heard) = (BufReader::new(child.stderr.take().expect("piped")).lines(), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("unpoisoned").push(line);
            }
        });
        let mut server = Self { child, address: String::new(), said, _folder: folder };
        server.address = server.wait_for("is ready at ").await;
        server
    }

    /// What follows these words on a line that the process said.
    async fn wait_for(&mut self, words: &str) -> String {
        let began = Instant::now();
        loop {
            let said = self.said.lock().expect("unpoisoned").clone();
            if let Some((_, rest)) = said.iter().find_map(|line| line.split_once(words)) {
                return rest.to_owned();
            }
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{ended:?} {said:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn said(&self) -> String {
        self.said.lock().expect("unpoisoned").join("\n")
    }

    pub fn socket(&self) -> SocketAddr {
        let (_, socket) = self.address.split_once("://").expect("an address");
        socket.parse().expect("an address")
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// How long it took from now, and with what it ended.
    pub async fn ended(&mut self) -> (Duration, ExitStatus) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return (began.elapsed(), status);
            }
            assert!(began.elapsed() < PATIENCE, "does not end: {}", self.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// By name, since certificates are for names.
    pub fn named(&self) -> String {
        self.address.replace("127.0.0.1", "localhost")
    }

    pub async fn connect(&self, tls: ClientTls) -> Result<Channels, String> {
        let addresses = [Address::parse(&self.named()).expect("an address")];
        let dial = Dial { tls, user_agent: "test" };
        Channels::connect(&addresses, &dial, 0).await.map_err(|why| format!("{why:?}"))
    }

    pub async fn fleet(&self) -> FleetServiceClient<Channels> {
        FleetServiceClient::new(self.connect(ClientTls::default()).await.expect("connects"))
    }

    pub async fn tenants(&self, tls: ClientTls) -> TenantServiceClient<Channels> {
        TenantServiceClient::new(self.connect(tls).await.expect("connects"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message with a key.
pub fn keyed<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().expect("ascii"));
    request
}

async fn make_keys(database: &Path) {
    let plane = ControlPlane::open(&DatabaseUrl::Sqlite(database.to_owned())).await.expect("opens");
    let key = |secret: &str, roles: &[Role]| {
        (SecretText::new(secret.to_owned()), false, roles.iter().copied().collect())
    };
    let wanted = Bootstrap {
        tenant: TenantId::parse("acme").expect("a name"),
        store: (StoreName::parse("main").expect("a name"), StoreKind::Sqlite),
        keys: vec![key(ADMIN, &[Role::Operator, Role::PlacementAdmin]), key(NODE, &[Role::Node])],
    };
    plane.bootstrap(wanted).await.expect("keys");
    plane.close().await;
}
