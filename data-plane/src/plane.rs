//! A data-plane process: its stores, their owners, the sessions, the services, and the order in which they end.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use orch8_model::{NodeName, StoreName, TenantId};
use orch8_proto::{
    identity::KeyRing,
    limited,
    serve::Services,
    v1::{
        instance_service_server::InstanceServiceServer, sequence_service_server::SequenceServiceServer,
        signal_service_server::SignalServiceServer, worker_service_server::WorkerServiceServer,
    },
};
use orch8_seal::SecretText;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Channel;

use crate::{
    app::DataPlane,
    directory::Directory,
    grpc::{Instances, Sequences, Signals, Workers},
    router::Router,
    session::SessionConfig,
    shard::{ShardConfig, StoreRoom},
    store::{Store, StoreError},
};

/// What a data-plane process is made of.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    pub node: NodeName,
    /// The store this process serves: its name in placements, and its file.
    pub store: (StoreName, PathBuf),
    pub shards: ShardConfig,
    pub sessions: SessionConfig,
}

/// A running data plane.
#[derive(Debug)]
pub struct Plane {
    api: DataPlane,
    keys: KeyRing,
    room: Arc<StoreRoom>,
    node: NodeName,
    tasks: TaskTracker,
}

impl Plane {
    /// Opens the store and takes its shards. Errors: the file is in use, not writable, of a newer schema.
    pub async fn open(config: PlaneConfig) -> Result<Self, StoreError> {
        let (name, path) = config.store;
        let store = Store::open_file(&path).await?;
        let room = StoreRoom::open(name.clone(), store, &config.node, config.shards, config.sessions).await?;
        let router = Router::new(HashMap::from([(name, Arc::clone(&room))]));
        Ok(Self {
            api: DataPlane { router, leaving: CancellationToken::new() },
            keys: KeyRing::new(),
            room,
            node: config.node,
            tasks: TaskTracker::new(),
        })
    }

    /// Follows the control plane; returns once placements and keys are known.
    pub async fn follow(&self, control_plane: Channel, key: SecretText) {
        let directory =
            Directory { control_plane, key, node: self.node.clone(), stores: vec![self.room.name().clone()] };
        let (known, mut is_known) = watch::channel(false);
        self.tasks.spawn(directory.follow(
            self.keys.clone(),
            self.api.router.clone(),
            known,
            self.api.leaving.clone(),
        ));
        // The sender lives as long as the task: an error means that we are stopping.
        let _ = is_known.wait_for(|known| *known).await;
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

    /// What the store has done so far.
    pub fn counters(&self) -> crate::store::sqlite::Counters {
        self.room.store().counters()
    }

    /// Ends what would go on for ever, tells the workers to leave and waits for them, at most `deadline`.
    pub async fn drain(&self, deadline: Duration) {
        self.api.leaving.cancel();
        self.room.sessions().drain(deadline).await;
    }

    /// Stops the owners, commits what they decided, closes the store.
    pub async fn close(self) {
        self.api.leaving.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.room.close().await;
    }
}
