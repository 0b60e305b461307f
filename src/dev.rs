//! `orch8 dev`: control plane and data plane in one process on one folder, reachable from this machine alone.
//!
//! The two planes meet over the same loopback socket that clients use: the data plane follows the control plane with a
//! key of its own, as it would from another machine. Keys are made at the first start and kept 0600 in the folder.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use orch8_control_plane::{Bootstrap, ControlPlane, StoreKind};
use orch8_data_plane::{
    plane::{Plane, PlaneConfig},
    replicas::Replicas,
    session::SessionConfig,
    shard::ShardConfig,
};
use orch8_model::{DatabaseUrl, NodeName, Role, StoreName, TenantId};
use orch8_proto::serve::Services;
use orch8_seal::SecretText;
use serde::{Deserialize, Serialize};
use tonic::transport::Endpoint;

use crate::{
    cli::DevArgs,
    connection::{self, Connection},
    error::Exit,
    lifetime::{self, Front, Household, LogForm},
};

/// The tenant that `dev` makes.
const TENANT: &str = "dev";
/// The store it is placed in.
const STORE: &str = "local";
/// Name of the file with the keys.
const KEYS: &str = "keys.json";
/// How long the shards of an unused folder take to become this process's, many times over.
const OWNING: Duration = Duration::from_secs(30);
/// How long open calls and worker sessions may take to end after the first signal.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until interrupted. Errors: the folder is in use or not writable, the address is taken or not loopback.
pub async fn run(args: DevArgs, form: LogForm) -> anyhow::Result<Exit> {
    if !args.listen.ip().is_loopback() {
        bail!(
            "--listen {}: `orch8 dev` speaks plain text and listens on loopback only; use 127.0.0.1:PORT",
            args.listen
        );
    }
    make_folder(&args.dir)?;
    let keys = Keys::load_or_make(&args.dir.join(KEYS))?;
    let (listener, address) = lifetime::bind(args.listen).await?;
    let address = format!("http://{address}");
    let start = async {
        let control_plane = open_control_plane(&args.dir, &keys).await?;
        let plane = open_data_plane(&args.dir, &address, args.faster).await?;
        let services = plane.serve(control_plane.serve(Services::new()));
        let front = Front { listener, services, keys: control_plane.keys().clone(), terms: DRAIN.into() };
        Ok((front, House { control_plane, plane, counters: args.counters.clone() }))
    };
    lifetime::live(start, async |house| {
        let channel = Endpoint::from_shared(address.clone())?.connect_lazy();
        let control = Replicas::new(vec![channel], Some(&keys.secret(&keys.node)));
        house.plane.join(control.context("no control plane to join")?).await;
        tokio::time::timeout(OWNING, house.plane.owns_all())
            .await
            .context("the shards were not leased to this process in time")?;
        keys.connection(&address).write(&args.dir)?;
        lifetime::announce(
            form,
            "dev",
            &address,
            &[found_in(&args.dir), "next: orch8 sequence publish FILE.json".to_owned()],
        );
        Ok(())
    })
    .await
}

/// Where commands look by themselves, or what to tell them.
fn found_in(dir: &Path) -> String {
    let dir_text = dir.display();
    match dir == Path::new(connection::DEFAULT_DIR) {
        true => {
            format!("data and keys are in {dir_text}; commands run from this folder find them by themselves")
        }
        false => format!("data and keys are in {dir_text}; commands find them with ORCH8_DIR={dir_text}"),
    }
}

struct House {
    control_plane: ControlPlane,
    plane: Plane,
    /// Where the store's counters go at a clean end.
    counters: Option<PathBuf>,
}

impl Household for House {
    async fn drain(&self, deadline: Duration) {
        self.control_plane.drain();
        self.plane.drain(deadline).await;
    }

    async fn close(self) -> anyhow::Result<()> {
        if let Some(file) = &self.counters {
            lifetime::leave_counters(file, self.plane.counters())?;
        }
        self.plane.close().await;
        self.control_plane.close().await;
        Ok(())
    }
}

async fn open_control_plane(dir: &Path, keys: &Keys) -> anyhow::Result<ControlPlane> {
    let control_plane = ControlPlane::open(&DatabaseUrl::Sqlite(dir.join("control.db"))).await?;
    let tenant = [Role::Client, Role::Publisher];
    control_plane
        .bootstrap(Bootstrap {
            tenant: TenantId::parse(TENANT)?,
            store: (StoreName::parse(STORE)?, StoreKind::Sqlite),
            keys: vec![
                (keys.secret(&keys.client), true, tenant.into_iter().collect()),
                (keys.secret(&keys.worker), true, [Role::Worker].into_iter().collect()),
                (
                    keys.secret(&keys.operator),
                    false,
                    [Role::Operator, Role::PlacementAdmin].into_iter().collect(),
                ),
                (keys.secret(&keys.node), false, [Role::Node].into_iter().collect()),
            ],
        })
        .await?;
    Ok(control_plane)
}

async fn open_data_plane(dir: &Path, address: &str, faster: u32) -> anyhow::Result<Plane> {
    let sessions = SessionConfig::default().faster(faster);
    let plane = Plane::open(PlaneConfig {
        node: NodeName::parse("dev")?,
        address: address.to_owned(),
        stores: vec![(StoreName::parse(STORE)?, DatabaseUrl::Sqlite(dir.join("store.db")))],
        // This process is the only one: no other node can have sessions, so a worker that comes back does so within
        // the grace that its broken stream left it.
        shards: ShardConfig { takeover_hold: sessions.grace, ..ShardConfig::default() },
        sessions,
    })
    .await?;
    Ok(plane)
}

/// Made for this user alone; an existing folder keeps its permissions.
fn make_folder(dir: &Path) -> anyhow::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).with_context(|| format!("cannot make the folder {}", dir.display()))
}

/// Secrets of a `dev` folder.
#[derive(Serialize, Deserialize)]
struct Keys {
    client: String,
    worker: String,
    operator: String,
    node: String,
}

impl Keys {
    fn load_or_make(path: &Path) -> anyhow::Result<Self> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| {
                format!("{} is damaged; move the folder away to start afresh", path.display())
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::make(path),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn make(path: &Path) -> anyhow::Result<Self> {
        let secret = || {
            SecretText::generate().map(|s| s.reveal().to_owned()).context("no randomness to make keys from")
        };
        let keys = Self { client: secret()?, worker: secret()?, operator: secret()?, node: secret()? };
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
        serde_json::to_writer_pretty(&mut file, &keys)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        Ok(keys)
    }

    fn secret(&self, text: &str) -> SecretText {
        SecretText::new(text.to_owned())
    }

    fn connection(&self, address: &str) -> Connection {
        Connection {
            address: address.to_owned(),
            tenant: TENANT.to_owned(),
            client_key: self.secret(&self.client),
            worker_key: self.secret(&self.worker),
            operator_key: self.secret(&self.operator),
            control_plane: None,
            pid: std::process::id(),
        }
    }
}
