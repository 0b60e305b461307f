//! The demo's processes: started, found dead, killed on purpose, started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::ledger::Listening;
use crate::{
    child::{Actor, START_LIMIT, text},
    connection::Connection,
    engine::{Engine, Part},
};

/// Who can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `orch8 dev`, or the node that owns the shards.
    Engine,
    Worker,
    /// Where it is a process of its own.
    ControlPlane,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Engine => "engine",
            Role::Worker => "worker",
            Role::ControlPlane => "control plane",
        }
    }
}

/// All of them.
#[derive(Debug)]
pub struct Stage {
    exe: PathBuf,
    dir: PathBuf,
    pace: Duration,
    engine: Engine,
    ledger: Actor,
    ledger_at: SocketAddr,
    worker: Actor,
}

impl Stage {
    /// Starts ledger, engine and worker in `dir`. `pace`: what each step takes at least. `store`: the engine is a
    /// control plane and nodes on this database.
    pub async fn set(dir: &Path, pace: Duration, store: Option<&str>) -> anyhow::Result<Self> {
        let exe = std::env::current_exe().context("finding this executable")?;
        let (ledger, ledger_at) = start_ledger(&exe, dir).await?;
        let engine = Engine::start(dir, store).await?;
        let worker = start_worker(&exe, dir, ledger_at, pace)?;
        Ok(Self { exe, dir: dir.to_owned(), pace, engine, ledger, ledger_at, worker })
    }

    /// How to reach the engine; the same after a restart.
    pub fn connection(&self) -> &Connection {
        self.engine.connection()
    }

    /// Errors: one of them ended by itself; with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.ledger.check()?;
        self.engine.check()?;
        self.worker.check()
    }

    /// SIGKILL, then a new process. Answers how long nobody was there.
    pub async fn kill_and_restart(&mut self, role: Role) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        match role {
            Role::Engine => self.engine.kill_and_restart(Part::Owner).await?,
            Role::ControlPlane => self.engine.kill_and_restart(Part::ControlPlane).await?,
            Role::Worker => {
                self.worker.kill().await?;
                self.worker = start_worker(&self.exe, &self.dir, self.ledger_at, self.pace)?;
            }
        }
        Ok(begun.elapsed())
    }
}

async fn start_ledger(exe: &Path, dir: &Path) -> anyhow::Result<(Actor, SocketAddr)> {
    let mut actor = Actor::spawn("ledger", exe, dir, &["demo-ledger", "--dir", text(dir)?], true)?;
    let stdout = actor.hear().context("the ledger has no standard output")?;
    let mut line = String::new();
    let mut reader = BufReader::new(stdout);
    match tokio::time::timeout(START_LIMIT, reader.read_line(&mut line)).await {
        Ok(Ok(read)) if read > 0 => {}
        Ok(Ok(_)) | Ok(Err(_)) | Err(_) => {
            actor.check()?;
            bail!("the ledger did not say where it listens");
        }
    }
    let Listening { listening } = serde_json::from_str(&line).context("the ledger's first line")?;
    Ok((actor, listening))
}

fn start_worker(exe: &Path, dir: &Path, ledger: SocketAddr, pace: Duration) -> anyhow::Result<Actor> {
    let (ledger, pace) = (ledger.to_string(), pace.as_millis().to_string());
    let args = ["demo-worker", "--dir", text(dir)?, "--ledger", &ledger, "--pace-ms", &pace];
    Actor::spawn("worker", exe, dir, &args, false)
}
