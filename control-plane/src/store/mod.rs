//! What do we store and why must it be durable? Tenants, key hashes and placements: a deployment that forgot them would
//! refuse everybody. Stores by name, nodes, and who owns which shards under which epoch: a control plane that forgot the
//! epochs would give away shards that their owners still hold.
//!
//! Each operation is one statement or one transaction; every transition is a compare-and-set. Every statement runs on
//! both databases, see [`database`].

mod changes;
mod confirmations;
mod counters;
mod database;
mod fleet;
mod keys;
mod leader;
mod migrate;
mod nodes;
mod open;
mod placements;
mod stores;
mod tenants;
#[cfg(test)]
mod tests;

pub use changes::Changes;
pub use counters::Counters;
pub use fleet::Joining;
pub use keys::{FirstKey, KeyCreated, KeyRevoked, LIVE_KEYS_MAX};
pub use leader::Term;
pub use nodes::{FleetView, Leases, NodeRow, OwnedShard, Seat};
pub use placements::Advanced;
pub use stores::{Registered, STORES_MAX};

use std::sync::Arc;

use orch8_authority::StoreShape;
use orch8_model::{DatabaseUrl, Millis, PlacementEpoch, Roles, StoreName, TenantId};
use orch8_proto::identity::Grant;
use orch8_seal::Digest;

/// The database failed, or holds what this version cannot read. Lost races are values, not errors.
#[derive(Debug, thiserror::Error)]
pub enum ControlStoreError {
    #[error("the control plane's database: {doing} failed")]
    Database {
        doing: &'static str,
        #[source]
        source: sqlx::Error,
    },
    #[error("corrupt row in {table}, column {column}, key {key}")]
    Corrupt { table: &'static str, column: &'static str, key: String },
    #[error("{path} cannot be opened")]
    NotWritable {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{path} is in use by another process: a SQLite file has one control plane, Postgres may have several"
    )]
    InUse { path: String },
    #[error("{url} cannot be reached")]
    Unreachable {
        url: DatabaseUrl,
        #[source]
        source: sqlx::Error,
    },
    #[error(
        "the control plane's database has schema {found}, this binary knows up to {known}: use a newer orch8"
    )]
    NewerSchema { found: i64, known: i64 },
    #[error("this database holds something else: give the control plane a database of its own")]
    Foreign,
}

/// A control plane's database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlStore {
    database: database::Database,
    /// Of a file.
    lock: Option<Arc<open::FileLock>>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    pub display_name: String,
    pub created_at: Millis,
}

/// A key as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub sha256: Digest,
    pub tenant: Option<TenantId>,
    pub roles: Roles,
    pub display_name: String,
    pub created_at: Millis,
    pub expires_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    pub request_id: Option<String>,
}

impl ApiKey {
    /// First 16 hex digits of its hash.
    pub fn id(&self) -> String {
        let mut id = self.sha256.hex();
        id.truncate(16);
        id
    }

    /// What it allows.
    pub fn grant(&self) -> Grant {
        Grant {
            tenant: self.tenant.clone(),
            roles: self.roles,
            expires_at: self.expires_at,
            revoked: self.revoked_at.is_some(),
        }
    }
}

/// Where a tenant is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub tenant: TenantId,
    pub store: StoreName,
    pub epoch: PlacementEpoch,
    pub updated_at: Millis,
}

/// A store by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    pub name: StoreName,
    pub shape: StoreShape,
    pub created_at: Millis,
}
