//! Who may: tenants, credentials, placements, and the data planes that follow them.
//!
//! - `grpc`: thin handlers. `app`: one file per operation. `store`: the only room with sqlx.
//! - Judgements are `orch8_authority`'s; they are pure.
//!
//! **Invariant:** every change and its line in `changes` are one transaction, so a watcher that resumes misses nothing.
//! **Invariant:** a secret is answered once; what is stored is its hash.

mod app;
mod fleet;
mod grpc;
mod store;

use std::path::Path;

use orch8_proto::{
    identity::KeyRing,
    limited,
    serve::Services,
    v1::{
        fleet_service_server::FleetServiceServer, placement_service_server::PlacementServiceServer,
        tenant_service_server::TenantServiceServer,
    },
};

pub use app::Bootstrap;
pub use store::ControlStoreError;

use crate::{
    fleet::Fleet,
    grpc::{FleetApi, Placements, Tenants},
    store::ControlStore,
};

/// A control plane on one database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    store: ControlStore,
    keys: KeyRing,
    fleet: Fleet,
}

impl ControlPlane {
    /// Opens or makes the database and reads the keys. Errors: not writable, a newer schema.
    pub async fn open(path: &Path) -> Result<Self, ControlStoreError> {
        let store = ControlStore::open(path).await?;
        let plane = Self { keys: KeyRing::new(), fleet: Fleet::new(store.newest_change().await?), store };
        plane.keys.replace(plane.store.all_grants().await?);
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

    /// Makes a tenant, its placement and its keys, where they are not there yet.
    pub async fn bootstrap(&self, wanted: Bootstrap) -> Result<(), ControlStoreError> {
        app::bootstrap(self, wanted).await
    }

    /// Ends every watch with `DRAINING`. To be called when the listener is told to stop: a watch never ends by itself,
    /// and would cost the whole drain.
    pub fn drain(&self) {
        self.fleet.close();
    }

    /// Closes the database.
    pub async fn close(self) {
        self.drain();
        self.store.close().await;
    }
}
