//! Keys: their hashes, never their secrets.

use orch8_model::{Millis, Role, Roles, TenantId};
use orch8_seal::Digest;
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::{
    ApiKey, ControlStore, ControlStoreError,
    changes::{self, Thing},
    database,
};

const COLUMNS: &str =
    "key_sha256, tenant_id, roles, display_name, created_at, expires_at, revoked_at, request_id, key_id";

/// Keys of one tenant (or of the deployment) that are good at once. They live in the memory of every process, and
/// nobody rotates through a thousand.
pub const LIVE_KEYS_MAX: u32 = 1_000;
/// How long a request id is remembered.
const REQUEST_ID_MS: i64 = 24 * 60 * 60 * 1_000;

/// Answer to `create_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCreated {
    /// Written; the number of the change.
    New(u64),
    /// The same hash, or the same request id, is there already: the id of that key.
    Taken(String),
    /// The owner has [`LIVE_KEYS_MAX`] keys.
    Full,
}

/// Answer to `revoke_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRevoked {
    /// Ended now; the number of the change.
    Now(ApiKey, u64),
    /// Had been ended before.
    Before(ApiKey),
    Missing,
}

impl ControlStore {
    /// Writes the key, unless it is there, its request id was used within 24 h, or there are too many.
    pub async fn create_key(&self, key: &ApiKey) -> Result<KeyCreated, ControlStoreError> {
        let failed = database("write of a key");
        let mut tx = self.writer().begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        forget_request(&mut tx, key).await.map_err(&failed)?;
        if let Some(id) = twin(&mut tx, key).await.map_err(&failed)? {
            return Ok(KeyCreated::Taken(id));
        }
        if live_keys(&mut tx, key).await.map_err(&failed)? >= i64::from(LIVE_KEYS_MAX) {
            return Ok(KeyCreated::Full);
        }
        insert(&mut tx, key).await.map_err(&failed)?;
        let change = changes::note(&mut tx, Thing::Key(&key.id())).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)?;
        Ok(KeyCreated::New(change))
    }

    pub async fn revoke_key(&self, key_id: &str, now: Millis) -> Result<KeyRevoked, ControlStoreError> {
        let failed = database("write of a key");
        let mut tx = self.writer().begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let done = sqlx::query("UPDATE api_keys SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL")
            .bind(now.0)
            .bind(key_id)
            .execute(&mut *tx)
            .await
            .map_err(&failed)?;
        let change = match done.rows_affected() {
            0 => None,
            _ => Some(changes::note(&mut tx, Thing::Key(key_id)).await.map_err(&failed)?),
        };
        tx.commit().await.map_err(&failed)?;
        Ok(match (self.key(key_id).await?, change) {
            (Some(key), Some(change)) => KeyRevoked::Now(key, change),
            (Some(key), None) => KeyRevoked::Before(key),
            (None, _) => KeyRevoked::Missing,
        })
    }

    async fn key(&self, key_id: &str) -> Result<Option<ApiKey>, ControlStoreError> {
        let sql = format!("SELECT {COLUMNS} FROM api_keys WHERE key_id = ?");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(key_id).fetch_optional(self.readers()).await;
        row.map_err(database("read of a key"))?.map(api_key).transpose()
    }

    /// By id, after `after`; of one tenant or of all.
    pub async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<ApiKey>, ControlStoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM api_keys WHERE key_id > ?1 AND (?2 IS NULL OR tenant_id = ?2) ORDER BY key_id LIMIT ?3"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(after)
            .bind(tenant.map(|t| t.as_str().to_owned()))
            .bind(limit)
            .fetch_all(self.readers())
            .await;
        rows.map_err(database("read of keys"))?.into_iter().map(api_key).collect()
    }

    pub(super) async fn all_keys(&self) -> Result<Vec<ApiKey>, ControlStoreError> {
        let sql = format!("SELECT {COLUMNS} FROM api_keys WHERE revoked_at IS NULL ORDER BY key_id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(self.readers()).await;
        rows.map_err(database("read of keys"))?.into_iter().map(api_key).collect()
    }

    pub(super) async fn keys_changed_after(&self, token: i64) -> Result<Vec<ApiKey>, ControlStoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM api_keys WHERE key_id IN (SELECT key FROM changes WHERE seq > ? AND kind = 'key')"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(token).fetch_all(self.readers()).await;
        rows.map_err(database("read of keys"))?.into_iter().map(api_key).collect()
    }
}

/// A request id older than a day means nothing any more.
async fn forget_request(conn: &mut SqliteConnection, key: &ApiKey) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE api_keys SET request_id = NULL WHERE request_id = ? AND created_at <= ?")
        .bind(key.request_id.clone())
        .bind(key.created_at.plus(-REQUEST_ID_MS).0)
        .execute(conn)
        .await
        .map(drop)
}

/// The id of a key with this hash or this request id.
async fn twin(conn: &mut SqliteConnection, key: &ApiKey) -> Result<Option<String>, sqlx::Error> {
    sqlx::query("SELECT key_id FROM api_keys WHERE key_sha256 = ? OR request_id = ? LIMIT 1")
        .bind(key.sha256.0.to_vec())
        .bind(key.request_id.clone())
        .fetch_optional(conn)
        .await?
        .map(|row| row.try_get(0))
        .transpose()
}

/// How many keys of this owner are good now. `IS`, since the deployment's own keys have no tenant.
async fn live_keys(conn: &mut SqliteConnection, key: &ApiKey) -> Result<i64, sqlx::Error> {
    sqlx::query(
        "SELECT count(*) FROM api_keys
         WHERE tenant_id IS ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)",
    )
    .bind(key.tenant.as_ref().map(|t| t.as_str().to_owned()))
    .bind(key.created_at.0)
    .fetch_one(conn)
    .await?
    .try_get(0)
}

async fn insert(conn: &mut SqliteConnection, key: &ApiKey) -> Result<(), sqlx::Error> {
    let sql = format!("INSERT INTO api_keys ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?)");
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(key.sha256.0.to_vec())
        .bind(key.tenant.as_ref().map(|t| t.as_str().to_owned()))
        .bind(roles_text(key.roles))
        .bind(key.display_name.as_str())
        .bind(key.created_at.0)
        .bind(key.expires_at.map(|at| at.0))
        .bind(key.request_id.clone())
        .bind(key.id())
        .execute(conn)
        .await
        .map(drop)
}

fn roles_text(roles: Roles) -> String {
    roles.iter().map(Role::as_str).collect::<Vec<_>>().join(",")
}

fn api_key(row: SqliteRow) -> Result<ApiKey, ControlStoreError> {
    let failed = database("read of a key");
    let hash: Vec<u8> = row.try_get(0).map_err(&failed)?;
    let tenant: Option<String> = row.try_get(1).map_err(&failed)?;
    let roles: String = row.try_get(2).map_err(&failed)?;
    let id: String = row.try_get(8).map_err(&failed)?;
    let corrupt = |column| ControlStoreError::Corrupt { table: "api_keys", column, key: id.clone() };
    Ok(ApiKey {
        sha256: Digest::from_slice(&hash).ok_or_else(|| corrupt("key_sha256"))?,
        tenant: tenant.map(|t| TenantId::parse(&t)).transpose().map_err(|_| corrupt("tenant_id"))?,
        // A role of a newer version allows nothing here.
        roles: roles.split(',').filter_map(Role::parse).collect(),
        display_name: row.try_get(3).map_err(&failed)?,
        created_at: Millis(row.try_get(4).map_err(&failed)?),
        expires_at: row.try_get::<Option<i64>, _>(5).map_err(&failed)?.map(Millis),
        revoked_at: row.try_get::<Option<i64>, _>(6).map_err(&failed)?.map(Millis),
        request_id: row.try_get(7).map_err(&failed)?,
    })
}

#[cfg(test)]
mod tests {
    use orch8_seal::sha256;

    use super::*;

    fn key(secret: &str, at: i64, expires_at: Option<i64>, request_id: Option<&str>) -> ApiKey {
        ApiKey {
            sha256: sha256(secret.as_bytes()),
            tenant: None,
            roles: [Role::Node].into_iter().collect(),
            display_name: String::new(),
            created_at: Millis(at),
            expires_at: expires_at.map(Millis),
            revoked_at: None,
            request_id: request_id.map(str::to_owned),
        }
    }

    async fn store(folder: &tempfile::TempDir) -> ControlStore {
        ControlStore::open(&folder.path().join("control.db")).await.expect("opens")
    }

    #[tokio::test]
    async fn a_request_id_is_remembered_for_a_day() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder).await;
        let first = key("a", 0, None, Some("r"));
        assert!(matches!(store.create_key(&first).await, Ok(KeyCreated::New(_))));
        let within = store.create_key(&key("b", REQUEST_ID_MS - 1, None, Some("r"))).await.expect("answers");
        assert_eq!(within, KeyCreated::Taken(first.id()));
        let after = store.create_key(&key("b", REQUEST_ID_MS, None, Some("r"))).await.expect("answers");
        assert!(matches!(after, KeyCreated::New(_)));
        let same = store.create_key(&key("a", REQUEST_ID_MS, None, None)).await.expect("answers");
        assert_eq!(same, KeyCreated::Taken(first.id()), "a secret is one key");
    }

    #[tokio::test]
    async fn changes_are_as_many_as_things_and_their_numbers_only_rise() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder).await;
        let first = key("a", 0, None, None);
        let KeyCreated::New(made) = store.create_key(&first).await.expect("answers") else { panic!("new") };
        let KeyRevoked::Now(_, ended) = store.revoke_key(&first.id(), Millis(5)).await.expect("answers")
        else {
            panic!("ended now")
        };
        assert!(ended > made);
        let rows =
            sqlx::query("SELECT count(*) FROM changes").fetch_one(store.readers()).await.expect("rows");
        assert_eq!(rows.try_get::<i64, _>(0).expect("a count"), 1);
        assert!(matches!(store.revoke_key(&first.id(), Millis(9)).await, Ok(KeyRevoked::Before(key))
            if key.revoked_at == Some(Millis(5))));
        assert_eq!(
            store.revoke_key("0000000000000000", Millis(9)).await.expect("answers"),
            KeyRevoked::Missing
        );
    }

    #[tokio::test]
    async fn a_key_that_expired_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder).await;
        for n in 0..LIVE_KEYS_MAX {
            let made = store.create_key(&key(&n.to_string(), 0, Some(100), None)).await;
            assert!(matches!(made, Ok(KeyCreated::New(_))));
        }
        assert_eq!(store.create_key(&key("x", 99, None, None)).await.expect("answers"), KeyCreated::Full);
        assert!(matches!(store.create_key(&key("x", 100, None, None)).await, Ok(KeyCreated::New(_))));
    }
}
