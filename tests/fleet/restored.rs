//! Databases that are older than those who use them: restored from a backup.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use orch8_proto::v1::{self, InstanceState::Completed};
use orch8_test_postgres::ask;
use serde_json::json;

use crate::rig::{
    Client, PATIENCE,
    fleet::{Fleet, Kind},
};

fn noop() -> serde_json::Value {
    json!({"name": "n", "blocks": [{"type": "step", "id": "a", "handler": "noop"}]})
}

/// `name` becomes what `from` is; whoever is connected is put out.
fn copy_database(url: &str, from: &str, name: &str) {
    let (server, _) = url.rsplit_once('/').expect("a database");
    let admin = format!("{server}/postgres");
    // Those who come back in between are put out again.
    for attempt in 0.. {
        let out = format!(
            "ALTER DATABASE {from} ALLOW_CONNECTIONS false;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('{from}', '{name}')"
        );
        out.split(';').for_each(|sql| drop(ask(&admin, sql)));
        let copied = std::panic::catch_unwind(|| {
            ask(&admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
            ask(&admin, &format!("CREATE DATABASE {name} TEMPLATE {from}"));
        });
        if copied.is_ok() {
            break;
        }
        assert!(attempt < 20, "{from} cannot be copied");
    }
    ask(&admin, &format!("ALTER DATABASE {from} ALLOW_CONNECTIONS true"));
}

async fn runs(fleet: &Fleet, client: &Client, what: &str) {
    let began = Instant::now();
    let id = loop {
        match client.start("n", &json!({})).await {
            Ok(id) => break id,
            Err(why) => assert!(began.elapsed() < PATIENCE, "{what}: {why:?} {}", fleet.logs()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let began = Instant::now();
    while client.instance(&id).await.state() != Completed {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {id} does not run: {}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_restored_from_a_time_before_its_owner_is_owned_again() {
    let mut fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&noop()).await.expect("published");
    let url = fleet.store_url.clone();
    let (_, name) = url.rsplit_once('/').expect("a name");
    let backup = format!("backup_{name}");
    copy_database(&url, name, &backup);
    let first = fleet.owner().await;
    let other = fleet.at(1 - first, &acme);
    fleet.nodes[first].kill();
    let began = Instant::now();
    while fleet.owner().await == first {
        assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runs(&fleet, &other, "after the take-over").await;
    copy_database(&url, &backup, name);
    // Sixty-four shards: all of them have an owner.
    for n in 0..40 {
        runs(&fleet, &other, &format!("run {n} after the restore")).await;
    }
}

fn copy_folder(from: &Path, to: &Path, like: &str) {
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("a file").path()) {
        let name = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with(like) {
            fs::copy(&entry, to.join(name)).expect("copied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_restored_from_a_time_before_its_nodes_goes_on_with_them() {
    let mut fleet = Fleet::start(Kind::Postgres, 2).await;
    let acme = fleet.tenant("acme").await;
    acme.publish(&noop()).await.expect("published");
    let backup = tempfile::tempdir().expect("a folder");
    fleet.control.terminate();
    copy_folder(fleet.dir(), backup.path(), "control.db");
    fleet.control.up();
    for _ in 0..3 {
        let owner = fleet.owner().await;
        fleet.nodes[owner].kill();
        let began = Instant::now();
        while fleet.owner().await == owner {
            assert!(began.elapsed() < PATIENCE, "{}", fleet.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        fleet.nodes[owner].up();
    }
    let nodes = [fleet.at(0, &acme), fleet.at(1, &acme)];
    // Raised since: the backup knows an epoch that the store does not accept any more.
    fleet.place("acme", "main", 2).await;
    for node in &nodes {
        let began = Instant::now();
        fleet.known(node).await;
        runs(&fleet, node, "under the raised placement").await;
        assert!(began.elapsed() < PATIENCE);
    }
    let (_, epoch) = fleet.owner_of("main").await.expect("an owner");
    fleet.control.kill();
    for name in ["control.db", "control.db-wal", "control.db-shm"] {
        let _ = fs::remove_file(fleet.dir().join(name));
    }
    copy_folder(backup.path(), fleet.dir(), "control.db");
    fleet.control.up();
    let began = Instant::now();
    while fleet.owner_of("main").await.is_none_or(|(_, now)| now <= epoch) {
        assert!(began.elapsed() < PATIENCE, "epochs rise above the store's: {}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for node in &nodes {
        let list = node.sequences().list_sequences(v1::ListSequencesRequest::default()).await;
        list.unwrap_or_else(|why| {
            panic!("whom the nodes served they go on to serve: {why:?} {}", fleet.logs())
        });
        runs(&fleet, node, "after the restore").await;
    }
    // What is decided anew wins, once its epoch is above what the store holds.
    fleet.place("acme", "main", 3).await;
    for node in &nodes {
        fleet.known(node).await;
        runs(&fleet, node, "placed anew").await;
    }
}
