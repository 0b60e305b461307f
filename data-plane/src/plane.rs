//! A data-plane process: its stores, their owners, the sessions, the services, and the order in which they end.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures::future::join_all;
use orch8_model::{DatabaseUrl, NodeName, StoreName, TenantId};
use orch8_proto::{
    identity::KeyRing,
    limited,
    serve::Services,
    v1::{
        instance_service_server::InstanceServiceServer, sequence_service_server::SequenceServiceServer,
        signal_service_server::SignalServiceServer, worker_service_server::WorkerServiceServer,
    },
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::DataPlane,
    directory::Directory,
    grpc::{Instances, Sequences, Signals, Workers},
    join::Membership,
    replicas::Replicas,
    router::Router,
    session::SessionConfig,
    shard::{ShardConfig, StoreRoom},
    store::{Counters, Store, StoreError},
};

/// What a data-plane process is made of.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// One process at a time may have this name.
    pub node: NodeName,
    /// Where clients and workers reach it.
    pub address: String,
    /// The stores this process serves: their names in placements, and where they are.
    pub stores: Vec<(StoreName, DatabaseUrl)>,
    pub shards: ShardConfig,
    pub sessions: SessionConfig,
}

/// A running data plane.
#[derive(Debug)]
pub struct Plane {
    api: DataPlane,
    keys: KeyRing,
    rooms: Vec<Arc<StoreRoom>>,
    node: NodeName,
    address: String,
    tasks: TaskTracker,
    left: CancellationToken,
}

/// Every store that could not be opened, and why.
#[derive(Debug)]
pub struct OpenError(pub Vec<(StoreName, StoreError)>);

impl Plane {
    /// Opens the stores. It owns nothing until it has joined. Errors: all stores that cannot be opened, together.
    pub async fn open(config: PlaneConfig) -> Result<Self, OpenError> {
        let (mut rooms, mut failed) = (Vec::new(), Vec::new());
        for (name, url) in config.stores {
            match Store::open(&url).await {
                Ok(store) => rooms.push(StoreRoom::new(
                    name,
                    store,
                    config.node.clone(),
                    config.shards.clone(),
                    config.sessions.clone(),
                )),
                Err(error) => failed.push((name, error)),
            }
        }
        if !failed.is_empty() {
            for room in rooms {
                room.close().await;
            }
            return Err(OpenError(failed));
        }
        let router = Router::new(
            rooms.iter().map(|room| (room.name().clone(), Arc::clone(room))).collect::<HashMap<_, _>>(),
        );
        Ok(Self {
            api: DataPlane { router, leaving: CancellationToken::new() },
            keys: KeyRing::new(),
            rooms,
            node: config.node,
            address: config.address,
            tasks: TaskTracker::new(),
            left: CancellationToken::new(),
        })
    }

    /// Takes its place in the fleet and follows the control plane; returns once placements and keys are known.
    pub async fn join(&self, control_plane: Replicas) {
        let directory = Directory {
            control_plane: control_plane.clone(),
            node: self.node.clone(),
            stores: self.rooms.iter().map(|room| room.name().clone()).collect(),
        };
        let (known, mut is_known) = watch::channel(false);
        self.tasks.spawn(directory.follow(
            self.keys.clone(),
            self.api.router.clone(),
            known,
            self.api.leaving.clone(),
        ));
        let membership = Membership {
            control_plane,
            node: self.node.clone(),
            address: self.address.clone(),
            rooms: self.rooms.clone(),
        };
        self.tasks.spawn(membership.keep(self.left.clone()));
        // The sender lives as long as the task: an error means that we are stopping.
        let _ = is_known.wait_for(|known| *known).await;
    }

    /// Returns once every shard of every store is owned here: for a process that is alone.
    pub async fn owns_all(&self) {
        for room in &self.rooms {
            let mut changes = room.changes();
            while room.owned().len() < usize::from(room.store().shards()) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// The keys it learned.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Adds the services of a data plane.
    pub fn serve(&self, services: Services) -> Services {
        let api = &self.api;
        let router = api.router.clone();
        let sessions = move |tenant: &TenantId| Ok(router.route(tenant)?.room.sessions().clone());
        services
            .with(limited!(SequenceServiceServer::new(Sequences(api.clone()))))
            .with(limited!(InstanceServiceServer::new(Instances(api.clone()))))
            .with(limited!(SignalServiceServer::new(Signals(api.clone()))))
            .with(limited!(WorkerServiceServer::new(Workers(sessions))))
    }

    /// What the stores have done so far, together.
    pub fn counters(&self) -> Counters {
        self.rooms.iter().map(|room| room.store().counters()).sum()
    }

    /// Ends what would go on for ever, tells the workers to leave and waits for them, at most `deadline`.
    pub async fn drain(&self, deadline: Duration) {
        self.api.leaving.cancel();
        join_all(self.rooms.iter().map(|room| room.sessions().drain(deadline))).await;
    }

    /// Stops the owners, commits what they decided, gives the shards back, closes the stores.
    pub async fn close(self) {
        self.api.leaving.cancel();
        join_all(self.rooms.iter().map(|room| room.release_all())).await;
        self.left.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        join_all(self.rooms.iter().map(|room| room.close())).await;
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (store, error)) in self.0.iter().enumerate() {
            write!(f, "{}store {store}: {error}", if n == 0 { "" } else { "\n" })?;
            let mut cause = std::error::Error::source(error);
            while let Some(why) = cause {
                write!(f, ": {why}")?;
                cause = why.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for OpenError {}
