//! Keys: their hashes, never their secrets.

use orch8_model::{Millis, Role, Roles, TenantId};
use orch8_seal::Digest;

use super::{
    ApiKey, ControlStore, ControlStoreError,
    changes::{self, Thing},
    counters::Counter,
    database::{Row, Tx, statement},
};

const SELECT: &str =
    "SELECT key_sha256, key_id, tenant_id, roles, display_name, created_at, expires_at, revoked_at,
                             request_id
                      FROM api_keys";
const READ: &str = "read of keys";
const WRITE: &str = "write of a key";

/// Keys of one tenant (or of the deployment) that are good at once. They live in the memory of every process, and
/// nobody rotates through a thousand.
pub const LIVE_KEYS_MAX: u32 = 1_000;
/// How long a request id is remembered.
pub(super) const REQUEST_ID_MS: i64 = 24 * 60 * 60 * 1_000;

/// Answer to `create_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCreated {
    /// Written.
    New,
    /// The same hash, or the same request id, is there already: the id of that key.
    Taken(String),
    /// The owner has [`LIVE_KEYS_MAX`] keys.
    Full,
}

/// Answer to `revoke_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRevoked {
    /// Ended, now or before.
    Ended(ApiKey),
    Missing,
}

/// Answer to `create_first_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstKey {
    /// Written.
    Made,
    /// A good key of the deployment has the role already: its id.
    There(String),
}

impl ControlStore {
    /// Writes the key, unless it is there, its request id was used within 24 h, or there are too many.
    pub async fn create_key(&self, key: &ApiKey) -> Result<KeyCreated, ControlStoreError> {
        let mut tx = self.begin(Counter::Changes, WRITE).await?;
        forget_request(&mut tx, key).await?;
        if let Some(id) = twin(&mut tx, key).await? {
            return Ok(KeyCreated::Taken(id));
        }
        if live_keys(&mut tx, key).await? >= i64::from(LIVE_KEYS_MAX) {
            return Ok(KeyCreated::Full);
        }
        insert(&mut tx, key).await?;
        tx.commit().await?;
        Ok(KeyCreated::New)
    }

    /// Writes a key of the deployment, unless a good one has `role` already.
    pub async fn create_first_key(&self, key: &ApiKey, role: Role) -> Result<FirstKey, ControlStoreError> {
        let mut tx = self.begin(Counter::Changes, WRITE).await?;
        let sql = format!(
            "{SELECT} WHERE tenant_id IS NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1)
             ORDER BY key_id"
        );
        for row in tx.rows(statement(READ, sql).bind(key.created_at.0)).await? {
            let there = api_key(row)?;
            if there.roles.has(role) {
                return Ok(FirstKey::There(there.id()));
            }
        }
        insert(&mut tx, key).await?;
        tx.commit().await?;
        Ok(FirstKey::Made)
    }

    pub async fn revoke_key(&self, key_id: &str, now: Millis) -> Result<KeyRevoked, ControlStoreError> {
        let mut tx = self.begin(Counter::Changes, WRITE).await?;
        let sql = "UPDATE api_keys SET revoked_at = $1 WHERE key_id = $2 AND revoked_at IS NULL";
        if tx.run(statement(WRITE, sql).bind(now.0).bind(key_id)).await? > 0 {
            changes::note(&mut tx, Thing::Key(key_id)).await?;
        }
        tx.commit().await?;
        Ok(self.key(key_id).await?.map_or(KeyRevoked::Missing, KeyRevoked::Ended))
    }

    async fn key(&self, key_id: &str) -> Result<Option<ApiKey>, ControlStoreError> {
        let read = statement(READ, format!("{SELECT} WHERE key_id = $1")).bind(key_id);
        self.database.row(read).await?.map(api_key).transpose()
    }

    /// By id, after `after`; of one tenant or of all.
    pub async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<ApiKey>, ControlStoreError> {
        let sql =
            format!("{SELECT} WHERE key_id > $1 AND ($2 IS NULL OR tenant_id = $2) ORDER BY key_id LIMIT $3");
        let read = statement(READ, sql).bind(after).bind(tenant.map(|t| t.as_str().to_owned())).bind(limit);
        self.database.rows(read).await?.into_iter().map(api_key).collect()
    }

    pub(super) async fn all_keys(&self) -> Result<Vec<ApiKey>, ControlStoreError> {
        let sql = format!("{SELECT} WHERE revoked_at IS NULL ORDER BY key_id");
        self.database.rows(statement(READ, sql)).await?.into_iter().map(api_key).collect()
    }

    pub(super) async fn keys_changed_after(&self, token: i64) -> Result<Vec<ApiKey>, ControlStoreError> {
        let sql =
            format!("{SELECT} WHERE key_id IN (SELECT key FROM changes WHERE seq > $1 AND kind = 'key')");
        self.database.rows(statement(READ, sql).bind(token)).await?.into_iter().map(api_key).collect()
    }
}

/// A request id older than a day means nothing any more.
async fn forget_request(tx: &mut Tx, key: &ApiKey) -> Result<(), ControlStoreError> {
    let sql = "UPDATE api_keys SET request_id = NULL WHERE request_id = $1 AND created_at <= $2";
    let forget =
        statement(WRITE, sql).bind(key.request_id.clone()).bind(key.created_at.plus(-REQUEST_ID_MS).0);
    tx.run(forget).await.map(drop)
}

/// The id of a key with this hash or this request id.
async fn twin(tx: &mut Tx, key: &ApiKey) -> Result<Option<String>, ControlStoreError> {
    let sql = "SELECT key_id FROM api_keys WHERE key_sha256 = $1 OR request_id = $2 LIMIT 1";
    let read = statement(READ, sql).bind(key.sha256.0.to_vec()).bind(key.request_id.clone());
    tx.row(read).await?.map(|row| row.get("key_id")).transpose()
}

/// How many keys of this owner are good now. The deployment's own keys have no tenant.
async fn live_keys(tx: &mut Tx, key: &ApiKey) -> Result<i64, ControlStoreError> {
    let sql = "SELECT count(*) AS live FROM api_keys
               WHERE tenant_id IS NOT DISTINCT FROM $1 AND revoked_at IS NULL
                 AND (expires_at IS NULL OR expires_at > $2)";
    let tenant = key.tenant.as_ref().map(|t| t.as_str().to_owned());
    let row = tx.row(statement(READ, sql).bind(tenant).bind(key.created_at.0)).await?;
    row.map_or(Ok(0), |row| row.get("live"))
}

async fn insert(tx: &mut Tx, key: &ApiKey) -> Result<(), ControlStoreError> {
    let sql = "INSERT INTO api_keys
                   (key_sha256, key_id, tenant_id, roles, display_name, created_at, expires_at, request_id)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let write = statement(WRITE, sql)
        .bind(key.sha256.0.to_vec())
        .bind(key.id())
        .bind(key.tenant.as_ref().map(|t| t.as_str().to_owned()))
        .bind(roles_text(key.roles))
        .bind(key.display_name.as_str())
        .bind(key.created_at.0)
        .bind(key.expires_at.map(|at| at.0))
        .bind(key.request_id.clone());
    tx.run(write).await?;
    changes::note(tx, Thing::Key(&key.id())).await.map(drop)
}

fn roles_text(roles: Roles) -> String {
    roles.iter().map(Role::as_str).collect::<Vec<_>>().join(",")
}

fn api_key(row: Row) -> Result<ApiKey, ControlStoreError> {
    let (hash, id): (Vec<u8>, String) = (row.get("key_sha256")?, row.get("key_id")?);
    let (tenant, roles): (Option<String>, String) = (row.get("tenant_id")?, row.get("roles")?);
    let corrupt = |column| ControlStoreError::Corrupt { table: "api_keys", column, key: id.clone() };
    Ok(ApiKey {
        sha256: Digest::from_slice(&hash).ok_or_else(|| corrupt("key_sha256"))?,
        tenant: tenant.map(|t| TenantId::parse(&t)).transpose().map_err(|_| corrupt("tenant_id"))?,
        // A role of a newer version allows nothing here.
        roles: roles.split(',').filter_map(Role::parse).collect(),
        display_name: row.get("display_name")?,
        created_at: Millis(row.get("created_at")?),
        expires_at: row.get::<Option<i64>>("expires_at")?.map(Millis),
        revoked_at: row.get::<Option<i64>>("revoked_at")?.map(Millis),
        request_id: row.get("request_id")?,
    })
}
