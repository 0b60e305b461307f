//! Connections and servers that go away, at every moment. What is answered is right, or it is `OutcomeUnknown`; and
//! whoever comes next finds a sound connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orch8_data_plane::store::{
    Commit, Lease, Sent, Start, Started, Store, StoreError, TenantHandle, TurnAnswer,
};
use orch8_engine::SignalKind;
use orch8_model::InstanceId;
use sqlx::PgConnection;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::ground::*;

const OURS: &str = "datname = current_database() AND application_name = 'orch8' AND pid <> pg_backend_pid()";

async fn kill(conn: &mut PgConnection, which: &str) -> i64 {
    number(
        conn,
        &format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {OURS} AND {which}"),
    )
    .await
}

async fn until(conn: &mut PgConnection, which: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while number(conn, &format!("SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND {which}")).await == 0
    {
        assert!(Instant::now() < deadline, "nobody is {which}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A running instance, the leases, a tenant.
async fn ground(store: &Store) -> (TenantHandle, Vec<Lease>, InstanceId) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    (acme, leases, id)
}

async fn try_commit(
    store: &Store,
    (acme, leases, id): &(TenantHandle, Vec<Lease>, InstanceId),
    turn_no: u64,
) -> Result<Vec<TurnAnswer>, StoreError> {
    store.commit(Commit { leases: leases.clone(), turns: vec![turn(store, acme, *id, turn_no)] }).await
}

/// The pools are sound: more operations than connections, all right, and no transaction is left open.
async fn all_is_well(store: &Store, ground: &(TenantHandle, Vec<Lease>, InstanceId), url: &str) {
    let (acme, _, id) = ground;
    let next = turn_count(store, acme, *id).await as u64;
    for turn_no in next..next + 3 {
        assert_eq!(try_commit(store, ground, turn_no).await.expect("a commit"), [TurnAnswer::Done]);
    }
    let reads: Vec<_> = (0..40)
        .map(|_| {
            let (store, acme, id) = (store.clone(), acme.clone(), *id);
            tokio::spawn(
                async move { store.load_one(&acme, id).await.expect("a read").expect("an instance") },
            )
        })
        .collect();
    for read in reads {
        assert_eq!(read.await.expect("no panic").tail.len() as u64, next + 3);
    }
    let mut conn = behind(url).await;
    let open =
        format!("SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND state LIKE 'idle in transaction%'");
    assert_eq!(number(&mut conn, &open).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_died_while_idle_are_replaced_unnoticed() {
    let (store, url) = postgres().await;
    let ground = ground(&store).await;
    let (acme, leases, id) = &ground;
    all_is_well(&store, &ground, &url).await;
    let mut conn = behind(&url).await;
    for (doing, turn_no) in
        [("commit", 4), ("read", 0), ("start", 0), ("send", 0), ("raise", 0), ("fence", 0)]
    {
        until(&mut conn, "state = 'idle'").await;
        assert!(kill(&mut conn, "true").await > 0, "{doing}");
        match doing {
            "commit" => {
                assert_eq!(try_commit(&store, &ground, turn_no).await.expect(doing), [TurnAnswer::Done]);
            }
            "read" => assert!(store.load_one(acme, *id).await.expect(doing).is_some()),
            "start" => start(&store, acme, vec![birth(fresh_id())]).await,
            "send" => {
                let sent = store.send(acme, message(*id, "s", SignalKind::Pause)).await;
                assert_eq!(sent.expect(doing), Some(Sent::Stored));
            }
            "raise" => assert!(store.raise(leases[0].shard, &node("n"), lease_epoch(1)).await.is_ok()),
            _ => assert!(fence(&store, "other", 1, orch8_data_plane::store::FenceMode::Active).await),
        }
    }
    all_is_well(&store, &ground, &url).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_killed_half_way_has_written_nothing() {
    let (store, url) = postgres().await;
    let ground = ground(&store).await;
    let (mut stop, mut conn) = (behind(&url).await, behind(&url).await);
    for (locked, lock) in [
        ("at the lease", "BEGIN; UPDATE shard_leases SET node = node"),
        ("at the journal", "BEGIN; LOCK TABLE journal IN SHARE MODE"),
    ] {
        sql(&mut stop, lock).await;
        let committing = {
            let (store, ground) = (store.clone(), (ground.0.clone(), ground.1.clone(), ground.2));
            tokio::spawn(async move { try_commit(&store, &ground, 1).await })
        };
        until(&mut conn, "wait_event_type = 'Lock'").await;
        assert_eq!(kill(&mut conn, "wait_event_type = 'Lock'").await, 1, "{locked}");
        let answer = committing.await.expect("no panic");
        assert!(matches!(answer, Err(StoreError::Database { .. })), "{locked}: {answer:?}");
        sql(&mut stop, "ROLLBACK").await;
        assert_eq!(turn_count(&store, &ground.0, ground.2).await, 1, "{locked}");
    }
    all_is_well(&store, &ground, &url).await;
    store.close().await;
}

/// A trigger holds the transaction inside its COMMIT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_killed_inside_its_commit_does_not_know() {
    let (store, url) = postgres().await;
    let ground = ground(&store).await;
    let mut conn = behind(&url).await;
    sql(
        &mut conn,
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON journal_rest DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION hold();
         SELECT pg_advisory_lock(42)",
    )
    .await;
    let committing = {
        let (store, ground) = (store.clone(), (ground.0.clone(), ground.1.clone(), ground.2));
        tokio::spawn(async move { try_commit(&store, &ground, 1).await })
    };
    until(&mut conn, "wait_event = 'advisory' AND query = 'COMMIT'").await;
    kill(&mut conn, "wait_event = 'advisory'").await;
    let answer = committing.await.expect("no panic");
    assert!(matches!(answer, Err(StoreError::OutcomeUnknown { .. })), "{answer:?}");
    sql(&mut conn, "SELECT pg_advisory_unlock(42); DROP FUNCTION hold CASCADE").await;
    assert_eq!(turn_count(&store, &ground.0, ground.2).await, 1);
    all_is_well(&store, &ground, &url).await;
    store.close().await;
}

/// A wire that can swallow the answer to a COMMIT and then break.
struct Wire {
    url: String,
    breaks: Arc<AtomicBool>,
}

impl Wire {
    async fn to(url: &str) -> Self {
        let port = orch8_test_postgres::shared().port();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let here = listener.local_addr().expect("an address").port();
        let breaks = Arc::new(AtomicBool::new(false));
        let wire =
            Self { url: url.replace(&format!(":{port}/"), &format!(":{here}/")), breaks: breaks.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
                tokio::spawn(carry(client, server, breaks.clone()));
            }
        });
        wire
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, breaks: Arc<AtomicBool>) {
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut swallow = false;
    loop {
        tokio::select! {
            n = client.read(&mut asked) => match n {
                Ok(n) if n > 0 => {
                    swallow |= breaks.load(Relaxed) && asked[..n].windows(7).any(|w| w == b"COMMIT\0");
                    if server.write_all(&asked[..n]).await.is_err() { return }
                }
                Ok(_) | Err(_) => return,
            },
            n = server.read(&mut answered) => match n {
                Ok(n) if n > 0 && !swallow => if client.write_all(&answered[..n]).await.is_err() { return },
                Ok(_) | Err(_) => return,
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_unknown_and_found_by_reading_again() {
    let (direct, url) = postgres().await;
    let wire = Wire::to(&url).await;
    let store = node_of(&wire.url).await;
    let ground = ground(&store).await;
    let (acme, _, id) = &ground;
    wire.breaks.store(true, Relaxed);
    let answer = try_commit(&store, &ground, 1).await;
    assert!(matches!(answer, Err(StoreError::OutcomeUnknown { .. })), "{answer:?}");
    let late = fresh_id();
    let start = || vec![Start { birth: birth(late), once: Some((key("k"), body("x"))) }];
    let answer = store.start(acme, start()).await;
    assert!(matches!(answer, Err(StoreError::OutcomeUnknown { .. })), "{answer:?}");
    let letter = || message(*id, "s", SignalKind::Pause);
    let answer = store.send(acme, letter()).await;
    assert!(matches!(answer, Err(StoreError::OutcomeUnknown { .. })), "{answer:?}");
    wire.breaks.store(false, Relaxed);

    assert_eq!(store.load(&[*id]).await.expect("a load")[0].tail.len(), 2, "it was committed");
    assert_eq!(try_commit(&store, &ground, 1).await.expect("a commit"), [TurnAnswer::Lost]);
    let again = store.start(acme, start()).await.expect("a start");
    assert_eq!(again, Some(vec![Started::Deduplicated(late)]));
    assert_eq!(store.send(acme, letter()).await.expect("a send"), Some(Sent::Duplicate));
    all_is_well(&store, &ground, &url).await;
    store.close().await;
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_go_away_leave_no_transaction_open() {
    let (store, url) = postgres().await;
    let ground = ground(&store).await;
    let (acme, _, id) = &ground;
    for n in 0..150_u64 {
        // Gone before, while, or after it is done.
        let (store, acme, id) = (store.clone(), acme.clone(), *id);
        let ground = (ground.0.clone(), ground.1.clone(), ground.2);
        let task = tokio::spawn(async move {
            match n % 3 {
                0 => drop(try_commit(&store, &ground, n).await),
                1 => drop(store.send(&acme, message(id, &n.to_string(), SignalKind::Pause)).await),
                _ => drop(store.load(&[id]).await),
            }
        });
        tokio::time::sleep(Duration::from_micros(n * 20)).await;
        task.abort();
    }
    for n in 0..150_u64 {
        let sent = store.send(acme, message(*id, &n.to_string(), SignalKind::Pause)).await.expect("a send");
        assert!(matches!(sent, Some(Sent::Stored | Sent::Duplicate)), "{sent:?}");
    }
    let mut conn = behind(&url).await;
    assert_eq!(number(&mut conn, "SELECT count(*) FROM inbox").await, 150, "each exactly once");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let next = turn_count(&store, acme, *id).await as u64;
    assert_eq!(try_commit(&store, &ground, next).await.expect("a commit"), [TurnAnswer::Done]);
    let open =
        format!("SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND state LIKE 'idle in transaction%'");
    assert_eq!(number(&mut conn, &open).await, 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_is_there_after_the_server_crashed() {
    let cluster = orch8_test_postgres::Cluster::start();
    let url = cluster.database();
    let store = node_of(&url).await;
    let ground = ground(&store).await;
    let (acme, leases, id) = &ground;
    let waiting = born(&store, acme).await;
    for turn_no in 1..20 {
        assert_eq!(try_commit(&store, &ground, turn_no).await.expect("a commit"), [TurnAnswer::Done]);
    }
    assert_eq!(
        store.send(acme, message(*id, "s", SignalKind::Pause)).await.expect("a send"),
        Some(Sent::Stored)
    );
    cluster.crash();
    assert!(try_commit(&store, &ground, 20).await.is_err(), "nobody answers");
    cluster.up();
    assert_eq!(turn_count(&store, acme, *id).await, 20);
    assert_eq!(store.mail_of(*id).await.expect("mail").len(), 1);
    let lease = lease_of(&store, leases, waiting);
    let ready = store.claim(lease, NOW, 9, 9, &[], &[]).await.expect("a claim");
    assert_eq!(ready.iter().map(|r| r.instance).collect::<Vec<_>>(), [waiting]);
    all_is_well(&store, &ground, &url).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_start_that_fails_does_not_fail_those_that_came_with_it() {
    let (store, _) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let starts: Vec<_> = (0..64)
        .map(|n| {
            let (store, acme) = (store.clone(), acme.clone());
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
    let all = store.list_instances(&acme, &Default::default(), None, 99).await.expect("a list");
    assert_eq!(all.len(), 56);
    store.close().await;
    assert!(matches!(store.start(&acme, vec![]).await, Err(StoreError::Database { .. })), "closed");
    assert!(matches!(store.fences(None, 1).await, Err(StoreError::Database { .. })), "closed");
}
