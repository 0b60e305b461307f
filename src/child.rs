//! Processes of this same executable: an engine for the demo and the bench, and the demo's own.
//!
//! A child ends when its standard input closes, and that closes when this process ends, however it ends;
//! `kill_on_drop` is the belt beside these braces. What it says goes to a log beside its data.

use std::{
    fs::{File, OpenOptions},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context;
use orch8_proto::v1::ListSequencesRequest;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdout, Command};

use crate::{
    client::Server,
    connection::Connection,
    error::{CliError, Exit},
};

/// A process that needs longer to start is broken.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// Between two looks whether it is there.
pub const START_POLL: Duration = Duration::from_millis(20);
/// Of a dead process's log the end is shown.
const LOG_TAIL_LINES: usize = 12;
const LOG_TAIL_BYTES: u64 = 8 << 10;

/// A child and its log.
#[derive(Debug)]
pub struct Actor {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Actor {
    /// Starts it; standard output goes to the log too, unless `heard`.
    pub fn spawn(
        name: &'static str,
        exe: &Path,
        dir: &Path,
        args: &[&str],
        heard: bool,
    ) -> anyhow::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let log_file = |path: &Path| -> std::io::Result<File> {
            OpenOptions::new().create(true).append(true).open(path)
        };
        let child = Command::new(exe)
            .arg("--exit-with-stdin")
            .args(args)
            .env_remove("ORCH8_ADDRESS")
            .env_remove("ORCH8_KEY")
            .env_remove("ORCH8_KEY_FILE")
            .env_remove("ORCH8_TENANT")
            .env_remove("ORCH8_DIR")
            .stdin(Stdio::piped())
            .stdout(if heard { Stdio::piped() } else { log_file(&log)?.into() })
            .stderr(log_file(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting the {name}"))?;
        Ok(Self { name, child, log })
    }

    /// Its standard output, once.
    pub fn hear(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// SIGKILL. Errors: it was dead already.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.check()?;
        self.child.kill().await.with_context(|| format!("killing the {}", self.name))
    }

    /// SIGTERM, and waits until it has drained. Errors: it was dead already, or does not end.
    pub async fn terminate(&mut self) -> anyhow::Result<()> {
        self.check()?;
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("the {} has no process id", self.name))?;
        kill_process(pid, Signal::TERM).with_context(|| format!("stopping the {}", self.name))?;
        // Waiting would close its standard input, and that means: leave at once.
        let held = self.child.stdin.take();
        let ended = tokio::time::timeout(START_LIMIT, self.child.wait()).await;
        drop(held);
        ended.with_context(|| format!("the {} does not stop", self.name))?.map(drop).map_err(Into::into)
    }

    /// Errors: it ended by itself; with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(CliError::new(
                Exit::Failed,
                "CHILD",
                format!("the {} ended by itself ({status})", self.name),
            )
            .hint(format!("the end of {}:\n{}", self.log.display(), tail(&self.log)))
            .into()),
        }
    }
}

/// Starts `orch8 dev` and waits until it answers.
pub async fn start_engine(
    exe: &Path,
    dir: &Path,
    listen: SocketAddr,
    more: &[&str],
) -> anyhow::Result<(Actor, Connection)> {
    let listen = listen.to_string();
    let args = [&["dev", "--dir", text(dir)?, "--listen", &listen], more].concat();
    let mut actor = Actor::spawn("engine", exe, dir, &args, false)?;
    let pid = actor.child.id();
    let begun = Instant::now();
    loop {
        actor.check()?;
        // An older process's file may still be there: only the one of this process counts.
        if let Some(connection) = Connection::read(dir)?.filter(|connection| Some(connection.pid) == pid)
            && answers(&connection).await
        {
            return Ok((actor, connection));
        }
        if begun.elapsed() > START_LIMIT {
            return Err(CliError::new(Exit::Failed, "CHILD", "the engine did not start in time")
                .hint(format!("the end of {}:\n{}", actor.log.display(), tail(&actor.log)))
                .into());
        }
        tokio::time::sleep(START_POLL).await;
    }
}

async fn answers(connection: &Connection) -> bool {
    let Ok(server) = Server::lazy(&connection.address, &connection.client_key) else { return false };
    server.sequences().list_sequences(ListSequencesRequest::default()).await.is_ok()
}

/// As an argument.
pub fn text(dir: &Path) -> anyhow::Result<&str> {
    dir.to_str().with_context(|| format!("{} is not UTF-8", dir.display()))
}

fn tail(log: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}
