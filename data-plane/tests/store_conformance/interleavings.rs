//! Two at once on real connections: what the row locks hold, and what weaker forms let through.

use std::time::{Duration, Instant};

use orch8_data_plane::store::{FenceMode, Raised, Sent, Start, Store, StoreError, TenantHandle, TurnAnswer};
use orch8_engine::SignalKind;
use orch8_model::Shard;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::ground::*;

/// The store's own assertion, with its arguments: shard 3 at epoch 1.
fn ours() -> String {
    let sql = include_str!("../../src/store/postgres/sql/lease_assert.sql");
    sql.replace("$1::bigint[]", "'{3}'::bigint[]").replace("$2::bigint[]", "'{1}'::bigint[]")
}

const RAISE: &str = "UPDATE shard_leases SET lease_epoch = 2 WHERE shard = 3 AND lease_epoch < 2";
const WRITE: &str =
    "INSERT INTO once (tenant_no, kind, key, instance_id) VALUES (1, 1, 'paused', gen_random_uuid())";

async fn changed(conn: &mut PgConnection, text: &str) -> Result<u64, sqlx::Error> {
    Ok(sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await?.rows_affected())
}

/// Waits until somebody in this database waits for a lock.
async fn somebody_waits(conn: &mut PgConnection) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let deadline = Instant::now() + Duration::from_secs(5);
    while number(conn, waiting).await == 0 {
        assert!(Instant::now() < deadline, "nobody waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An owner asserts its lease and is paused. Somebody raises the lease. The owner goes on.
#[tokio::test]
async fn only_a_row_lock_keeps_a_raise_waiting_for_a_paused_owner() {
    const LEASE: &str = "SELECT 1 FROM shard_leases WHERE shard = 3 AND lease_epoch = 1";
    let (store, url) = postgres().await;
    let write = WRITE.replace("VALUES (", "SELECT ");
    let exists = format!("{} WHERE EXISTS ({LEASE})", write.strip_suffix(')').expect("a parenthesis"));
    for (form, assertion, holds) in [
        ("a plain read", LEASE.to_owned(), false),
        ("FOR KEY SHARE", format!("{LEASE} FOR KEY SHARE"), false),
        ("WHERE EXISTS in the write itself", exists.replace("'paused'", "'other'"), false),
        ("FOR SHARE", format!("{LEASE} FOR SHARE"), true),
        ("raising commit_seq, as we do", ours(), true),
    ] {
        let (mut owner, mut raiser) = (behind(&url).await, behind(&url).await);
        sql(&mut raiser, "UPDATE shard_leases SET lease_epoch = 1 WHERE shard = 3; DELETE FROM once").await;
        sql(&mut raiser, "SET lock_timeout = '200ms'").await;
        sql(&mut owner, "BEGIN").await;
        assert_eq!(changed(&mut owner, &assertion).await.expect(form), 1, "{form}: it holds the lease");
        let raised = changed(&mut raiser, RAISE).await;
        assert_eq!(raised.is_err(), holds, "{form}: the raise waits, or it does not: {raised:?}");
        sql(&mut owner, WRITE).await;
        sql(&mut owner, "COMMIT").await;
        let written = number(&mut raiser, "SELECT count(*) FROM once WHERE key = 'paused'").await;
        assert_eq!(written, 1, "{form}: the owner committed, and unless the raise waited, after it");
        if holds {
            assert_eq!(changed(&mut raiser, RAISE).await.expect("nobody is in the way"), 1);
            sql(&mut owner, "BEGIN").await;
            assert_eq!(changed(&mut owner, &assertion).await.expect(form), 0, "{form}: it is no longer ours");
            sql(&mut owner, "ROLLBACK").await;
        }
    }
    store.close().await;
}

/// A lock taken by the statement that looks comes too late: its snapshot is older than its wait.
#[tokio::test]
async fn a_lock_in_the_statement_that_looks_is_too_late() {
    let (store, url) = postgres().await;
    let (mut owner, mut raiser) = (behind(&url).await, behind(&url).await);
    let mut watcher = behind(&url).await;
    sql(&mut raiser, "UPDATE shard_leases SET lease_epoch = 1 WHERE shard = 3").await;
    sql(&mut raiser, "BEGIN; SELECT pg_advisory_xact_lock(3)").await;
    sql(&mut raiser, RAISE).await;
    let late = tokio::spawn(async move {
        let together =
            "SELECT l.shard::bigint FROM (SELECT pg_advisory_xact_lock(3) OFFSET 0) AS locked, shard_leases l
                        WHERE l.shard = 3 AND l.lease_epoch = 1";
        sql(&mut owner, "BEGIN").await;
        changed(&mut owner, together).await.expect("an answer")
    });
    somebody_waits(&mut watcher).await;
    sql(&mut raiser, "COMMIT").await;
    assert_eq!(late.await.expect("no panic"), 1, "it believes that it still holds epoch 1");

    // Ours waits for the row itself, and sees it as it is then.
    sql(&mut raiser, "UPDATE shard_leases SET lease_epoch = 1 WHERE shard = 3").await;
    sql(&mut raiser, "BEGIN").await;
    sql(&mut raiser, RAISE).await;
    let mut owner = behind(&url).await;
    let ours = tokio::spawn(async move { changed(&mut owner, &ours()).await.expect("an answer") });
    somebody_waits(&mut watcher).await;
    sql(&mut raiser, "COMMIT").await;
    assert_eq!(ours.await.expect("no panic"), 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_paused_for_long_is_put_out_and_writes_nothing() {
    let (store, url) = postgres().await;
    let mut owner = behind(&url).await;
    sql(&mut owner, "UPDATE shard_leases SET lease_epoch = 1 WHERE shard = 3").await;
    sql(&mut owner, "BEGIN").await;
    assert_eq!(changed(&mut owner, &ours()).await.expect("sql"), 1);
    sql(&mut owner, WRITE).await;

    let began = Instant::now();
    let raised = store.raise(Shard(3), &node("new"), lease_epoch(2)).await.expect("a raise");
    let took = began.elapsed();
    assert!(matches!(raised, Raised::Won { commit_seq: 0, .. }), "what it did was undone: {raised:?}");
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    assert!(changed(&mut owner, "COMMIT").await.is_err(), "it is gone");
    let mut conn = behind(&url).await;
    assert_eq!(number(&mut conn, "SELECT count(*) FROM once").await, 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_put_others_out_says_so() {
    let (store, url) = postgres().await;
    store.close().await;
    let database = url.rsplit('/').next().expect("a name").to_owned();
    let mut blocker = behind(&url).await;
    let weak = format!("weak_{database}");
    sql(
        &mut blocker,
        &format!(
            "CREATE ROLE {weak} LOGIN; ALTER DATABASE {database} OWNER TO {weak};
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {weak};
             DO $$ DECLARE t text; BEGIN
               FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
               LOOP EXECUTE format('ALTER TABLE %I OWNER TO {weak}', t); END LOOP;
             END $$"
        ),
    )
    .await;
    let store = node_of(&url.replace("postgres@", &format!("{weak}@"))).await;
    sql(&mut blocker, "BEGIN; UPDATE shard_leases SET node = 'x' WHERE shard = 3").await;
    let raised = store.raise(Shard(3), &node("new"), lease_epoch(2)).await;
    let Err(error @ StoreError::InTheWay { .. }) = raised else { panic!("{raised:?}") };
    assert!(error.to_string().contains("pg_signal_backend"), "{error}");
    sql(&mut blocker, "ROLLBACK").await;
    assert!(matches!(store.raise(Shard(3), &node("new"), lease_epoch(2)).await, Ok(Raised::Won { .. })));
    store.close().await;
}

/// A commit that has asserted and is on its way when the raise comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raise_waits_for_a_commit_on_its_way_and_the_next_one_is_refused() {
    let (old, url) = postgres().await;
    let new = node_of(&url).await;
    let acme = tenant(&old, "acme").await;
    let leases = leases(&old, 1).await;
    let id = running(&old, &acme, &leases).await;
    let shard = lease_of(&old, &leases, id).shard;
    let (mut stop, mut watcher) = (behind(&url).await, behind(&url).await);
    sql(&mut stop, "BEGIN; LOCK TABLE journal IN SHARE MODE").await;
    let committing = {
        let (old, leases, turn) = (old.clone(), leases.clone(), turn(&old, &acme, id, 1));
        tokio::spawn(async move { commit(&old, &leases, vec![turn]).await })
    };
    somebody_waits(&mut watcher).await;
    let raising = tokio::spawn(async move {
        let raised = new.raise(shard, &node("new"), lease_epoch(2)).await.expect("a raise");
        new.close().await;
        raised
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!raising.is_finished(), "the commit holds the lease's row");
    sql(&mut stop, "COMMIT").await;
    assert_eq!(committing.await.expect("no panic"), [TurnAnswer::Done]);
    let raised = raising.await.expect("no panic");
    assert!(matches!(raised, Raised::Won { commit_seq: 2, .. }), "it saw that commit: {raised:?}");
    assert_eq!(commit(&old, &leases, vec![turn(&old, &acme, id, 2)]).await, [TurnAnswer::Fenced]);
    old.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_that_is_being_raised_refuses_its_tenant_and_nobody_else() {
    let (store, url) = postgres().await;
    let (acme, other) = (tenant(&store, "acme").await, tenant(&store, "other").await);
    let leases = leases(&store, 1).await;
    let (mine, theirs) = (running(&store, &acme, &leases).await, running(&store, &other, &leases).await);
    let mut mover = behind(&url).await;
    sql(&mut mover, "BEGIN; UPDATE tenant_fences SET mode = 'draining' WHERE tenant_id = 'acme'").await;
    let began = Instant::now();
    let batch = |n| vec![turn(&store, &acme, mine, n), turn(&store, &other, theirs, n)];
    assert_eq!(commit(&store, &leases, batch(1)).await, [TurnAnswer::Fenced, TurnAnswer::Done]);
    assert!(began.elapsed() < Duration::from_secs(1), "nobody waited");
    sql(&mut mover, "COMMIT").await;
    assert_eq!(commit(&store, &leases, batch(2)).await, [TurnAnswer::Fenced, TurnAnswer::Done]);
    assert_eq!((turn_count(&store, &acme, mine).await, turn_count(&store, &other, theirs).await), (1, 3));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_and_messages_wait_for_a_fence_that_is_being_sealed_and_are_refused() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let target = born(&store, &acme).await;
    let mut mover = behind(&url).await;
    sql(&mut mover, "BEGIN; UPDATE tenant_fences SET mode = 'sealed' WHERE tenant_id = 'acme'").await;
    let late = fresh_id();
    let (a, b) = (store.clone(), store.clone());
    let (tenant_a, tenant_b) = (acme.clone(), acme.clone());
    let starting = tokio::spawn(async move {
        let start = Start { birth: birth(late), once: Some((key("k"), body("x"))) };
        a.start(&tenant_a, vec![start]).await
    });
    let sending =
        tokio::spawn(async move { b.send(&tenant_b, message(target, "s", SignalKind::Pause)).await });
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!starting.is_finished() && !sending.is_finished());
    sql(&mut mover, "COMMIT").await;
    assert_eq!(starting.await.expect("no panic").expect("an answer"), None);
    assert_eq!(sending.await.expect("no panic").expect("an answer"), None);
    assert!(store.instance(&acme, late).await.expect("a read").is_none());
    assert_eq!(store.mail_of(target).await.expect("mail"), []);
    store.close().await;
}

/// Sharers that overlap keep a writer waiting for as long as there is load; those who see its call stand back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_come_and_go_do_not_keep_a_fence_from_being_raised() {
    let (store, url) = postgres().await;
    tenant(&store, "acme").await;
    let assertion = include_str!("../../src/store/postgres/sql/fence_assert.sql")
        .replace("$1::bigint[]", "'{0}'::bigint[]")
        .replace("$2::text[]", "'{acme}'::text[]")
        .replace("$3::bigint[]", "'{1}'::bigint[]");
    let relay = {
        let (mut one, mut next) = (behind(&url).await, behind(&url).await);
        tokio::spawn(async move {
            sql(&mut one, "BEGIN").await;
            assert_eq!(changed(&mut one, &assertion).await.expect("sql"), 1);
            for handed_over in 0..1_000 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                sql(&mut next, "BEGIN").await;
                let held = changed(&mut next, &assertion).await.expect("sql");
                sql(&mut one, "COMMIT").await;
                if held == 0 {
                    sql(&mut next, "COMMIT").await;
                    return handed_over;
                }
                std::mem::swap(&mut one, &mut next);
            }
            panic!("nobody called the sharers away")
        })
    };
    let mut mover = behind(&url).await;
    // Not `lock_timeout`: each single wait is short.
    sql(&mut mover, "SET statement_timeout = '1s'").await;
    let alone =
        changed(&mut mover, "UPDATE tenant_fences SET mode = 'sealed' WHERE tenant_id = 'acme'").await;
    assert!(alone.is_err(), "it starves: {alone:?}");
    assert!(fence(&store, "acme", 1, FenceMode::Sealed).await);
    assert!(relay.await.expect("no panic") > 3, "the row was never free");
    assert_eq!(number(&mut mover, "SELECT count(*) FROM fence_calls").await, 0, "it hung up");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_is_raised_under_load() {
    let (store, url) = postgres().await;
    let nodes = [store.clone(), node_of(&url).await, node_of(&url).await];
    let acme = tenant(&store, "acme").await;
    let writers: Vec<_> = (0..24)
        .map(|n| {
            let (store, acme) = (nodes[n % nodes.len()].clone(), acme.clone());
            tokio::spawn(async move { starts_until_refused(&store, &acme).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(fence(&store, "acme", 1, FenceMode::Sealed).await);
    let mut started = 0;
    for writer in writers {
        started += writer.await.expect("no panic");
    }
    assert!(started > 24, "there was no load: {started}");
    assert!(fence(&store, "acme", 1, FenceMode::Active).await);
    start(&store, &acme, vec![birth(fresh_id())]).await;
    for node in nodes {
        node.close().await;
    }
}

async fn starts_until_refused(store: &Store, acme: &TenantHandle) -> usize {
    for started in 0.. {
        let start = Start { birth: birth(fresh_id()), once: None };
        if store.start(acme, vec![start]).await.expect("an answer").is_none() {
            return started;
        }
    }
    0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_first_a_message_and_an_end_see_each_other() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let id = running(&store, &acme, &leases).await;
    let (mut sender, mut watcher) = (behind(&url).await, behind(&url).await);
    let target = format!("SELECT 1 FROM instances WHERE id = '{}' FOR NO KEY UPDATE", id);
    // The message is first, and not committed yet: the closing turn waits, and sees it.
    sql(&mut sender, &format!("BEGIN; {target}")).await;
    let shard = lease_of(&store, &leases, id).shard;
    let insert = format!(
        "INSERT INTO inbox (seq, at, tenant_no, shard, instance_id, signal_id, kind, name, payload)
         SELECT 1, 0, tenant_no, {shard}, '{id}', 's', 'pause', '', '' FROM tenant_fences"
    );
    sql(&mut sender, &insert).await;
    let closing_turn = {
        let (store, leases, last) = (store.clone(), leases.clone(), closing(&store, &acme, id, 1));
        tokio::spawn(async move { commit(&store, &leases, vec![last]).await })
    };
    somebody_waits(&mut watcher).await;
    sql(&mut sender, "COMMIT").await;
    assert_eq!(closing_turn.await.expect("no panic"), [TurnAnswer::HasMail]);

    // The end is first: the message waits, and is told.
    sql(
        &mut sender,
        &format!("BEGIN; {target}; UPDATE instances SET closed_at = 1, hot = false WHERE id = '{id}'"),
    )
    .await;
    let sending = {
        let (store, acme) = (store.clone(), acme.clone());
        tokio::spawn(async move { store.send(&acme, message(id, "t", SignalKind::Pause)).await })
    };
    somebody_waits(&mut watcher).await;
    sql(&mut sender, "COMMIT").await;
    assert_eq!(sending.await.expect("no panic").expect("a send"), Some(Sent::Terminal));
    store.close().await;
}

/// Two nodes with the same leases, as it is for a moment in every take-over, and many committers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committers_of_several_nodes_never_wait_in_a_circle() {
    let (store, url) = postgres().await;
    let nodes = [store.clone(), node_of(&url).await];
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let ids: Vec<_> = (0..64).map(|_| fresh_id()).collect();
    start(&store, &acme, ids.iter().copied().map(birth).collect()).await;
    let committers: Vec<_> = (0..8)
        .map(|n| {
            let (store, acme, mut leases, mut ids) =
                (nodes[n % 2].clone(), acme.clone(), leases.clone(), ids.clone());
            // Each in an order of its own.
            leases.rotate_left(n * 7 % 64);
            ids.rotate_left(n * 13 % 64);
            tokio::spawn(async move {
                let mut done = 0;
                for turn_no in 0..6 {
                    let turns = ids.iter().map(|id| turn(&store, &acme, *id, turn_no)).collect();
                    let answers = commit(&store, &leases, turns).await;
                    done += answers.iter().filter(|answer| **answer == TurnAnswer::Done).count();
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for committer in committers {
        done += committer.await.expect("no panic");
    }
    assert_eq!(done, 64 * 6, "each turn exactly once");
    for node in nodes {
        node.close().await;
    }
}
