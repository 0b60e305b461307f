//! Who may: tenants, credentials, placements, and the fleet of data planes: which node owns which shards.
//!
//! - `grpc`: thin handlers. `app`: one file per operation. `task`: what goes on by itself. `store`: the only room with
//!   sqlx.
//! - Judgements are `orch8_authority`'s; they are pure.
//!
//! Several replicas may serve one Postgres database: each answers every call, each sees within a fifth of a second what
//! the others wrote, and one of them leads: it gives shards to nodes, and takes them from those it does not hear.
//!
//! **Invariant:** every change and its line in `changes` are one transaction, and its number is given in the order of
//! commits, so a watcher that resumes misses nothing.
//! **Invariant:** one epoch of a shard has one holder, ever.
//! **Invariant:** a secret is answered once; what is stored is its hash.

mod app;
mod fleet;
mod grpc;
mod store;
mod task;

use std::{sync::Arc, time::Duration};

use orch8_model::DatabaseUrl;
use orch8_proto::{
    identity::KeyRing,
    limited,
    serve::Services,
    v1::{
        fleet_service_server::FleetServiceServer, placement_service_server::PlacementServiceServer,
        tenant_service_server::TenantServiceServer,
    },
};
use orch8_seal::SecretText;
use tokio::{sync::Mutex, time::timeout};
use tokio_util::task::TaskTracker;

pub use app::{Bootstrap, InitError};
pub use fleet::FleetTimes;
pub use orch8_authority::StoreKind;
pub use store::ControlStoreError;

use crate::{
    app::{Seen, catch_up},
    fleet::Fleet,
    grpc::{FleetApi, Placements, Tenants},
    store::ControlStore,
};

/// How long the loops may take to end: each is between two statements, or waits for one.
const LOOPS_END_WITHIN: Duration = Duration::from_secs(5);

/// A control plane on one database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    store: ControlStore,
    keys: KeyRing,
    fleet: Fleet,
    times: FleetTimes,
    seen: Arc<Mutex<Seen>>,
    loops: TaskTracker,
}

impl ControlPlane {
    /// Opens or makes the database, reads the keys, and starts to watch over the fleet.
    ///
    /// Errors: not writable or reachable, in use by another process (a SQLite file), a newer schema.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, ControlStoreError> {
        Self::open_with(url, FleetTimes::default()).await
    }

    /// [`Self::open`] with other times. Replicas of one database need the same.
    pub async fn open_with(url: &DatabaseUrl, times: FleetTimes) -> Result<Self, ControlStoreError> {
        let plane = Self {
            store: ControlStore::open(url).await?,
            keys: KeyRing::new(),
            fleet: Fleet::new(),
            times,
            seen: Arc::default(),
            loops: TaskTracker::new(),
        };
        catch_up(&plane).await?;
        plane.loops.spawn(task::follow_others(plane.clone()));
        plane.loops.spawn(task::lead(plane.clone()));
        plane.loops.close();
        Ok(plane)
    }

    /// The keys it accepts, always current: what its listener guards with.
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Adds the services of a control plane.
    pub fn serve(&self, services: Services) -> Services {
        services
            .with(limited!(TenantServiceServer::new(Tenants(self.clone()))))
            .with(limited!(PlacementServiceServer::new(Placements(self.clone()))))
            .with(limited!(FleetServiceServer::new(FleetApi(self.clone()))))
    }

    /// Makes a tenant, its store, its placement and its keys, where they are not there yet.
    pub async fn bootstrap(&self, wanted: Bootstrap) -> Result<(), ControlStoreError> {
        app::bootstrap(self, wanted).await
    }

    /// Makes the deployment's first key (operator, placement-admin) and answers its secret, once: it is stored nowhere.
    ///
    /// Errors: a good operator key is there already; it is named, with what to do.
    pub async fn init_operator_key(&self) -> Result<SecretText, InitError> {
        app::init_operator_key(self).await
    }

    /// Ends every stream with `DRAINING`, and leaves the lead to another replica. To be called when the listener is told
    /// to stop: a stream never ends by itself, and would cost the whole drain.
    pub fn drain(&self) {
        self.fleet.close();
    }

    /// Closes the database.
    pub async fn close(self) {
        self.drain();
        if timeout(LOOPS_END_WITHIN, self.loops.wait()).await.is_err() {
            tracing::warn!("the control plane's loops did not end; closing the database under them");
        }
        self.store.close().await;
    }
}
