//! `orch8 control-plane`: tenants, keys, placements and the fleet, on a database of its own.

use std::time::Duration;

use clap::{Args, Subcommand};
use orch8_control_plane::{ControlPlane, FleetTimes, InitError};
use orch8_proto::serve::Services;
use serde_json::json;

use crate::{
    config::{self, ControlPlaneConfig, SettingFlags, Sources},
    error::{CliError, Exit},
    lifetime::{self, Front, Household, LogForm},
    screen::Screen,
};

const EXAMPLES: &str = r#"Examples:
  orch8 control-plane init --config control.toml        make the first operator key; it is shown once
  orch8 control-plane --config control.toml             serve until SIGTERM

A file for a start:
  database_file = "/run/secrets/control-db"             # postgres://user:password@host/name
  listen        = "[::]:7232"
  [tls]
  certificate   = "/etc/orch8/tls.crt"
  key           = "/etc/orch8/tls.key"

Any number of replicas may serve one Postgres database; every replica answers every call.
`orch8 config check control-plane` lists what is wrong with the settings, `orch8 config print control-plane` what is in force."#;

/// `orch8 control-plane`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_precedence_over_arg = true,
    after_help = format!("{EXAMPLES}\n\n{}", config::help(config::CONTROL_PLANE))
)]
pub struct ControlPlaneArgs {
    #[command(subcommand)]
    command: Option<ControlPlaneCommand>,
    #[command(flatten)]
    flags: ServeFlags,
}

#[derive(Debug, Args)]
struct ServeFlags {
    #[command(flatten)]
    settings: SettingFlags,
    /// Divide the times of heartbeats and leases by this, for tests.
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    faster: u32,
}

#[derive(Debug, Subcommand)]
enum ControlPlaneCommand {
    /// Serve until SIGTERM; the same as no subcommand.
    #[command(after_help = "Example:\n  orch8 control-plane serve --config control.toml")]
    Serve(ServeFlags),
    /// Make the first operator key, show it once, and end. With it all other keys are made.
    #[command(after_help = "Example:\n  orch8 control-plane init --config control.toml --output json")]
    Init(SettingFlags),
    /// Make or upgrade the tables, and end. Serving does so too; this is for who wants it done before.
    #[command(after_help = "Example:\n  orch8 control-plane migrate --config control.toml")]
    Migrate(SettingFlags),
}

pub async fn run(args: ControlPlaneArgs, form: LogForm, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        None => serve(&args.flags, form).await,
        Some(ControlPlaneCommand::Serve(flags)) => serve(&flags, form).await,
        Some(ControlPlaneCommand::Init(settings)) => init(&settings, screen).await,
        Some(ControlPlaneCommand::Migrate(settings)) => migrate(&settings, screen).await,
    }
}

async fn serve(flags: &ServeFlags, form: LogForm) -> anyhow::Result<Exit> {
    let (sources, problems) = Sources::from_process(&flags.settings);
    let (config, _) = ControlPlaneConfig::read(&sources, problems).map_err(CliError::from)?;
    let ControlPlaneConfig { listener, database } = config;
    let (socket, address) = lifetime::bind(listener.listen).await?;
    let reached = format!("{}://{address}", listener.scheme());
    let start = async {
        let plane = ControlPlane::open_with(&database, FleetTimes::default().faster(flags.faster)).await?;
        let services = plane.serve(Services::new());
        let keys = plane.keys().clone();
        Ok((Front { listener: socket, services, keys, terms: listener.terms() }, House(plane)))
    };
    lifetime::live(start, async |_| {
        lifetime::announce(form, "control-plane", &reached, &[]);
        Ok(())
    })
    .await
}

async fn migrate(flags: &SettingFlags, screen: Screen) -> anyhow::Result<Exit> {
    let (sources, problems) = Sources::from_process(flags);
    let database = ControlPlaneConfig::read_database(&sources, problems).map_err(CliError::from)?;
    ControlPlane::open(&database).await?.close().await;
    screen.show(
        |paint| format!("{} the tables of {database} are those of this version", paint.green("✓")),
        || json!({ "database": database.to_string(), "migrated": true }),
    )?;
    Ok(Exit::Ok)
}

/// The secret goes to standard output and nowhere else.
async fn init(flags: &SettingFlags, screen: Screen) -> anyhow::Result<Exit> {
    let (sources, problems) = Sources::from_process(flags);
    let database = ControlPlaneConfig::read_database(&sources, problems).map_err(CliError::from)?;
    let plane = ControlPlane::open(&database).await?;
    let made = plane.init_operator_key().await;
    plane.close().await;
    let secret = made.map_err(|error| match error {
        InitError::Done { .. } => {
            anyhow::Error::from(CliError::new(Exit::Refused, "ALREADY_EXISTS", error.to_string()))
        }
        InitError::NoRandomness | InitError::Store(_) => error.into(),
    })?;
    screen.show(
        |paint| {
            let note = "shown this once: keep it where only operators read";
            format!("{}\n{}", secret.reveal(), paint.dim(note))
        },
        || json!({ "secret": secret.reveal(), "roles": ["operator", "placement-admin"] }),
    )?;
    Ok(Exit::Ok)
}

struct House(ControlPlane);

impl Household for House {
    async fn drain(&self, _: Duration) {
        self.0.drain();
    }

    async fn close(self) -> anyhow::Result<()> {
        self.0.close().await;
        Ok(())
    }
}
