//! `orch8 data-plane`: runs workflows of the tenants whose stores it is given, and follows a control plane.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use orch8_data_plane::{
    plane::{Plane, PlaneConfig},
    replicas::Replicas,
    session::SessionConfig,
    shard::ShardConfig,
    store::Store,
};
use orch8_proto::{
    client::{ChannelProblem, Dial},
    serve::Services,
};
use serde_json::json;
use tonic::transport::Channel;

use crate::{
    config::{self, DataPlaneConfig, KeyFlags, SettingFlags, Sources, Uplink},
    error::{CliError, Exit},
    lifetime::{self, Front, Household, LogForm},
    screen::Screen,
};

/// A replica of the control plane that has gone silent is left for the next one while that still counts this node as
/// live: a heartbeat is three seconds old by then, and the next has to come within ten.
const PING_EVERY: Duration = Duration::from_secs(2);
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(2);

const EXAMPLES: &str = r#"Examples:
  orch8 data-plane migrate --config node.toml           make or upgrade the tables of its stores
  orch8 data-plane --config node.toml                   serve until SIGTERM
  orch8 data-plane --config node.toml --node $HOSTNAME --drain 30s

A file for a start:
  node          = "node-1"                              # unlike that of any other process
  listen        = "[::]:7233"
  advertise     = "https://node-1.orch8.internal:7233"
  control_plane = ["https://control.orch8.internal:7232"]
  key_file      = "/run/secrets/node-key"               # a key with the role node
  [stores.eu]
  url_file      = "/run/secrets/store-eu"               # postgres://user:password@host/name
  [tls]
  certificate   = "/etc/orch8/tls.crt"
  key           = "/etc/orch8/tls.key"

While the control plane is out of sight, the tenants that are known go on being served.
`orch8 config check data-plane` lists what is wrong with the settings, `orch8 config print data-plane` what is in force."#;

/// `orch8 data-plane`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_precedence_over_arg = true,
    after_help = format!("{EXAMPLES}\n\n{}", config::help(config::DATA_PLANE))
)]
pub struct DataPlaneArgs {
    #[command(subcommand)]
    command: Option<DataPlaneCommand>,
    #[command(flatten)]
    flags: DataPlaneFlags,
}

#[derive(Debug, Subcommand)]
enum DataPlaneCommand {
    /// Serve until SIGTERM; the same as no subcommand.
    #[command(after_help = "Example:\n  orch8 data-plane serve --config node.toml")]
    Serve(DataPlaneFlags),
    /// Make or upgrade the tables of its stores, and end. Serving does so too, if it may.
    #[command(after_help = "Example:\n  orch8 data-plane migrate --config node.toml")]
    Migrate(DataPlaneFlags),
}

#[derive(Debug, Args)]
struct DataPlaneFlags {
    #[command(flatten)]
    settings: SettingFlags,
    /// Name of this process, unlike that of any other.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Where clients and workers reach this process.
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Replicas of the control plane, with commas.
    #[arg(long, value_name = "URLS")]
    control_plane: Option<String>,
    /// Divide the times of leases and sessions by this, for tests.
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    faster: u32,
    /// Leave the stores' counters in this file at a clean end.
    #[arg(long, hide = true, value_name = "FILE")]
    counters: Option<PathBuf>,
}

impl DataPlaneFlags {
    fn sources(&self, key: KeyFlags) -> (Sources, config::Problems) {
        let (mut sources, problems) = Sources::from_process(&self.settings);
        let own =
            [("node", &self.node), ("advertise", &self.advertise), ("control_plane", &self.control_plane)];
        own.into_iter().for_each(|(path, value)| sources.flag(path, value.clone()));
        key.into_iter().for_each(|(path, value)| sources.flag(path, value));
        (sources, problems)
    }
}

/// `key`: the key given with the flags of the whole command.
pub async fn run(args: DataPlaneArgs, key: KeyFlags, form: LogForm, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        None => serve(&args.flags, key, form).await,
        Some(DataPlaneCommand::Serve(flags)) => serve(&flags, key, form).await,
        Some(DataPlaneCommand::Migrate(flags)) => migrate(&flags, key, screen).await,
    }
}

async fn serve(flags: &DataPlaneFlags, key: KeyFlags, form: LogForm) -> anyhow::Result<Exit> {
    let (sources, problems) = flags.sources(key);
    let (config, _) = DataPlaneConfig::read(&sources, problems).map_err(CliError::from)?;
    let (socket, address) = lifetime::bind(config.listener.listen).await?;
    let reached = match &config.advertise {
        Some(address) => address.to_string(),
        None => format!("{}://{address}", config.listener.scheme()),
    };
    let control_planes = channels(&config.uplink)?;
    let control_plane = Replicas::new(control_planes, config.uplink.key.as_ref())
        .ok_or_else(|| wrong("control_plane", "is missing", "at least one URL"))?;
    let start = async {
        let plane = open(&config, reached.clone(), flags.faster).await?;
        let services = plane.serve(Services::new());
        let keys = plane.keys().clone();
        let house = House { plane, counters: flags.counters.clone() };
        Ok((Front { listener: socket, services, keys, terms: config.listener.terms() }, house))
    };
    lifetime::live(start, async |house| {
        house.plane.join(control_plane).await;
        lifetime::announce(form, "data-plane", &reached, &[]);
        Ok(())
    })
    .await
}

/// One to each replica, none of them connected yet.
fn channels(uplink: &Uplink) -> anyhow::Result<Vec<Channel>> {
    let dial =
        Dial { tls: uplink.tls.clone(), user_agent: concat!("orch8-data-plane/", env!("CARGO_PKG_VERSION")) };
    let channels = uplink.addresses.iter().map(|address| {
        let endpoint = dial.endpoint(address)?;
        Ok::<_, ChannelProblem>(
            endpoint
                .http2_keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_ANSWER_WITHIN)
                .connect_lazy(),
        )
    });
    Ok(channels.collect::<Result<_, _>>()?)
}

async fn open(config: &DataPlaneConfig, address: String, faster: u32) -> anyhow::Result<Plane> {
    let plane = PlaneConfig {
        node: config.node.clone(),
        address,
        stores: config.stores.clone(),
        shards: ShardConfig::default().faster(faster),
        sessions: SessionConfig::default().faster(faster),
    };
    Ok(Plane::open(plane).await?)
}

fn wrong(key: &str, what: &str, allowed: &str) -> anyhow::Error {
    let mut problems = config::Problems::default();
    problems.add(key, what, allowed);
    CliError::from(problems).into()
}

async fn migrate(flags: &DataPlaneFlags, key: KeyFlags, screen: Screen) -> anyhow::Result<Exit> {
    let (sources, problems) = flags.sources(key);
    let stores = DataPlaneConfig::read_stores(&sources, problems).map_err(CliError::from)?;
    for (name, url) in stores {
        Store::open(&url).await?.close().await;
        screen.show(
            |paint| format!("{} the tables of {name} ({url}) are those of this version", paint.green("✓")),
            || json!({ "store": name.as_str(), "database": url.to_string(), "migrated": true }),
        )?;
    }
    Ok(Exit::Ok)
}

struct House {
    plane: Plane,
    /// Where the stores' counters go at a clean end.
    counters: Option<PathBuf>,
}

impl Household for House {
    async fn drain(&self, deadline: Duration) {
        self.plane.drain(deadline).await;
    }

    async fn close(self) -> anyhow::Result<()> {
        if let Some(file) = &self.counters {
            lifetime::leave_counters(file, self.plane.counters())?;
        }
        self.plane.close().await;
        Ok(())
    }
}
