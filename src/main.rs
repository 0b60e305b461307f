//! The `orch8` command: one binary for the engine and for everyone who talks to it.
//!
//! This room parses the command line, finds the server, calls it, and shows the answer to people or to scripts. It
//! decides nothing about workflows: what it says it has from the wire.

mod bench;
mod child;
mod cli;
mod client;
mod connection;
mod demo;
mod deployment;
mod dev;
mod error;
mod exec;
mod human;
mod instance;
mod json;
mod screen;
mod sequence;
mod signal;
mod timeline;
mod worker;
mod workers;

use std::{
    io::{IsTerminal, Read},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    client::Caller,
    error::Exit,
    screen::Screen,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.global.exit_with_stdin {
        leave_with_parent();
    }
    log_to_stderr(&cli.command);
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
    let caller = Caller::new(cli.global);
    match cli.command {
        Command::Dev(args) => dev::run(args).await.map(|()| Exit::Ok),
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

/// `ORCH8_LOG` chooses what is logged (`info`, `orch8=debug`, …); a server tells more by itself than a client.
fn log_to_stderr(command: &Command) {
    let quiet = match command {
        Command::Dev(_) => "info",
        Command::Worker(_) | Command::DemoWorker(_) | Command::DemoLedger(_) => "warn",
        Command::Sequence(_)
        | Command::Instance(_)
        | Command::Signal(_)
        | Command::Workers(_)
        | Command::Demo(_)
        | Command::Bench(_) => "error",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("ORCH8_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(quiet));
    // Fails only if somebody set a subscriber before, and then it stays.
    let _set_before = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init();
}
