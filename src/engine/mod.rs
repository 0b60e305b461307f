//! What the demo and the bench run workflows on: `orch8 dev`, or a whole deployment of processes on a given store.

mod fleet;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;

pub use self::fleet::Fleet;
use crate::{
    child::{Actor, start_engine, text},
    connection::Connection,
};

/// An engine in processes of its own.
#[derive(Debug)]
pub struct Engine {
    connection: Connection,
    processes: Processes,
}

#[derive(Debug)]
enum Processes {
    One(Box<One>),
    Fleet(Box<Fleet>),
}

/// `orch8 dev`.
#[derive(Debug)]
struct One {
    exe: PathBuf,
    dir: PathBuf,
    actor: Actor,
    /// Kept over restarts, so that workers find it again.
    at: SocketAddr,
}

/// Which of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Whoever owns the shards.
    Owner,
    /// Where it is a process of its own; else the one process.
    ControlPlane,
}

impl Engine {
    /// Starts it in `dir` and waits until it serves. `store`: control plane and nodes are processes of their own, on this
    /// database; without it `orch8 dev` on SQLite in `dir`.
    pub async fn start(dir: &Path, store: Option<&str>) -> anyhow::Result<Self> {
        match store {
            Some(store) => {
                let fleet = Box::new(Fleet::start(dir, store).await?);
                Ok(Self { connection: fleet.connection().clone(), processes: Processes::Fleet(fleet) })
            }
            None => {
                let exe = std::env::current_exe().context("finding this executable")?;
                let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
                let (actor, connection) = start_one(&exe, dir, anywhere).await?;
                let at = connection.address.strip_prefix("http://").and_then(|address| address.parse().ok());
                let at = at.with_context(|| format!("the engine listens at {}", connection.address))?;
                let one = Box::new(One { exe, dir: dir.to_owned(), actor, at });
                Ok(Self { connection, processes: Processes::One(one) })
            }
        }
    }

    /// How to reach it; the same after a restart of whatever process.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Errors: a process ended by itself; with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match &mut self.processes {
            Processes::One(one) => one.actor.check(),
            Processes::Fleet(fleet) => fleet.check(),
        }
    }

    /// SIGKILL, then the same process again.
    pub async fn kill_and_restart(&mut self, part: Part) -> anyhow::Result<()> {
        match (&mut self.processes, part) {
            (Processes::One(one), Part::Owner | Part::ControlPlane) => {
                one.actor.kill().await?;
                (one.actor, self.connection) = start_one(&one.exe, &one.dir, one.at).await?;
                Ok(())
            }
            (Processes::Fleet(fleet), Part::Owner) => fleet.kill_owner_and_restart().await,
            (Processes::Fleet(fleet), Part::ControlPlane) => fleet.kill_control_plane_and_restart().await,
        }
    }

    /// SIGTERM, and waits until all have ended.
    pub async fn terminate(&mut self) -> anyhow::Result<()> {
        match &mut self.processes {
            Processes::One(one) => one.actor.terminate().await,
            Processes::Fleet(fleet) => fleet.terminate().await,
        }
    }

    /// Files in which its processes leave the counters of their stores when they end well.
    pub fn counters(&self) -> Vec<PathBuf> {
        match &self.processes {
            Processes::One(one) => vec![counters(&one.dir, "dev")],
            Processes::Fleet(fleet) => fleet.counters(),
        }
    }
}

async fn start_one(exe: &Path, dir: &Path, listen: SocketAddr) -> anyhow::Result<(Actor, Connection)> {
    let counters = counters(dir, "dev");
    start_engine(exe, dir, listen, &["--counters", text(&counters)?]).await
}

fn counters(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.counters.json"))
}
