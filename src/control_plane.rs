//! `orch8 control-plane`: tenants, keys, placements and the fleet, on a database of its own.

use std::time::Duration;

use clap::{Args, Subcommand};
use orch8_control_plane::{ControlPlane, InitError};
use orch8_proto::serve::Services;
use serde_json::json;

use crate::{
    config::{self, ControlPlaneConfig, SettingFlags, Sources},
    error::{CliError, Exit},
    lifetime::{self, Front, Household, LogForm},
    screen::Screen,
};

const EXAMPLES: &str = r#"Examples:
  orch8 control-plane migrate --config control.toml     make or upgrade its tables
  orch8 control-plane init --config control.toml        print the first operator key
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
    settings: SettingFlags,
}

#[derive(Debug, Subcommand)]
enum ControlPlaneCommand {
    /// Serve until SIGTERM; the same as no subcommand.
    #[command(after_help = "Example:\n  orch8 control-plane serve --config control.toml")]
    Serve(SettingFlags),
    /// Make the first key, with the roles operator and placement-admin, and show it once.
    #[command(after_help = "\
Example:
  orch8 control-plane init --config control.toml --output json > first-key.json

Works while no operator key is good; afterwards keys are made with `orch8 key create`.")]
    Init(SettingFlags),
    /// Make or upgrade the tables, and end. Serving does so too, if it may.
    #[command(after_help = "Example:\n  orch8 control-plane migrate --config control.toml")]
    Migrate(SettingFlags),
}

pub async fn run(args: ControlPlaneArgs, form: LogForm, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        None => serve(&args.settings, form).await,
        Some(ControlPlaneCommand::Serve(settings)) => serve(&settings, form).await,
        Some(ControlPlaneCommand::Init(settings)) => init(&settings, screen).await,
        Some(ControlPlaneCommand::Migrate(settings)) => migrate(&settings, screen).await,
    }
}

async fn serve(flags: &SettingFlags, form: LogForm) -> anyhow::Result<Exit> {
    let (sources, problems) = Sources::from_process(flags);
    let (config, _) = ControlPlaneConfig::read(&sources, problems).map_err(CliError::from)?;
    let ControlPlaneConfig { listener, database } = config;
    let (socket, address) = lifetime::bind(listener.listen).await?;
    let reached = format!("{}://{address}", listener.scheme());
    let start = async {
        let plane = ControlPlane::open(&database).await?;
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
