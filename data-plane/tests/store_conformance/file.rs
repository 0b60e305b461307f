//! The SQLite file: one process, no torn state, a bounded write-ahead log.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use orch8_data_plane::store::{Sent, Start, Started, Store, StoreError, TenantHandle, TurnAnswer, TurnWrite};
use orch8_engine::{SignalKind, Status};
use orch8_model::InstanceId;
use sqlx::{Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::ground::*;

/// A connection behind the store's back.
async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.expect("the file")
}

fn wal(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

#[tokio::test]
async fn a_second_opener_is_refused_in_one_clear_line() {
    let fresh = Fresh::sqlite().await;
    let path = fresh.folder.path().join("store.db");
    let second = Store::open_file(&path).await.expect_err("the first one is open");
    assert!(matches!(second, StoreError::InUse { .. }), "{second:?}");
    let line = format!("{} is in use by another process; stop it first", path.display());
    assert_eq!(second.to_string(), line);
    tenant(&fresh.store, "acme").await;
    fresh.store.close().await;
    let third = Store::open_file(&path).await.expect("nobody has it");
    assert_eq!(third.fences(None, 9).await.expect("fences").len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let fresh = Fresh::sqlite().await;
    tenant(&fresh.store, "acme").await;
    let files: Vec<_> =
        std::fs::read_dir(fresh.folder.path()).expect("a folder").map(|f| f.expect("a file")).collect();
    assert!(files.len() >= 3, "the file, its log, its lock");
    for file in files {
        let mode = file.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_and_a_path_that_is_no_file_are_refused() {
    let fresh = Fresh::sqlite().await;
    let path = fresh.folder.path().join("store.db");
    fresh.store.close().await;
    sqlx::query("UPDATE meta SET value = '99' WHERE key = 'schema'")
        .execute(&mut raw(&path).await)
        .await
        .expect("sql");
    let newer = Store::open_file(&path).await.expect_err("99 is newer");
    assert!(matches!(newer, StoreError::NewerSchema { found: 99, .. }), "{newer:?}");
    let folder = Store::open_file(&fresh.folder.path().join("missing").join("store.db")).await;
    assert!(matches!(folder, Err(StoreError::NotWritable { .. })), "{folder:?}");
    std::fs::write(&path, "this is not a database, whatever its name says".repeat(99)).expect("a file");
    assert!(matches!(Store::open_file(&path).await, Err(StoreError::Database { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_is_there_after_a_crash() {
    let fresh = Fresh::sqlite().await;
    let store = &fresh.store;
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 7).await;
    let mut ids = Vec::new();
    for n in 0..50 {
        let id = running(store, &acme, &leases).await;
        if n % 2 == 0 {
            store.send(&acme, message(id, "s", SignalKind::Pause)).await.expect("a send");
        }
        ids.push(id);
    }
    let waiting = born(store, &acme).await;

    // What a machine that stops at this instant leaves: the files as they are, the shared memory gone.
    let image = tempfile::tempdir().expect("a folder");
    let path = image.path().join("store.db");
    for name in ["store.db", "store.db-wal"] {
        std::fs::copy(fresh.folder.path().join(name), image.path().join(name)).expect("a copy");
    }
    let again = Store::open_file(&path).await.expect("a store");
    assert_eq!(again.lease(orch8_model::Shard(0)).await.expect("a lease"), lease_epoch(7));
    let loaded = again.load(&ids).await.expect("a load");
    assert_eq!(loaded.len(), 50);
    assert!(loaded.iter().all(|l| l.row.status == Status::Waiting && l.tail.len() == 1));
    let (mut hot, mut mail) = (HashSet::new(), 0);
    for lease in &leases {
        hot.extend(again.hot(lease.shard, None, 999).await.expect("hot"));
        mail += again.mail(*lease, 0, 999).await.expect("mail").len();
    }
    assert_eq!((hot, mail), (ids.iter().copied().collect(), 25));
    let lease = lease_of(&again, &leases, waiting);
    let ready = again.claim(lease, NOW, 9, 9, &[], &[]).await.expect("a claim");
    assert_eq!(ready.iter().map(|r| r.instance).collect::<Vec<_>>(), [waiting]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_dropped_without_close_can_be_opened_again() {
    let fresh = Fresh::sqlite().await;
    let path = fresh.folder.path().join("store.db");
    let acme = tenant(&fresh.store, "acme").await;
    let id = born(&fresh.store, &acme).await;
    drop(fresh.store);
    let again = Store::open_file(&path).await.expect("the writer lets go by itself");
    assert!(again.instance(&acme, id).await.expect("a read").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_close_every_call_is_an_error() {
    let fresh = Fresh::sqlite().await;
    let acme = tenant(&fresh.store, "acme").await;
    fresh.store.close().await;
    fresh.store.close().await;
    assert!(matches!(fresh.store.start(&acme, vec![]).await, Err(StoreError::Database { .. })));
    assert!(matches!(fresh.store.fences(None, 1).await, Err(StoreError::Database { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_leaves_no_transaction_open() {
    let fresh = Fresh::sqlite().await;
    let store = &fresh.store;
    let acme = tenant(store, "acme").await;
    let id = born(store, &acme).await;
    let send = |n: u64| {
        let (store, acme) = (store.clone(), acme.clone());
        async move {
            let message = message(id, &n.to_string(), SignalKind::Pause);
            store.send(&acme, message).await.expect("a send").expect("an open fence")
        }
    };
    for n in 0..200 {
        // Gone before, while, or after it is done.
        let task = tokio::spawn(send(n));
        tokio::time::sleep(Duration::from_micros(n * 10)).await;
        task.abort();
    }
    let (mut stored, mut known) = (0, 0);
    for n in 0..200 {
        match send(n).await {
            Sent::Stored => stored += 1,
            Sent::Duplicate => known += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(stored + known, 200);
    let mut conn = raw(&fresh.folder.path().join("store.db")).await;
    let rows: i64 = sqlx::query("SELECT count(*) FROM inbox").fetch_one(&mut conn).await.expect("sql").get(0);
    assert_eq!(rows, 200, "each exactly once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_fails_does_not_fail_those_that_came_with_it() {
    let fresh = Fresh::sqlite().await;
    let acme = tenant(&fresh.store, "acme").await;
    let starts: Vec<_> = (0..64)
        .map(|n| {
            let (store, acme) = (fresh.store.clone(), acme.clone());
            let mut birth = birth(fresh_id());
            // Outside what the table takes.
            birth.priority = if n % 8 == 0 { 200 } else { 1 };
            tokio::spawn(async move { store.start(&acme, vec![Start { birth, once: None }]).await })
        })
        .collect();
    for (n, start) in starts.into_iter().enumerate() {
        match start.await.expect("no panic") {
            Ok(Some(answers)) => assert!(n % 8 != 0 && matches!(answers[..], [Started::New(_)]), "{n}"),
            Err(StoreError::Database { .. }) => assert_eq!(n % 8, 0),
            other => panic!("{n}: {other:?}"),
        }
    }
    let counters = fresh.store.counters();
    assert!(counters.transactions > 8 && counters.statements > counters.transactions);
    assert_eq!(
        fresh.store.list_instances(&acme, &Default::default(), None, 99).await.expect("a list").len(),
        56
    );
}

#[tokio::test]
async fn a_corrupt_row_names_table_column_and_key() {
    let fresh = Fresh::sqlite().await;
    let acme = tenant(&fresh.store, "acme").await;
    let id = born(&fresh.store, &acme).await;
    let mut conn = raw(&fresh.folder.path().join("store.db")).await;
    for (sql, table, column) in [
        ("UPDATE instances SET namespace = char(7)", "instances", "namespace"),
        ("UPDATE instances SET namespace = 'x', sequence_id = x'00'", "instances", "sequence_id"),
    ] {
        sqlx::query(sql).execute(&mut conn).await.expect("sql");
        let error = fresh.store.instance(&acme, id).await.expect_err("corrupt");
        let expected = format!("corrupt row in {table}, column {column}, key {}", id.0.simple());
        assert_eq!(error.to_string(), expected);
    }
}

/// Sixteen claim and commit on one file, five thousand turns of 16 KiB, beside a reader that holds an old state.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_claimers_and_a_long_reader_get_on_with_one_file() {
    const INSTANCES: usize = 5_000;
    const LOG_BYTES_MAX: u64 = 64 << 20;
    let fresh = Fresh::sqlite().await;
    let store = &fresh.store;
    let path = fresh.folder.path().join("store.db");
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    start(store, &acme, (0..INSTANCES).map(|_| birth(fresh_id())).collect()).await;

    let mut reader = raw(&path).await;
    let mut old = reader.begin().await.expect("a read transaction");
    let turns = "SELECT count(*) FROM journal";
    let before: i64 = sqlx::query(turns).fetch_one(&mut *old).await.expect("sql").get(0);
    let began = Instant::now();

    let claimers: Vec<_> = (0..16)
        .map(|n| {
            let (store, acme, lease) = (store.clone(), acme.clone(), leases[n % leases.len()]);
            tokio::spawn(async move {
                let mut done: Vec<InstanceId> = Vec::new();
                loop {
                    let ready = store.claim(lease, NOW, 32, 32, &[], &[]).await.expect("a claim");
                    if ready.is_empty() {
                        return done;
                    }
                    let turns = ready.iter().map(|r| big_turn(&store, &acme, r.instance)).collect();
                    let answers = commit(&store, &[lease], turns).await;
                    for (ready, answer) in ready.iter().zip(answers) {
                        match answer {
                            TurnAnswer::Done => done.push(ready.instance),
                            TurnAnswer::Lost => {}
                            TurnAnswer::Fenced | TurnAnswer::HasMail => panic!("{answer:?}"),
                        }
                    }
                }
            })
        })
        .collect();
    let second = Store::open_file(&path).await.expect_err("it is in use");
    assert!(matches!(second, StoreError::InUse { .. }), "{second:?}");
    let mut done = Vec::new();
    for claimer in claimers {
        done.extend(claimer.await.expect("no panic"));
    }
    assert_eq!(done.len(), INSTANCES);
    assert_eq!(done.iter().collect::<HashSet<_>>().len(), INSTANCES, "none twice");
    assert_eq!(store.counters().turns, INSTANCES as u64);

    tokio::time::sleep(Duration::from_secs(3).saturating_sub(began.elapsed())).await;
    let during: i64 = sqlx::query(turns).fetch_one(&mut *old).await.expect("sql").get(0);
    assert_eq!(before, during, "the reader saw one state");
    let length = || std::fs::metadata(wal(&path)).expect("a log").len();
    assert!(length() > LOG_BYTES_MAX, "the reader was in the way, or this test proves nothing");
    old.commit().await.expect("the end of the reader");
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut n = 1;
    while length() >= LOG_BYTES_MAX {
        assert!(Instant::now() < deadline, "the log still has {} bytes", length());
        assert_eq!(commit(store, &leases, vec![turn(store, &acme, done[0], n)]).await, [TurnAnswer::Done]);
        n += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn big_turn(store: &Store, tenant: &TenantHandle, id: InstanceId) -> TurnWrite {
    let body = format!("\"{}\"", "x".repeat(16 << 10));
    TurnWrite { body, status: Some(Status::Waiting), ready: true, ..turn(store, tenant, id, 0) }
}
