//! Acknowledgements, broken streams, resumes, timeouts.

use std::collections::HashSet;

use orch8_model::Reason;

use super::*;

#[test]
fn what_was_not_acknowledged_in_time_goes_back_unless_it_may_have_started() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 10, 0);
    let again = table.offer("acme", "h", PLAIN);
    let once = table.offer("acme", "h", Shape { at_most_once: true, ..PLAIN });
    assert_eq!(table.dispatched(worker), [2]);
    table.pass(Duration::from_millis(1_999));
    assert_eq!(table.lost(), []);
    table.pass(Duration::from_millis(1));
    assert_eq!(table.lost, [(again, HowLost::NeverStarted)]);
    assert!(matches!(table.place(once), Some(Place::Sent(_))), "nobody knows: it waits for the lease");

    // A worker that does not acknowledge gets nothing new, until it does.
    table.offer("acme", "h", PLAIN);
    assert_eq!(table.dispatched(worker), [0; 0]);
    table.acknowledge(worker);
    assert_eq!(table.dispatched(worker), [1]);
    assert!(matches!(table.place(once), Some(Place::Acked(_))));
}

#[test]
fn a_broken_stream_loses_the_unacknowledged_now_and_the_acknowledged_after_the_grace() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 3, 0);
    let acknowledged = table.offer("acme", "h", PLAIN);
    table.dispatched(worker);
    table.acknowledge(worker);
    let unacknowledged = table.offer("acme", "h", PLAIN);
    let once = table.offer("acme", "h", Shape { at_most_once: true, ..PLAIN });
    table.dispatched(worker);
    table.credit(worker, "h", 1, 0);
    let unsent = table.offer("acme", "h", PLAIN);
    assert!(matches!(table.place(unsent), Some(Place::Batched(..))));

    table.board.cut(worker, None, table.now);
    table.hear();
    assert_eq!(table.lost, [(unacknowledged, HowLost::NeverStarted)]);
    assert_eq!(table.place(unsent), Some(Place::Queued), "what was not written waits where it stood");
    table.lost.clear();
    table.pass(Duration::from_millis(9_999));
    assert_eq!(table.lost(), []);
    table.pass(Duration::from_millis(1));
    let lost: HashSet<TaskRef> = table.lost.iter().map(|(task, _)| *task).collect();
    assert!(table.lost.iter().all(|(_, how)| *how == HowLost::LeaseEnded));
    assert_eq!(lost, HashSet::from([acknowledged, once]));
    assert_eq!(table.board.census().broken, 0);
}

#[test]
fn a_resumed_session_keeps_what_it_names_within_the_grace_and_nothing_after() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    let token = table.board.sessions[&worker].token.clone();
    table.credit(worker, "h", 3, 0);
    let tasks: Vec<TaskRef> = (0..3).map(|_| table.offer("acme", "h", PLAIN)).collect();
    table.dispatched(worker);
    table.acknowledge(worker);
    table.board.cut(worker, None, table.now);
    table.pass(secs(5));

    let hello = running("w", "nonce", &[tasks[0], tasks[1]], &token);
    let (_, held) = table.hello("acme", &hello).expect("room");
    assert!(held.iter().all(|held| held.state() == v1::HeldState::Keep));
    table.hear();
    assert_eq!(table.lost, [(tasks[2], HowLost::LeaseEnded)], "it says that it does not have this one");
    table.lost.clear();
    table.pass(secs(6));
    assert_eq!(table.lost(), [], "the grace of the old session means nothing to the new one");

    // Another worker of the tenant, and the same one after the grace, keep nothing.
    let (_, held) = table.hello("acme", &running("other", "nonce", &tasks, "")).expect("room");
    assert!(held.iter().all(|held| held.state() == v1::HeldState::Drop));
    let (_, held) = table.hello("globex", &running("w", "nonce", &tasks, &token)).expect("room");
    assert!(held.iter().all(|held| held.state() == v1::HeldState::Drop));
}

#[test]
fn a_resume_names_what_never_arrived_even_for_at_most_once() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    let token = table.board.sessions[&worker].token.clone();
    table.credit(worker, "h", 2, 0);
    let once = table.offer("acme", "h", Shape { at_most_once: true, ..PLAIN });
    table.dispatched(worker);
    // Without the token it is not the worker's word about that session.
    let (_, _) = table.hello("acme", &running("w", "nonce", &[], "")).expect("room");
    assert_eq!(table.lost(), []);
    let (_, _) = table.hello("acme", &running("w", "nonce", &[], &token)).expect("room");
    table.hear();
    assert_eq!(table.lost, [(once, HowLost::NeverStarted)]);
    assert!(!table.is_live(worker));
}

#[test]
fn a_resume_takes_over_from_a_session_that_still_seems_alive() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    let token = table.board.sessions[&worker].token.clone();
    table.credit(worker, "h", 2, 0);
    // Its Received was lost with the connection.
    let task = table.offer("acme", "h", PLAIN);
    table.dispatched(worker);
    let (new, held) = table.hello("acme", &running("w", "nonce", &[task], &token)).expect("room");
    assert_eq!(held[0].state(), v1::HeldState::Keep);
    assert!(!table.is_live(worker) && table.is_live(new));
    table.pass(secs(4));
    assert_eq!(table.lost(), []);
}

#[test]
fn another_nonce_means_the_process_restarted_and_its_leases_end_now() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 9, 0);
    let acknowledged = table.offer("acme", "h", PLAIN);
    table.dispatched(worker);
    table.acknowledge(worker);
    let never = table.offer("acme", "h", PLAIN);
    let once = table.offer("acme", "h", Shape { at_most_once: true, ..PLAIN });
    table.dispatched(worker);
    let all = [acknowledged, never, once];
    let (_, held) = table.hello("acme", &running("w", "another", &all, "")).expect("room");
    assert!(held.iter().all(|held| held.state() == v1::HeldState::Drop));
    table.hear();
    let lost: HashMap<TaskRef, HowLost> = table.lost.drain(..).collect();
    assert_eq!(lost[&acknowledged], HowLost::LeaseEnded);
    assert_eq!(lost[&never], HowLost::NeverStarted);
    assert_eq!(lost[&once], HowLost::LeaseEnded);
    let ended = table.lines[&worker].ended().cloned().flatten();
    assert_eq!(ended.map(|fault| fault.reason), Some(Reason::StaleLease));
}

#[test]
fn a_silent_worker_gets_nothing_new_and_then_loses_its_session() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 9, 0);
    let held = table.offer("acme", "h", PLAIN);
    table.dispatched(worker);
    table.acknowledge(worker);
    table.pass(secs(15));
    table.offer("acme", "h", PLAIN);
    assert_eq!(table.dispatched(worker), [0; 0]);
    table.board.heard(worker, table.now);
    assert_eq!(table.dispatched(worker), [1], "one frame is enough");
    table.acknowledge(worker);
    for _ in 0..4 {
        table.pass(secs(4));
    }
    assert!(table.is_live(worker));
    table.pass(secs(4));
    assert!(!table.is_live(worker));
    assert!(table.lost.contains(&(held, HowLost::LeaseEnded)));
    assert_eq!(table.board.census().broken, 0, "a lease that passed has no grace");
}

#[test]
fn the_server_pings_when_it_said_nothing_for_long_and_only_then() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    let mut pings = 0;
    for _ in 0..60 {
        table.pass(secs(1));
        table.board.heard(worker, table.now);
        while let Some(frame) = table.frame(worker) {
            assert!(matches!(frame, v1::session_response::Frame::Ping(_)));
            pings += 1;
        }
    }
    assert!((10..=12).contains(&pings), "{pings} pings in a minute");
}

#[test]
fn start_to_close_runs_from_the_acknowledgement_and_revokes() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 9, 0);
    let task = table.offer("acme", "h", Shape { timeout: Some(secs(3)), ..PLAIN });
    table.dispatched(worker);
    table.pass(secs(1));
    table.acknowledge(worker);
    table.pass(Duration::from_millis(2_999));
    assert_eq!(table.lost(), []);
    table.pass(Duration::from_millis(1));
    table.hear();
    assert_eq!(table.lost, [(task, HowLost::StartToClose)]);
    assert!(matches!(table.frame(worker), Some(v1::session_response::Frame::Revoke(_))));
}

#[test]
fn schedule_to_start_runs_from_the_offer_until_somebody_takes_it() {
    let mut table = Table::new(SessionConfig::default());
    let shape = Shape { start_within: Some(secs(3)), ..PLAIN };
    table.offer("acme", "h", shape);
    table.pass(secs(3));
    assert_eq!(table.lost(), [HowLost::ScheduleToStart]);

    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 9, 0);
    table.offer("acme", "h", shape);
    table.dispatched(worker);
    table.acknowledge(worker);
    table.pass(secs(4));
    assert_eq!(table.lost(), [], "it was taken");

    // Sent in time and never acknowledged: it did not start, and its time is up.
    table.offer("acme", "h", Shape { start_within: Some(Duration::from_millis(1_500)), ..PLAIN });
    table.dispatched(worker);
    table.pass(secs(2));
    assert_eq!(table.lost(), [HowLost::ScheduleToStart]);
}

#[test]
fn absurd_times_are_no_panic() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", u32::MAX, u64::MAX);
    let forever = Some(Duration::MAX);
    table.offer("acme", "h", Shape { timeout: forever, start_within: forever, ..PLAIN });
    table.dispatched(worker);
    table.acknowledge(worker);
    table.pass(secs(4));
    assert_eq!(table.lost(), []);
}

#[test]
fn a_withdrawn_task_leaves_the_queue_or_is_revoked() {
    let mut table = Table::new(SessionConfig::default());
    let queued = table.offer("acme", "h", PLAIN);
    table.board.withdraw(queued, "cancelled");
    assert_eq!(table.board.census(), Census::default());

    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 1, 0);
    let batched = table.offer("acme", "h", PLAIN);
    table.board.withdraw(batched, "cancelled");
    assert_eq!(table.dispatched(worker), [0; 0]);
    let sent = table.offer("acme", "h", PLAIN);
    assert_eq!(table.dispatched(worker), [1], "the credit of the one never sent came back");
    table.board.withdraw(sent, "cancelled");
    let Some(v1::session_response::Frame::Revoke(revoke)) = table.frame(worker) else { panic!("a revoke") };
    assert_eq!((revoke.leases.len(), revoke.reason.as_str()), (1, "cancelled"));
    assert_eq!(table.lost(), [], "the owner knows: it asked");
}

#[test]
fn a_draining_worker_gets_nothing_and_may_hand_back() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 9, 0);
    let task = table.offer("acme", "h", Shape { at_most_once: true, ..PLAIN });
    table.dispatched(worker);
    table.board.drain(worker);
    table.offer("acme", "h", PLAIN);
    assert_eq!(table.dispatched(worker), [0; 0]);
    table.board.release(worker, [task], table.now);
    table.hear();
    assert_eq!(table.lost, [(task, HowLost::NeverStarted)]);
}

#[test]
fn a_result_that_could_not_be_judged_keeps_its_lease() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 9, 0);
    let task = table.offer("acme", "h", PLAIN);
    table.dispatched(worker);
    table.acknowledge(worker);
    let (acme, globex) =
        (TenantId::parse("acme").expect("a name"), TenantId::parse("globex").expect("a name"));
    assert_eq!(table.board.reported(&globex, task), None, "a foreign task is unknown");
    assert_eq!(table.board.reported(&acme, task), Some(Shard(0)));
    table.board.settle(task, v1::ResultStatus::RetryLater);
    assert!(matches!(table.place(task), Some(Place::Acked(_))));
    assert_eq!(table.board.census().in_flight, 1);
    table.board.reported(&acme, task);
    table.board.settle(task, v1::ResultStatus::Committed);
    assert_eq!(table.place(task), None);
    assert_eq!(table.board.census().in_flight, 0);
}

#[test]
fn a_node_without_shards_lets_nobody_in_and_forgets_what_was_there() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.credit(worker, "h", 1, 0);
    let (sent, queued) = (table.offer("acme", "h", PLAIN), table.offer("acme", "h", PLAIN));
    table.dispatched(worker);
    table.board.stand_by(table.now);
    let ended = table.lines[&worker].ended().cloned().flatten().expect("a reason");
    assert_eq!(ended.reason, Reason::ShardMoving);
    assert!(ended.retry_after.is_some());
    assert_eq!((table.place(sent), table.place(queued)), (None, None));
    assert_eq!(table.board.census(), Census::default());
    assert_eq!(table.lost(), [], "the owners they were for are gone");
    let refused = table.hello("acme", &greeting("w", "nonce", &["h"])).expect_err("nobody");
    assert_eq!(refused.reason, Reason::ShardMoving);
    assert_eq!(table.try_offer("acme", "h", PLAIN).1, Admission::Draining);

    table.board.stand_up();
    table.worker("acme", "w", &["h"]);
    table.board.go_away(secs(1), "bye");
    table.board.stand_by(table.now);
    table.board.stand_up();
    let refused = table.hello("acme", &greeting("w", "nonce", &["h"])).expect_err("nobody");
    assert_eq!(refused.reason, Reason::Draining, "a process that leaves stays left");
}

#[test]
fn a_delivery_handed_over_is_in_exactly_one_hand() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    let task = TaskRef {
        task: TaskId(Uuid::from_u128(7)),
        attempt: 0,
        claim_epoch: ClaimEpoch::new(1).expect("small"),
    };
    let handed = |table: &mut Table, key| {
        let task = table.prepared("acme", "h", task, PLAIN);
        table.board.take_over(key, task, table.now)
    };
    assert_eq!(handed(&mut table, SessionKey(999)), TakenOver::SessionGone, "its owner has to hear of it");
    assert_eq!(handed(&mut table, worker), TakenOver::Yes);
    assert_eq!(handed(&mut table, worker), TakenOver::Known);
    table.board.cut(worker, None, table.now);
    table.pass(SessionConfig::default().grace);
    assert_eq!(table.lost(), [HowLost::LeaseEnded]);
    assert_eq!(handed(&mut table, worker), TakenOver::SessionGone);
}
