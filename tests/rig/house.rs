//! What a scenario runs on: `orch8 dev` on SQLite, or a fleet of processes on Postgres. The scenario does not ask which.

use super::{
    Client, Engine,
    fleet::{Fleet, Kind},
};

/// Tenant of [`House::client`].
const TENANT: &str = "dev";

/// An engine of either kind.
pub enum House {
    One(Engine),
    Fleet(Box<Fleet>, Client),
}

impl House {
    /// `orch8 dev` in a new folder.
    pub async fn sqlite() -> Self {
        Self::One(Engine::start().await)
    }

    /// A control plane and one node on a new database.
    pub async fn postgres() -> Self {
        let fleet = Fleet::start(Kind::Postgres, 1).await;
        let client = fleet.tenant(TENANT).await;
        Self::Fleet(Box::new(fleet), client)
    }

    /// Clients with a key that starts, publishes and reads.
    pub fn client(&self) -> Client {
        match self {
            Self::One(engine) => engine.client(),
            Self::Fleet(_, client) => client.clone(),
        }
    }

    /// Another tenant in the same store.
    pub async fn tenant(&self, tenant: &str) -> Client {
        match self {
            Self::One(engine) => engine.tenant(tenant).await,
            Self::Fleet(fleet, _) => fleet.tenant(tenant).await,
        }
    }

    /// What the process that owns the shards has logged.
    pub fn log(&self) -> String {
        match self {
            Self::One(engine) => engine.log(),
            Self::Fleet(fleet, _) => fleet.nodes[0].log(),
        }
    }

    /// SIGKILL of the process that owns the shards, then the same again; returns once it serves.
    pub async fn crash_and_restart(&mut self) {
        match self {
            Self::One(engine) => engine.crash_and_restart().await,
            Self::Fleet(fleet, client) => {
                fleet.nodes[0].kill();
                fleet.nodes[0].up();
                fleet.known(client).await;
            }
        }
    }
}
