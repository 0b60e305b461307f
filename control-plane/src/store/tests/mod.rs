//! Every operation on both databases: one claim, two tests.

mod fleet;
mod keys;
mod open;

use orch8_model::{DatabaseUrl, Millis, NodeName, ProcessId, Role, StoreName};
use orch8_seal::sha256;
use tempfile::TempDir;

use super::*;

/// Makes of each claim about a [`Rig`] a test on SQLite and a test on Postgres.
macro_rules! on_both {
    ($(async fn $name:ident($rig:ident) $body:block)*) => { $(
        mod $name {
            use super::*;

            async fn claim($rig: Rig) $body

            #[tokio::test]
            async fn sqlite() {
                claim(Rig::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                claim(Rig::postgres().await).await;
            }
        }
    )* };
}
pub(super) use on_both;

/// A new database, open.
struct Rig {
    url: DatabaseUrl,
    store: ControlStore,
    _folder: Option<TempDir>,
}

impl Rig {
    async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("control.db"));
        Self { store: ControlStore::open(&url).await.expect("opens"), url, _folder: Some(folder) }
    }

    async fn postgres() -> Self {
        let url = DatabaseUrl::parse(&orch8_test_postgres::database()).expect("an address");
        Self { store: ControlStore::open(&url).await.expect("opens"), url, _folder: None }
    }

    /// The same database under a new process.
    async fn reopen(self) -> Result<Self, ControlStoreError> {
        self.store.close().await;
        let store = ControlStore::open(&self.url).await?;
        Ok(Self { store, ..self })
    }

    async fn run(&self, sql: &'static str) {
        self.store.database.run(database::statement("test", sql)).await.expect("runs");
    }

    async fn count(&self, sql: &'static str) -> i64 {
        let row = self.store.database.row(database::statement("test", sql)).await.expect("answers");
        row.expect("a row").get("n").expect("a count")
    }
}

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

fn store_name(name: &str) -> StoreName {
    StoreName::parse(name).expect("a name")
}

fn node_name(name: &str) -> NodeName {
    NodeName::parse(name).expect("a name")
}

fn process(n: u8) -> ProcessId {
    ProcessId::from_slice(&[n; 16]).expect("16 bytes")
}
