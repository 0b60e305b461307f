//! `orch8 control-plane`: tenants, keys, placements and the fleet, on a database of its own.

use std::time::Duration;

use clap::{Args, Subcommand};
use orch8_control_plane::ControlPlane;
use orch8_model::DatabaseUrl;
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
    /// Make or upgrade the tables, and end. Serving never changes tables of a Postgres database by itself.
    #[command(after_help = "Example:\n  orch8 control-plane migrate --config control.toml")]
    Migrate(SettingFlags),
}

pub async fn run(args: ControlPlaneArgs, form: LogForm, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        None => serve(&args.settings, form).await,
        Some(ControlPlaneCommand::Serve(settings)) => serve(&settings, form).await,
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
        let plane = open(&database).await?;
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
    open(&database).await?.close().await;
    screen.show(
        |paint| format!("{} the tables of {database} are those of this version", paint.green("✓")),
        || json!({ "database": database.to_string(), "migrated": true }),
    )?;
    Ok(Exit::Ok)
}

/// Errors: a kind of database that this build cannot open; not reachable, not writable, of a newer version.
async fn open(database: &DatabaseUrl) -> anyhow::Result<ControlPlane> {
    match database {
        DatabaseUrl::Sqlite(path) => Ok(ControlPlane::open(path).await?),
        DatabaseUrl::Postgres(_) => Err(CliError::new(
            Exit::Usage,
            "CONFIG",
            format!("database: {database} cannot be opened by this build; allowed: sqlite:FILE"),
        )
        .into()),
    }
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
