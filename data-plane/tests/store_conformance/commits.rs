//! Turns: what they bring is written with them, and only with them.

use orch8_data_plane::store::{Closing, Sent, Store, TimerRow, TurnAnswer, TurnWrite};
use orch8_engine::{SignalKind, Status};
use orch8_model::{InstanceId, Millis};

use crate::ground::*;

crate::on_every_store! {
    a_turn_brings_everything_or_nothing,
    a_turn_number_is_written_once_and_without_a_gap,
    an_instance_that_does_not_exist_is_lost,
    a_closed_instance_takes_no_further_turn,
    a_closing_turn_that_missed_mail_is_not_written,
    a_turn_deletes_only_its_own_mail,
    turns_of_one_instance_may_follow_each_other_in_one_commit,
    a_large_commit_is_answered_in_order,
    loading_reads_the_newest_snapshot_and_only_what_came_after,
    instances_are_hot_from_their_first_turn_to_eviction_or_close,
    timers_are_found_when_due_and_leave_when_forgotten,
    an_empty_commit_is_no_trouble,
}

async fn a_turn_brings_everything_or_nothing(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = born(store, &acme).await;
    let lease = lease_of(store, &leases, id);
    let first = TurnWrite {
        status: Some(Status::Waiting),
        ready: true,
        snapshot: Some(r#"{"s":0}"#.to_owned()),
        timers: vec![TimerRow { instance: id, node: u64::MAX, due_at: NOW }],
        ..turn(store, &acme, id, 0)
    };
    assert_eq!(commit(store, &leases, vec![first.clone()]).await, [TurnAnswer::Done]);
    let loaded = store.load_one(&acme, id).await.expect("a read").expect("an instance");
    assert_eq!(loaded.row.status, Status::Waiting);
    assert_eq!(loaded.row.birth, birth(id));
    assert_eq!(loaded.row.tenant, acme);
    assert_eq!(loaded.snapshot, Some((0, r#"{"s":0}"#.to_owned())));
    assert_eq!(store.claim(lease, NOW, 9, 9, &[], &[]).await.expect("a claim"), [], "the ready row left");
    let timers = store.due_timers(lease, NOW, 9).await.expect("timers");
    assert_eq!(timers, [TimerRow { instance: id, node: u64::MAX, due_at: NOW }]);

    let refused = TurnWrite {
        status: Some(Status::Paused),
        snapshot: Some("{}".to_owned()),
        timers: vec![TimerRow { instance: id, node: 2, due_at: NOW }],
        ..first
    };
    assert_eq!(commit(store, &leases, vec![refused]).await, [TurnAnswer::Lost]);
    let again = store.load_one(&acme, id).await.expect("a read").expect("an instance");
    assert_eq!((again.row.status, again.snapshot), (Status::Waiting, loaded.snapshot));
    assert_eq!(store.due_timers(lease, NOW, 9).await.expect("timers").len(), 1);
}

async fn a_turn_number_is_written_once_and_without_a_gap(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    for (turn_no, answer) in [
        (0, TurnAnswer::Lost),
        (2, TurnAnswer::Lost),
        (u64::MAX, TurnAnswer::Lost),
        (1, TurnAnswer::Done),
        (1, TurnAnswer::Lost),
        (2, TurnAnswer::Done),
    ] {
        let other = TurnWrite { body: r#""other""#.to_owned(), ..turn(store, &acme, id, turn_no) };
        assert_eq!(commit(store, &leases, vec![other]).await, [answer], "{turn_no}");
    }
    let turns = store.turns(&acme, id, None, 9).await.expect("turns");
    assert_eq!(turns.iter().map(|t| t.turn_no).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(store.turns(&acme, id, Some(0), 1).await.expect("turns"), turns[1..2]);
    assert_eq!(store.turns(&acme, id, Some(u64::MAX), 9).await.expect("turns"), []);
}

async fn an_instance_that_does_not_exist_is_lost(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let (there, missing) = (running(store, &acme, &leases).await, fresh_id());
    let turns = vec![turn(store, &acme, missing, 0), turn(store, &acme, there, 1)];
    assert_eq!(commit(store, &leases, turns).await, [TurnAnswer::Lost, TurnAnswer::Done]);
}

async fn a_closed_instance_takes_no_further_turn(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    let failing = TurnWrite {
        status: Some(Status::Failed),
        closing: Some(Closing { closed_at: Millis(7), error: Some(r#"{"code":"X"}"#.to_owned()) }),
        ..turn(store, &acme, id, 1)
    };
    assert_eq!(commit(store, &leases, vec![failing]).await, [TurnAnswer::Done]);
    assert_eq!(commit(store, &leases, vec![turn(store, &acme, id, 2)]).await, [TurnAnswer::Lost]);
    assert_eq!(commit(store, &leases, vec![closing(store, &acme, id, 2)]).await, [TurnAnswer::Lost]);
    let row = store.instance(&acme, id).await.expect("a read").expect("an instance");
    assert_eq!((row.status, row.closed_at), (Status::Failed, Some(Millis(7))));
    assert_eq!(row.error.as_deref(), Some(r#"{"code":"X"}"#));
}

async fn a_closing_turn_that_missed_mail_is_not_written(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let (id, neighbour) = (running(store, &acme, &leases).await, running(store, &acme, &leases).await);
    for signal in ["a", "b"] {
        let sent = store.send(&acme, message(id, signal, SignalKind::Pause)).await.expect("a send");
        assert_eq!(sent, Some(Sent::Stored));
    }
    let mail: Vec<i64> = store.mail_of(id).await.expect("mail").iter().map(|m| m.seq).collect();
    let close = |mail: &[i64]| TurnWrite { mail: mail.to_vec(), ..closing(store, &acme, id, 1) };
    for missed in [&[][..], &mail[..1]] {
        let turns = vec![close(missed), turn(store, &acme, neighbour, 1)];
        let expected = match missed {
            [] => [TurnAnswer::HasMail, TurnAnswer::Done],
            [..] => [TurnAnswer::HasMail, TurnAnswer::Lost],
        };
        assert_eq!(commit(store, &leases, turns).await, expected);
        assert_eq!(store.mail_of(id).await.expect("mail").len(), 2, "nothing was absorbed");
        assert_eq!(turn_count(store, &acme, id).await, 1);
    }
    assert_eq!(commit(store, &leases, vec![close(&mail)]).await, [TurnAnswer::Done]);
    assert_eq!(store.mail_of(id).await.expect("mail"), []);
}

async fn a_turn_deletes_only_its_own_mail(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let (mine, theirs) = (running(store, &acme, &leases).await, running(store, &acme, &leases).await);
    for id in [mine, theirs] {
        store.send(&acme, message(id, "s", SignalKind::Resume)).await.expect("a send");
    }
    let all: Vec<i64> = [store.mail_of(mine).await, store.mail_of(theirs).await]
        .into_iter()
        .flat_map(|mail| mail.expect("mail"))
        .map(|m| m.seq)
        .collect();
    let greedy = TurnWrite { mail: all, ..turn(store, &acme, mine, 1) };
    assert_eq!(commit(store, &leases, vec![greedy]).await, [TurnAnswer::Done]);
    assert_eq!(store.mail_of(mine).await.expect("mail"), []);
    assert_eq!(store.mail_of(theirs).await.expect("mail").len(), 1);
}

async fn turns_of_one_instance_may_follow_each_other_in_one_commit(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = born(store, &acme).await;
    let turns = vec![
        TurnWrite { status: Some(Status::Waiting), ready: true, ..turn(store, &acme, id, 0) },
        turn(store, &acme, id, 0),
        closing(store, &acme, id, 1),
        turn(store, &acme, id, 2),
    ];
    let expected = [TurnAnswer::Done, TurnAnswer::Lost, TurnAnswer::Done, TurnAnswer::Lost];
    assert_eq!(commit(store, &leases, turns).await, expected);
    let row = store.instance(&acme, id).await.expect("a read").expect("an instance");
    assert_eq!((row.status, row.closed_at), (Status::Completed, Some(NOW.plus(1))));
}

async fn a_large_commit_is_answered_in_order(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let ids: Vec<InstanceId> = (0..700).map(|_| fresh_id()).collect();
    start(store, &acme, ids.iter().copied().map(birth).collect()).await;
    // Every third one comes with a number that is not its next.
    let wrong = |n: usize| n.is_multiple_of(3);
    let turns = ids
        .iter()
        .enumerate()
        .map(|(n, id)| TurnWrite { ready: true, ..turn(store, &acme, *id, u64::from(wrong(n))) });
    let answers = commit(store, &leases, turns.collect()).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, if wrong(n) { TurnAnswer::Lost } else { TurnAnswer::Done }, "{n}");
    }
    let loaded = store.load(&ids).await.expect("a load");
    assert_eq!(loaded.iter().map(|l| l.row.birth.instance).collect::<Vec<_>>(), ids);
    assert!(loaded.iter().enumerate().all(|(n, l)| l.tail.len() == usize::from(!wrong(n))));
}

async fn loading_reads_the_newest_snapshot_and_only_what_came_after(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let (id, plain, missing) =
        (running(store, &acme, &leases).await, running(store, &acme, &leases).await, fresh_id());
    for n in 1..=9 {
        let snapshot = [3, 6].contains(&n).then(|| format!(r#"{{"after":{n}}}"#));
        let turn = TurnWrite { snapshot, ..turn(store, &acme, id, n) };
        assert_eq!(commit(store, &leases, vec![turn]).await, [TurnAnswer::Done]);
    }
    let loaded = store.load(&[plain, missing, id, id]).await.expect("a load");
    assert_eq!(loaded.iter().map(|l| l.row.birth.instance).collect::<Vec<_>>(), [plain, id]);
    assert_eq!((loaded[0].snapshot.as_ref(), loaded[0].tail.len()), (None, 1));
    assert_eq!(loaded[1].snapshot, Some((6, r#"{"after":6}"#.to_owned())));
    assert_eq!(loaded[1].tail.iter().map(|t| t.turn_no).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(turn_count(store, &acme, id).await, 10, "history is all there");
}

async fn instances_are_hot_from_their_first_turn_to_eviction_or_close(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let lease = leases[1];
    let mut ids: Vec<InstanceId> = (0..5).map(|_| id_in(store, lease.shard)).collect();
    let turnless = ids.split_off(4);
    start(store, &acme, ids.iter().chain(&turnless).copied().map(birth).collect()).await;
    let hot = async |after| store.hot(lease.shard, after, 2).await.expect("hot");
    assert_eq!(hot(None).await, []);
    let firsts = ids.iter().map(|id| turn(store, &acme, *id, 0)).collect();
    commit(store, &leases, firsts).await;
    assert_eq!(hot(None).await, ids[..2], "by id, in pages");
    assert_eq!(hot(Some(ids[1])).await, ids[2..]);

    store.set_hot(lease, &ids[..2], false).await.expect("an eviction");
    commit(store, &leases, vec![closing(store, &acme, ids[2], 1)]).await;
    assert_eq!(hot(None).await, ids[3..]);
    store.set_hot(lease, &[ids[1], ids[2], turnless[0]], true).await.expect("a reload");
    assert_eq!(hot(None).await, [ids[1], ids[3]], "closed ones and turnless ones stay cold");
    commit(store, &leases, vec![turn(store, &acme, ids[0], 1)]).await;
    assert_eq!(hot(None).await, ids[..2], "a turn shows that it is in memory");
}

async fn timers_are_found_when_due_and_leave_when_forgotten(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    let lease = lease_of(store, &leases, id);
    let timer = |node, ms| TimerRow { instance: id, node, due_at: NOW.plus(ms) };
    let timers = vec![timer(3, 30), timer(1, 10), timer(2, 10), timer(1, 10)];
    commit(store, &leases, vec![TurnWrite { timers, ..turn(store, &acme, id, 1) }]).await;
    let due = async |ms| store.due_timers(lease, NOW.plus(ms), 9).await.expect("timers");
    assert_eq!(due(9).await, []);
    assert_eq!(due(10).await, [timer(1, 10), timer(2, 10)]);
    assert_eq!(due(99).await, [timer(1, 10), timer(2, 10), timer(3, 30)]);
    assert_eq!(store.due_timers(lease, NOW.plus(99), 1).await.expect("timers"), [timer(1, 10)]);
    store.forget_timers(lease, &[timer(1, 10), timer(3, 31)]).await.expect("an answer");
    assert_eq!(due(99).await, [timer(2, 10), timer(3, 30)]);
    let stale = orch8_data_plane::store::Lease { epoch: lease_epoch(0), ..lease };
    store.forget_timers(stale, &[timer(2, 10)]).await.expect("an answer");
    assert_eq!(store.due_timers(stale, NOW.plus(99), 9).await.expect("timers"), []);
    assert_eq!(due(99).await.len(), 2);
}

async fn an_empty_commit_is_no_trouble(store: &Store) {
    assert_eq!(commit(store, &[], vec![]).await, []);
    assert!(store.load(&[]).await.expect("a load").is_empty());
}
