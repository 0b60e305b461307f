//! From the first line to the last of a server process: one way up and one way down for every command that serves.
//!
//! The first SIGTERM or SIGINT drains: health says NOT_SERVING, nothing new is begun, what is open may end until the
//! deadline, then everything is closed. A second signal ends the process at once.

use std::{future::Future, io::IsTerminal, net::SocketAddr, path::Path, time::Duration};

use anyhow::Context;
use clap::ValueEnum;
use orch8_data_plane::store::Counters;
use orch8_proto::{
    identity::KeyRing,
    serve::{self, Services, Terms},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    error::{CliError, Exit},
    human,
};

/// After the deadline of the drain: sockets are cut, the last commits return, databases close. What takes longer than
/// this hangs.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// What a process consists of beside its listener.
pub trait Household {
    /// Ends what would go on for ever, and waits for what ends by itself, at most `deadline`.
    fn drain(&self, deadline: Duration) -> impl Future<Output = ()>;
    /// Finishes and closes, when nobody is served any more.
    fn close(self) -> impl Future<Output = anyhow::Result<()>>;
}

/// A listener that is about to serve.
pub struct Front {
    pub listener: TcpListener,
    pub services: Services,
    pub keys: KeyRing,
    pub terms: Terms,
}

/// How the process talks about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Takes the port. Errors: taken, not ours, not allowed.
pub async fn bind(listen: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}; choose another address with --listen"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Starts, serves and ends. `ready` runs between: what it waits for is reached over the listener that is open by then.
/// A signal while starting ends the process as one that comes later does.
pub async fn live<H: Household>(
    start: impl Future<Output = anyhow::Result<(Front, H)>>,
    ready: impl AsyncFnOnce(&H) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let (front, household) = tokio::select! {
        started = start => started?,
        () = signals.next() => return Ok(Exit::Interrupted),
    };
    let drain = front.terms.drain;
    let stop = CancellationToken::new();
    let mut serving =
        tokio::spawn(serve::serve(front.listener, front.services, front.keys, stop.clone(), front.terms));
    let mut outcome = Ok(Exit::Ok);
    tokio::select! {
        () = signals.next() => {}
        ended = &mut serving => return Err(unasked(ended)),
        is_ready = ready(&household) => match is_ready {
            Err(why) => outcome = Err(why),
            Ok(()) => tokio::select! {
                () = signals.next() => {}
                ended = &mut serving => return Err(unasked(ended)),
            },
        },
    }
    signals.exit_at_the_next();
    tracing::info!(deadline_ms = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX), "draining");
    stop.cancel();
    let leaving = async {
        household.drain(drain).await;
        let ended = serving.await.context("the listener broke")?.context("the listener broke")?;
        tracing::info!(?ended, "closing");
        household.close().await
    };
    match tokio::time::timeout(drain.saturating_add(CLOSE_WITHIN), leaving).await {
        Ok(closed) => closed.and(outcome),
        Err(_) => Err(hangs(drain)),
    }
}

fn unasked<T: std::fmt::Debug>(ended: T) -> anyhow::Error {
    anyhow::anyhow!("the listener ended by itself: {ended:?}")
}

fn hangs(drain: Duration) -> anyhow::Error {
    let limit = human::duration(drain.saturating_add(CLOSE_WITHIN));
    CliError::new(
        Exit::Failed,
        "DRAIN",
        format!("still not closed {limit} after the signal; leaving as it is"),
    )
    .hint("what was acknowledged is committed; the next start goes on from there")
    .into()
}

/// Says that the process is ready: a line for people, an event for machines.
pub fn announce(form: LogForm, process: &str, address: &str, more: &[String]) {
    match form {
        LogForm::Json => tracing::info!(process, address, "ready"),
        LogForm::Text => {
            eprintln!("orch8 {process} is ready at {address}");
            more.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Leaves what the stores have done for whoever measures.
pub fn leave_counters(file: &Path, done: Counters) -> anyhow::Result<()> {
    let done = serde_json::json!({
        "transactions": done.transactions, "statements": done.statements, "turns": done.turns, "fenced": done.fenced,
    });
    std::fs::write(file, done.to_string()).with_context(|| format!("cannot write {}", file.display()))
}

/// `ORCH8_LOG` chooses what is logged (`info`, `orch8=debug`, …); `quiet` when it says nothing.
pub fn log_to_stderr(quiet: &str, form: LogForm) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ORCH8_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(quiet));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only if somebody set a subscriber before, and then it stays.
    let _set_before = match form {
        LogForm::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogForm::Json => lines.json().flatten_event(true).with_current_span(true).try_init(),
    };
}

/// SIGINT and SIGTERM, kept from the first moment on: none is lost between two waits.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    fn exit_at_the_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
    }
}
