//! The `orch8` command: one binary for the engine and for everyone who talks to it.
//!
//! This room parses the command line, finds the server, calls it, and shows the answer to people or to scripts. It
//! decides nothing about workflows: what it says it has from the wire.

mod bench;
mod child;
mod cli;
mod client;
mod config;
mod connection;
mod control_plane;
mod data_plane;
mod demo;
mod dev;
mod engine;
mod error;
mod exec;
mod human;
mod instance;
mod json;
mod lifetime;
mod operator;
mod screen;
mod sequence;
mod signal;
mod timeline;
mod worker;
mod workers;

use std::{io::Read, process::ExitCode};

use clap::Parser;

use crate::{
    cli::{Cli, Command, GlobalArgs},
    client::Caller,
    config::KeyFlags,
    error::Exit,
    screen::Screen,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.global.exit_with_stdin {
        leave_with_parent();
    }
    lifetime::log_to_stderr(loudness(&cli.command), cli.global.log_format);
    // The only crypto in the tree. An error means a provider is installed already, which is what we want.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();

    let screen = Screen::detect(cli.global.output);
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(cli, screen)));
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => error::report(&error, screen.mode).into(),
    }
}

async fn run(cli: Cli, screen: Screen) -> anyhow::Result<Exit> {
    let (form, key) = (cli.global.log_format, key_flags(&cli.global));
    let caller = Caller::new(cli.global);
    match cli.command {
        Command::Dev(args) => dev::run(args, form).await,
        Command::ControlPlane(args) => control_plane::run(args, form, screen).await,
        Command::DataPlane(args) => data_plane::run(args, key, form, screen).await,
        Command::Config(args) => config::run(&args, key, screen),
        Command::Tenant(args) => operator::tenant::run(args, &caller, screen).await,
        Command::Key(args) => operator::key::run(args, &caller, screen).await,
        Command::Store(args) => operator::store::run(args, &caller, screen).await,
        Command::Placement(args) => operator::placement::run(args, &caller, screen).await,
        Command::Fleet(args) => operator::fleet::run(args, &caller, screen).await,
        Command::Sequence(args) => sequence::run(args, &caller, screen).await,
        Command::Instance(args) => instance::run(args, &caller, screen).await,
        Command::Signal(args) => signal::run(args, &caller, screen).await,
        Command::Workers(args) => workers::run(args, &caller, screen).await,
        Command::Worker(args) => worker::run(args, &caller, screen).await,
        Command::Demo(args) => until_interrupted(demo::run(args, screen)).await,
        Command::DemoWorker(args) => demo::worker::run(args).await,
        Command::DemoLedger(args) => demo::ledger::run(args).await,
        Command::Bench(args) => until_interrupted(bench::run(args, screen)).await,
    }
}

/// Ctrl-c or SIGTERM drops the work, and with it its processes and its temporary folder.
async fn until_interrupted(work: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::select! {
        outcome = work => outcome,
        () = orch8_worker::termination() => Ok(Exit::Interrupted),
    }
}

/// Ends the process as soon as standard input closes: a child whose parent was killed does not stay behind.
fn leave_with_parent() {
    std::thread::spawn(|| {
        let mut sink = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while stdin.read(&mut sink).is_ok_and(|read| read > 0) {}
        std::process::exit(0);
    });
}

/// A server tells more by itself than a client.
fn loudness(command: &Command) -> &'static str {
    match command {
        Command::Dev(_) | Command::ControlPlane(_) | Command::DataPlane(_) => "info",
        Command::Worker(_) | Command::DemoWorker(_) | Command::DemoLedger(_) => "warn",
        Command::Tenant(_)
        | Command::Key(_)
        | Command::Store(_)
        | Command::Placement(_)
        | Command::Fleet(_)
        | Command::Sequence(_)
        | Command::Instance(_)
        | Command::Signal(_)
        | Command::Workers(_)
        | Command::Config(_)
        | Command::Demo(_)
        | Command::Bench(_) => "error",
    }
}

/// The key as a setting of a server. What came from a variable is left to the settings, which have an order of their
/// own.
fn key_flags(global: &GlobalArgs) -> KeyFlags {
    let flag = |value: Option<String>, variable| value.filter(|v| std::env::var(variable).as_ref() != Ok(v));
    let file = global.key_file.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
    [("key", flag(global.key.clone(), "ORCH8_KEY")), ("key_file", flag(file, "ORCH8_KEY_FILE"))]
}
