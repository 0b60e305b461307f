//! The rings of Postgres: whatever is moved or emptied, no row is lost, and nobody has to wait.

use std::time::{Duration, Instant};

use orch8_data_plane::store::{BirthRow, Lease, Store, TimerRow, TurnAnswer, TurnWrite};
use orch8_model::{InstanceId, Millis};

use crate::ground::*;

const DAY: i64 = 86_400_000;
const GENERATION: i64 = 5 * 60_000;

async fn claimed(store: &Store, lease: Lease) -> Vec<InstanceId> {
    let ready = store.claim(lease, NOW, 10_000, 10_000, &[], &[]).await.expect("a claim");
    ready.into_iter().map(|r| r.instance).collect()
}

/// Which partitions of a ring hold rows, or did since they were emptied.
async fn used(url: &str, ring: &str) -> Vec<i64> {
    let mut conn = behind(url).await;
    let mut used = Vec::new();
    for part in 0..9 {
        let size = format!("SELECT coalesce(pg_relation_size(to_regclass('{ring}_{part}')), 0)");
        if number(&mut conn, &size).await > 0 {
            used.push(part);
        }
    }
    used
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_rows_survive_every_turn_of_the_ring() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let lease = leases[5];
    let mut expected = Vec::new();
    for turn in 0..20_i64 {
        let ids: Vec<_> = (0..5).map(|_| id_in(&store, lease.shard)).collect();
        let births = ids.iter().map(|id| BirthRow { fire_at: NOW.plus(turn - 100), ..birth(*id) });
        start(&store, &acme, births.collect()).await;
        expected.extend(ids);
        store.maintain(NOW.plus(turn * GENERATION)).await.expect("maintenance");
        // Some leave on the way.
        let answered = expected.remove(expected.len() / 2);
        let first = TurnWrite { ready: true, ..crate::ground::turn(&store, &acme, answered, 0) };
        assert_eq!(commit(&store, &leases, vec![first]).await, [TurnAnswer::Done]);
        assert_eq!(claimed(&store, lease).await, expected, "after {turn} turns");
    }
    assert!(used(&url, "ready").await.len() < 8, "one is always empty");
    let firsts = expected.iter().map(|id| TurnWrite { ready: true, ..turn(&store, &acme, *id, 0) });
    commit(&store, &leases, firsts.collect()).await;
    for turn in 20..30 {
        store.maintain(NOW.plus(turn * GENERATION)).await.expect("maintenance");
    }
    assert_eq!(used(&url, "ready").await.len(), 0, "nothing is left, not even dead rows");
    store.close().await;
}

/// Rows are moved all the time while turns answer them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_never_misses_its_ready_row() {
    let (store, _) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let movers: Vec<_> = (0..2)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                for turn in 0..60 {
                    store.maintain(NOW.plus((2 * turn + n) * GENERATION)).await.expect("maintenance");
                }
            })
        })
        .collect();
    let mut rounds = 0;
    while !movers.iter().all(|mover| mover.is_finished()) {
        let ids: Vec<_> = (0..128).map(|_| fresh_id()).collect();
        start(&store, &acme, ids.iter().copied().map(birth).collect()).await;
        for some in ids.chunks(32) {
            let firsts = some.iter().map(|id| TurnWrite { ready: true, ..turn(&store, &acme, *id, 0) });
            let answers = commit(&store, &leases, firsts.collect()).await;
            assert!(answers.iter().all(|answer| *answer == TurnAnswer::Done));
        }
        rounds += 1;
    }
    assert!(rounds > 2, "{rounds}");
    for mover in movers {
        mover.await.expect("no panic");
    }
    for lease in leases {
        assert_eq!(claimed(&store, lease).await, [], "every row left with its turn");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_are_due_when_they_were_due_wherever_they_are_by_then() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let id = running(&store, &acme, &leases).await;
    let lease = lease_of(&store, &leases, id);
    store.maintain(NOW).await.expect("maintenance");
    let timer = |days: i64| TimerRow { instance: id, node: (days + 9) as u64, due_at: NOW.plus(days * DAY) };
    let timers: Vec<TimerRow> = (-2..30).map(timer).collect();
    let set = TurnWrite { timers: timers.clone(), ..turn(&store, &acme, id, 1) };
    assert_eq!(commit(&store, &leases, vec![set]).await, [TurnAnswer::Done]);
    assert_eq!(used(&url, "timers").await.len(), 7, "six days and the far ones");
    let due = async |until: Millis| store.due_timers(lease, until, 99).await.expect("timers");
    let mut left = timers.clone();
    // Nobody is there for a while in the middle.
    for day in (0..8).chain(19..40) {
        let now = NOW.plus(day * DAY);
        store.maintain(now).await.expect("maintenance");
        let expected: Vec<TimerRow> = left.iter().copied().filter(|t| t.due_at <= now).collect();
        assert_eq!(due(now).await, expected, "day {day}");
        assert_eq!(due(NOW.plus(99 * DAY)).await, left, "day {day}");
        // One is not forgotten, because its instance cannot be read.
        let forgotten: Vec<TimerRow> = expected.into_iter().filter(|t| t.node != 11).collect();
        store.forget_timers(lease, &forgotten).await.expect("an answer");
        left.retain(|t| !forgotten.contains(t));
    }
    assert_eq!(left, [timer(2)]);
    store.forget_timers(lease, &left).await.expect("an answer");
    for day in 40..60 {
        store.maintain(NOW.plus(day * DAY)).await.expect("maintenance");
    }
    assert!(used(&url, "timers").await.iter().all(|slot| *slot == 8), "days are emptied as a whole");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_gives_way_to_readers_and_keeps_nobody_waiting() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let id = born(&store, &acme).await;
    let mut reader = behind(&url).await;
    sql(
        &mut reader,
        "BEGIN; SELECT count(*) FROM ready; SELECT count(*) FROM instances; SELECT count(*) FROM timers",
    )
    .await;
    let began = Instant::now();
    for turn in 0..10 {
        store.maintain(NOW.plus(turn * GENERATION)).await.expect("maintenance");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(claimed(&store, lease_of(&store, &leases, id)).await, [id]);
    let mut conn = behind(&url).await;
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'instances_21990'";
    assert_eq!(number(&mut conn, made).await, 0, "that would have had to wait for the reader");
    sql(&mut reader, "COMMIT").await;
    store.maintain(NOW.plus(10 * GENERATION)).await.expect("maintenance");
    assert_eq!(number(&mut conn, made).await, 1);
    assert_eq!(NOW.0 / DAY, 21_990);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_live_in_the_partition_of_their_day_or_in_the_rest() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let leases = leases(&store, 1).await;
    let today = InstanceId(uuid::Uuid::now_v7());
    let odd = InstanceId(uuid::Uuid::max());
    start(&store, &acme, vec![birth(today), birth(odd)]).await;
    for id in [today, odd] {
        assert_eq!(commit(&store, &leases, vec![turn(&store, &acme, id, 0)]).await, [TurnAnswer::Done]);
        assert_eq!(store.load(&[id]).await.expect("a load")[0].tail.len(), 1);
    }
    let mut conn = behind(&url).await;
    assert_eq!(number(&mut conn, "SELECT count(*) FROM journal").await, 2);
    assert_eq!(number(&mut conn, "SELECT count(*) FROM journal_rest").await, 1);
    store.close().await;
}
