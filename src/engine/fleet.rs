//! A whole deployment in processes of their own, on this machine: a control plane, nodes on one store, one tenant.
//!
//! It is made as an operator would make it: configuration files, the first operator key, a registered store, a tenant, a
//! placement, keys. The folder keeps all of it, so that the same processes can be started again.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, bail};
use orch8_model::DatabaseUrl;
use orch8_proto::v1::{
    CreateKeyRequest, CreateTenantRequest, DescribeFleetRequest, ListSequencesRequest, ListTenantsRequest,
    RegisterStoreRequest, Role, SetPlacementRequest, StoreKind,
};
use orch8_seal::SecretText;
use serde::Deserialize;

use super::counters;
use crate::{
    child::{Actor, START_LIMIT, START_POLL, text},
    client::Server,
    connection::Connection,
    error::CliError,
};

/// Name of the one store.
const STORE: &str = "main";
/// Name of the one tenant.
const TENANT: &str = "demo";
const CONTROL: &str = "control-plane";
/// Nodes on Postgres: one owns the shards, the other stands by. A SQLite file belongs to one process.
const NODES: [&str; 2] = ["node-1", "node-2"];
/// Port of the processes where each can have an address of its own; below the ports of outgoing connections.
const PORT: u16 = 7_233;

/// The processes.
#[derive(Debug)]
pub struct Fleet {
    exe: PathBuf,
    dir: PathBuf,
    control: Member,
    nodes: Vec<Member>,
    operator: Server,
    connection: Connection,
}

/// A process with the configuration it is started from.
#[derive(Debug)]
struct Member {
    name: &'static str,
    command: &'static str,
    at: SocketAddr,
    actor: Actor,
}

impl Fleet {
    /// Starts everything in `dir` on the database that `store` names, and waits until it serves. Connection data for
    /// clients and workers are left in `dir`.
    pub async fn start(dir: &Path, store: &str) -> anyhow::Result<Self> {
        let kind = match DatabaseUrl::parse(store).map_err(|why| CliError::usage(format!("--store {why}")))? {
            DatabaseUrl::Postgres(_) => StoreKind::Postgres,
            DatabaseUrl::Sqlite(_) => StoreKind::Sqlite,
        };
        let exe = std::env::current_exe().context("finding this executable")?;
        let mut places = places()?;
        let place = places.remove(0);
        let database = format!("sqlite:{}", text(&dir.join("control.db"))?);
        configure(dir, CONTROL, &format!("listen = \"{place}\"\ndatabase = {database:?}\n"))?;
        let key = operator_key(&exe, dir).await?;
        let mut control = Member::start(&exe, dir, CONTROL, CONTROL, place)?;
        let operator = Server::lazy(&format!("http://{place}"), &key)?;
        control
            .wait(async || operator.tenants().list_tenants(ListTenantsRequest::default()).await.is_ok())
            .await?;
        let keys = furnish(&operator, kind).await?;

        let mut nodes = Vec::new();
        let wanted = if kind == StoreKind::Postgres { NODES.len() } else { 1 };
        for (name, at) in NODES.into_iter().zip(places).take(wanted) {
            let config = format!(
                "node = \"{name}\"\nlisten = \"{at}\"\nadvertise = \"http://{at}\"\ncontrol_plane = [\"http://{place}\"]\nkey = {:?}\n\n[stores.{STORE}]\nurl = {store:?}\n",
                keys.node.reveal()
            );
            configure(dir, name, &config)?;
            nodes.push(Member::start(&exe, dir, name, "data-plane", at)?);
        }
        let addresses: Vec<String> = nodes.iter().map(|node| format!("http://{}", node.at)).collect();
        let connection = Connection {
            address: addresses.join(","),
            tenant: TENANT.to_owned(),
            client_key: keys.client,
            worker_key: keys.worker,
            operator_key: key,
            control_plane: Some(format!("http://{place}")),
            pid: std::process::id(),
        };
        connection.write(dir)?;
        let mut fleet = Self { exe, dir: dir.to_owned(), control, nodes, operator, connection };
        fleet.wait_until_it_serves().await?;
        Ok(fleet)
    }

    /// How to reach it; the same after a restart of whatever process.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Where the nodes leave their stores' counters when they end.
    pub fn counters(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| counters(&self.dir, node.name)).collect()
    }

    /// Errors: a process ended by itself; with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.control.actor.check()?;
        self.nodes.iter_mut().try_for_each(|node| node.actor.check())
    }

    /// SIGKILL of the node that owns the shards, then the same node again.
    pub async fn kill_owner_and_restart(&mut self) -> anyhow::Result<()> {
        let owner = self.owner().await?;
        let node = self.nodes.get_mut(owner).context("no node owns the shards")?;
        node.actor.kill().await?;
        node.restart(&self.exe, &self.dir)
    }

    /// SIGKILL of the control plane, then the same again.
    pub async fn kill_control_plane_and_restart(&mut self) -> anyhow::Result<()> {
        self.control.actor.kill().await?;
        self.control.restart(&self.exe, &self.dir)
    }

    /// SIGTERM of the nodes, one after the other, then of the control plane.
    pub async fn terminate(&mut self) -> anyhow::Result<()> {
        for node in &mut self.nodes {
            node.actor.terminate().await?;
        }
        self.control.actor.terminate().await
    }

    async fn owner(&mut self) -> anyhow::Result<usize> {
        let begun = Instant::now();
        loop {
            let described = self.operator.fleet().describe_fleet(DescribeFleetRequest {}).await;
            let owners = described.map(|said| said.into_inner().shards).unwrap_or_default();
            let owner = owners.iter().find(|range| range.store == STORE && !range.node_id.is_empty());
            if let Some(found) = owner.and_then(|o| self.nodes.iter().position(|node| node.name == o.node_id))
            {
                return Ok(found);
            }
            if begun.elapsed() > START_LIMIT {
                bail!("nobody owns the shards of the store");
            }
            self.check()?;
            tokio::time::sleep(START_POLL).await;
        }
    }

    async fn wait_until_it_serves(&mut self) -> anyhow::Result<()> {
        let owner = self.owner().await?;
        let key = self.connection.client_key.clone();
        for node in self.nodes.iter_mut() {
            let server = Server::lazy(&format!("http://{}", node.at), &key)?;
            node.wait(async || {
                server.sequences().list_sequences(ListSequencesRequest::default()).await.is_ok()
            })
            .await?;
        }
        tracing::debug!(node.id = NODES[owner], "the deployment serves");
        Ok(())
    }
}

impl Member {
    fn start(
        exe: &Path,
        dir: &Path,
        name: &'static str,
        command: &'static str,
        at: SocketAddr,
    ) -> anyhow::Result<Self> {
        Ok(Self { name, command, at, actor: spawn(exe, dir, name, command)? })
    }

    fn restart(&mut self, exe: &Path, dir: &Path) -> anyhow::Result<()> {
        self.actor = spawn(exe, dir, self.name, self.command)?;
        Ok(())
    }

    /// Waits until it answers. Errors: it ended, or does not answer in time.
    async fn wait(&mut self, answers: impl AsyncFn() -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !answers().await {
            self.actor.check()?;
            if begun.elapsed() > START_LIMIT {
                bail!("the {} did not answer in time; its log is beside its configuration", self.name);
            }
            tokio::time::sleep(START_POLL).await;
        }
        Ok(())
    }
}

fn spawn(exe: &Path, dir: &Path, name: &'static str, command: &'static str) -> anyhow::Result<Actor> {
    let (config, counters) = (dir.join(format!("{name}.toml")), counters(dir, name));
    let mut args = vec![command, "--config", text(&config)?];
    if command != CONTROL {
        args.extend(["--counters", text(&counters)?]);
    }
    Actor::spawn(name, exe, dir, &args, false)
}

/// Keys of the tenant and of the nodes.
struct Keys {
    client: SecretText,
    worker: SecretText,
    node: SecretText,
}

/// A store, a tenant in it, and keys. Repeatable in the same folder: what is there stays, keys are new.
async fn furnish(operator: &Server, kind: StoreKind) -> anyhow::Result<Keys> {
    let store = RegisterStoreRequest { name: STORE.to_owned(), kind: kind.into() };
    operator.placements().register_store(store).await?;
    let tenant = CreateTenantRequest { tenant_id: TENANT.to_owned(), display_name: String::new() };
    operator.tenants().create_tenant(tenant).await?;
    let placement = SetPlacementRequest { tenant_id: TENANT.to_owned(), store: STORE.to_owned(), epoch: 1 };
    match operator.placements().set_placement(placement).await {
        Ok(_) => {}
        // Placed by an earlier run.
        Err(status) if status.code() == tonic::Code::Aborted => {}
        Err(status) => return Err(status.into()),
    }
    Ok(Keys {
        client: key(operator, TENANT, &[Role::Client, Role::Publisher]).await?,
        worker: key(operator, TENANT, &[Role::Worker]).await?,
        node: key(operator, "", &[Role::Node]).await?,
    })
}

async fn key(operator: &Server, tenant: &str, roles: &[Role]) -> anyhow::Result<SecretText> {
    let request = CreateKeyRequest {
        tenant_id: tenant.to_owned(),
        roles: roles.iter().map(|role| i32::from(*role)).collect(),
        ..CreateKeyRequest::default()
    };
    Ok(SecretText::new(operator.tenants().create_key(request).await?.into_inner().secret))
}

/// What `orch8 control-plane init --output json` prints.
#[derive(Deserialize)]
struct Initialised {
    secret: String,
}

/// The first operator key; kept in the folder, since it is shown only once.
async fn operator_key(exe: &Path, dir: &Path) -> anyhow::Result<SecretText> {
    let kept = dir.join("operator.key");
    if let Ok(secret) = fs::read_to_string(&kept) {
        return Ok(SecretText::new(secret));
    }
    let config = dir.join(format!("{CONTROL}.toml"));
    let said = tokio::process::Command::new(exe)
        .args([CONTROL, "init", "--output", "json", "--config", text(&config)?])
        .output()
        .await
        .context("making the first operator key")?;
    if !said.status.success() {
        bail!("making the first operator key: {}", String::from_utf8_lossy(&said.stderr).trim());
    }
    let Initialised { secret } = serde_json::from_slice(&said.stdout).context("the first operator key")?;
    write_secret(&kept, &secret)?;
    Ok(SecretText::new(secret))
}

fn configure(dir: &Path, name: &str, config: &str) -> anyhow::Result<()> {
    write_secret(&dir.join(format!("{name}.toml")), config)
}

fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(|| format!("writing {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// Where the processes listen: control plane first. Where the whole of 127.0.0.0/8 is this machine, addresses that are
/// nobody else's, also while a process is away; else free ports of 127.0.0.1.
fn places() -> anyhow::Result<Vec<SocketAddr>> {
    let [.., b, c] = std::process::id().to_be_bytes();
    let own = |n: u8| SocketAddr::from((Ipv4Addr::new(127, 100 + n, b, c), PORT));
    let mut places = Vec::new();
    for n in 0..=NODES.len() as u8 {
        let listener = TcpListener::bind(own(n)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        places.push(listener.and_then(|l| l.local_addr()).context("finding an address to listen on")?);
    }
    Ok(places)
}
