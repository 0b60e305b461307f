//! The command line: what can be typed. Each group keeps the arguments of its own subcommands beside its code.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{
    bench::BenchArgs,
    config::ConfigArgs,
    control_plane::ControlPlaneArgs,
    data_plane::DataPlaneArgs,
    demo::{DemoArgs, ledger::LedgerArgs, worker::DemoWorkerArgs},
    instance::InstanceArgs,
    lifetime::LogForm,
    operator::{
        fleet::FleetArgs, key::KeyArgs, placement::PlacementArgs, store::StoreArgs, tenant::TenantArgs,
    },
    screen::Mode,
    sequence::SequenceArgs,
    signal::SignalArgs,
    worker::WorkerArgs,
    workers::WorkersArgs,
};

const AFTER_HELP: &str = "\
First steps:
  orch8 demo                                    see it work: 2,000 flights, nothing else needed
  orch8 dev                                     run an engine here; its keys land in .orch8/
  orch8 sequence publish flow.json              (another terminal, same folder)
  orch8 worker --handler greet --exec 'cat'
  orch8 instance start flow --data '{\"name\":\"Ada\"}' --wait

Finding the server: --address and --key or --key-file (ORCH8_ADDRESS, ORCH8_KEY, ORCH8_KEY_FILE), for https:// with
--ca when the machine does not know the authority, or with a client certificate instead of a key; else the file
connection.json that `orch8 dev` wrote into $ORCH8_DIR, or into .orch8 of this folder or of a parent. `tenant`, `key`,
`store`, `placement` and `fleet` ask the control plane: --control-plane (ORCH8_CONTROL_PLANE), else the same server.

Scripts: --output json prints one JSON document on one line; `instance watch` and every `list` print one per line. Errors are one line of JSON on standard error then: {\"error\":{reason,message,fields,hint,exit}}.

Exit codes:
   0  done
   1  the work failed, or something broke on this side
   2  the command line is wrong
   3  not found
   4  refused: invalid, or the state says no
   5  the server cannot be reached or has no room now
   6  the credential is missing, wrong or may not do this
  10  the instance failed              (instance wait, start --wait, watch)
  11  the instance was cancelled
  12  the time limit passed first
  13  the measurement was too noisy and is discarded      (bench)
 130  interrupted, everything tidied up (demo, bench)";

/// Durable, multi-tenant workflows.
#[derive(Debug, Parser)]
#[command(name = "orch8", version = env!("ORCH8_VERSION"), after_help = AFTER_HELP, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct GlobalArgs {
    /// Server, for example http://127.0.0.1:7233; several as good as each other with commas.
    #[arg(long, global = true, env = "ORCH8_ADDRESS", value_name = "URL")]
    pub address: Option<String>,
    /// API key. Prefer --key-file: arguments can be seen by others on this machine.
    #[arg(long, global = true, env = "ORCH8_KEY", hide_env_values = true, value_name = "KEY")]
    pub key: Option<String>,
    /// File that holds the API key.
    #[arg(long, global = true, env = "ORCH8_KEY_FILE", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Authorities (PEM) to trust for https:// instead of this machine's.
    #[arg(long, global = true, env = "ORCH8_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate (PEM, with its chain) to show to the server; it may stand in for a key.
    #[arg(
        long,
        global = true,
        env = "ORCH8_CLIENT_CERTIFICATE",
        requires = "client_key",
        value_name = "FILE"
    )]
    pub client_certificate: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(
        long,
        global = true,
        env = "ORCH8_CLIENT_KEY",
        requires = "client_certificate",
        value_name = "FILE"
    )]
    pub client_key: Option<PathBuf>,
    /// Tenant to act for; only operator keys need it.
    #[arg(long, global = true, env = "ORCH8_TENANT", value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Send the key in plain text to another machine.
    #[arg(long, global = true)]
    pub insecure: bool,
    /// For people, or for scripts.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub output: Mode,
    /// Log lines for people, or one JSON object per line. ORCH8_LOG chooses what is logged: info, orch8=debug, …
    #[arg(long, global = true, value_enum, default_value_t, env = "ORCH8_LOG_FORMAT", value_name = "FORM")]
    pub log_format: LogForm,
    /// End when standard input closes.
    #[arg(long, global = true, hide = true)]
    pub exit_with_stdin: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an engine on this machine: control plane, data plane and SQLite in one process.
    Dev(DevArgs),
    /// Serve tenants, keys, placements and the fleet.
    ControlPlane(ControlPlaneArgs),
    /// Run the workflows of the tenants in its stores.
    DataPlane(DataPlaneArgs),
    /// Check settings of the two, or print those in force.
    Config(ConfigArgs),
    /// Make tenants and look at them.
    Tenant(TenantArgs),
    /// Make keys, list and revoke them.
    Key(KeyArgs),
    /// Make stores known by their names.
    Store(StoreArgs),
    /// Say which store holds which tenant.
    Placement(PlacementArgs),
    /// Nodes, and who owns which shards.
    Fleet(FleetArgs),
    /// Check, publish and read workflow definitions.
    Sequence(SequenceArgs),
    /// Start runs and look at them.
    Instance(InstanceArgs),
    /// Send a message to a run: pause, resume, an answer.
    Signal(SignalArgs),
    /// Who offers which handlers, and what nobody offers.
    Workers(WorkersArgs),
    /// Serve handlers with a shell command.
    Worker(WorkerArgs),
    /// See it work: 2,000 flights, and with --kill processes killed again and again; with --store on a fleet of processes.
    Demo(DemoArgs),
    #[command(hide = true)]
    DemoWorker(DemoWorkerArgs),
    #[command(hide = true)]
    DemoLedger(LedgerArgs),
    /// Measure steps per second against what the database itself can do.
    Bench(BenchArgs),
}

/// `orch8 dev`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  orch8 dev --dir ./try --listen 127.0.0.1:0     any free port; see ./try/connection.json")]
pub struct DevArgs {
    /// Folder for data, keys and connection.json. Made if missing, for this user alone.
    #[arg(long, env = "ORCH8_DIR", default_value = crate::connection::DEFAULT_DIR, value_name = "FOLDER")]
    pub dir: PathBuf,
    /// Address to listen on; port 0 takes any free port.
    #[arg(long, default_value = "127.0.0.1:7233", value_name = "ADDRESS:PORT")]
    pub listen: std::net::SocketAddr,
    /// Divide every time of worker sessions by this: for tests of what happens when they pass.
    #[arg(long, hide = true, default_value_t = 1, value_name = "FACTOR")]
    pub faster: u32,
    /// At a clean end, write what the store did to this file.
    #[arg(long, hide = true, value_name = "FILE")]
    pub counters: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_that_is_shown_has_an_example() {
        fn walk(command: &clap::Command, path: &str, missing: &mut Vec<String>) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let path = format!("{path} {}", sub.get_name());
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                let shown = help.contains("Example") && help.lines().any(|line| in_order(&path, line));
                if !shown {
                    missing.push(path.clone());
                }
                walk(sub, &path, missing);
            }
        }
        /// Every word of the command stands on the line, in this order.
        fn in_order(path: &str, line: &str) -> bool {
            let mut words = line.split_whitespace();
            path.split(' ').all(|wanted| words.any(|word| word == wanted))
        }
        let mut missing = Vec::new();
        walk(&Cli::command(), "orch8", &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }

    /// Clap takes one for the other: what stands there would be read as the flag's value.
    #[test]
    fn no_argument_has_the_name_of_a_flag_that_every_command_takes() {
        fn walk(command: &clap::Command, global: &[&str], taken: &mut Vec<String>) {
            for sub in command.get_subcommands() {
                let own = sub.get_arguments().map(|arg| arg.get_id().as_str());
                taken.extend(
                    own.filter(|id| global.contains(id)).map(|id| format!("{} {id}", sub.get_name())),
                );
                walk(sub, global, taken);
            }
        }
        let cli = Cli::command();
        let global: Vec<&str> =
            cli.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.get_id().as_str()).collect();
        assert!(global.contains(&"key") && global.contains(&"tenant"));
        let mut taken = Vec::new();
        walk(&cli, &global, &mut taken);
        assert_eq!(taken, Vec::<String>::new());
    }

    #[test]
    fn every_exit_code_is_documented() {
        for exit in crate::error::Exit::ALL {
            let line = format!("\n{:>4}  ", exit.code());
            assert!(AFTER_HELP.contains(&line), "exit code {} is not in --help", exit.code());
        }
    }

    #[test]
    fn wrong_usage_exits_with_2() {
        for line in [
            "orch8",
            "orch8 fly",
            "orch8 instance",
            "orch8 instance wait",
            "orch8 --output xml workers",
            "orch8 worker --exec cat",
            "orch8 dev --listen nowhere",
            "orch8 instance wait x --timeout soon",
            "orch8 tenant create",
            "orch8 key create",
            "orch8 key create --role admin",
            "orch8 key create --role node --expires soon",
            "orch8 store register main",
            "orch8 store register main --kind mysql",
            "orch8 placement set acme",
            "orch8 placement set acme --store main --epoch -1",
            "orch8 fleet",
            "orch8 demo --flights 0",
            "orch8 demo --flights 2001",
        ] {
            let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn global_flags_may_stand_after_the_command() {
        let cli = Cli::try_parse_from(["orch8", "workers", "--output", "json", "--address", "http://h:1"])
            .expect("parses");
        assert_eq!(cli.global.output, Mode::Json);
        assert_eq!(cli.global.address.as_deref(), Some("http://h:1"));
    }
}
