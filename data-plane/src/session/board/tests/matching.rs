//! Credit, batches, order, bounds.

use orch8_model::Reason;

use super::*;
use crate::session::Bounds;

#[test]
fn nothing_is_sent_without_credit_and_credit_persists() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    table.offer("acme", "h", PLAIN);
    assert_eq!(table.dispatched(worker), [0; 0]);
    table.credit(worker, "h", 3, 0);
    assert_eq!(table.dispatched(worker), [1]);
    // Granted long ago, used now.
    for _ in 0..5 {
        table.offer("acme", "h", PLAIN);
    }
    assert_eq!(table.dispatched(worker).iter().sum::<usize>(), 2);
}

#[test]
fn a_batch_holds_64_tasks_or_256_kib_and_a_larger_task_travels_alone() {
    let mut table = Table::new(SessionConfig::default());
    let worker = table.worker("acme", "w", &["h"]);
    let offer = |table: &mut Table, many: usize, bytes: usize| {
        for _ in 0..many {
            table.offer("acme", "h", Shape { bytes, ..PLAIN });
        }
    };
    offer(&mut table, 150, 10);
    offer(&mut table, 5, 100 << 10);
    offer(&mut table, 2, 900 << 10);
    table.credit(worker, "h", 256, 0);
    assert_eq!(table.dispatched(worker), [64, 64, 24, 2, 1, 1, 1]);
}

#[test]
fn higher_priority_goes_first_then_age_over_all_handlers_of_a_session() {
    let mut table = Table::new(SessionConfig::default());
    let at = |priority| Shape { priority, ..PLAIN };
    let tasks = [
        table.offer("acme", "a", at(0)),
        table.offer("acme", "b", at(2)),
        table.offer("acme", "a", at(2)),
        table.offer("acme", "b", at(9)),
    ];
    let worker = table.worker("acme", "w", &["a", "b"]);
    table.credit(worker, "a", 9, 0);
    assert_eq!(table.dispatched(worker), [2], "only the lane with credit");
    table.credit(worker, "b", 9, 0);
    table.dispatched(worker);
    let order: Vec<TaskRef> =
        table.board.sessions[&worker].unacked.iter().flat_map(|sent| sent.tasks.clone()).collect();
    assert_eq!(order, [tasks[2], tasks[0], tasks[3], tasks[1]]);
}

#[test]
fn a_tenants_thousand_tasks_delay_another_by_one_round_at_most() {
    let node = Bounds { in_flight: 8, ..SessionConfig::default().node };
    let mut table = Table::new(SessionConfig { node, ..SessionConfig::default() });
    let big: Vec<SessionKey> = (0..20).map(|n| table.worker("big", &format!("w{n}"), &["h"])).collect();
    let small = table.worker("small", "w", &["h"]);
    for worker in &big {
        table.credit(*worker, "h", 100, 0);
    }
    table.credit(small, "h", 100, 0);
    for _ in 0..1_000 {
        table.offer("big", "h", PLAIN);
    }
    let first = table.offer("small", "h", PLAIN);
    assert_eq!(table.place(first), Some(Place::Queued), "the node is at its bound");
    // Places come free one by one. One turn of the big tenant, then it is the small one's.
    let acme = TenantId::parse("big").expect("a name");
    for turn in 0.. {
        for worker in &big {
            table.dispatched(*worker);
        }
        let mut running = big.iter().flat_map(|key| &table.board.sessions[key].held);
        let done = *running.next().expect("the big tenant runs something");
        table.board.reported(&acme, done);
        table.board.settle(done, v1::ResultStatus::Committed);
        table.board.pump();
        if table.place(first) != Some(Place::Queued) {
            assert!(turn <= 1, "after {turn} turns of another");
            break;
        }
    }
}

#[test]
fn a_tenant_at_its_bound_waits_and_does_not_stop_another() {
    let tenant = Bounds { in_flight: 3, ..SessionConfig::default().tenant };
    let mut table = Table::new(SessionConfig { tenant, ..SessionConfig::default() });
    let (a, b) = (table.worker("acme", "a", &["h"]), table.worker("acme", "b", &["h"]));
    let other = table.worker("globex", "w", &["h"]);
    for key in [a, b, other] {
        table.credit(key, "h", 10, 0);
    }
    let tasks: Vec<TaskRef> = (0..6).map(|_| table.offer("acme", "h", PLAIN)).collect();
    table.offer("globex", "h", PLAIN);
    let sent = |table: &mut Table| {
        table.dispatched(a).iter().sum::<usize>() + table.dispatched(b).iter().sum::<usize>()
    };
    assert_eq!(sent(&mut table), 3);
    assert_eq!(table.dispatched(other), [1]);
    let acme = TenantId::parse("acme").expect("a name");
    let running: Vec<TaskRef> =
        tasks.iter().copied().filter(|task| table.place(*task) != Some(Place::Queued)).collect();
    for task in running {
        table.board.reported(&acme, task);
        table.board.pump();
    }
    assert_eq!(sent(&mut table), 3, "each place that came free was filled");
}

#[test]
fn a_place_that_one_session_cannot_use_goes_to_another() {
    let tenant = Bounds { in_flight: 2, ..SessionConfig::default().tenant };
    let mut table = Table::new(SessionConfig { tenant, batch_bytes: 100, ..SessionConfig::default() });
    let (a, b) = (table.worker("acme", "a", &["h"]), table.worker("acme", "b", &["h"]));
    let of = |bytes| Shape { bytes, ..PLAIN };
    table.credit(a, "h", 9, 0);
    let first = table.offer("acme", "h", of(60));
    table.offer("acme", "h", of(30));
    table.offer("acme", "h", of(80));
    table.credit(b, "h", 9, 0);
    // `a` is first in line for the place, but its next Dispatch has no room for the task.
    table.board.withdraw(first, "cancelled");
    assert_eq!((table.dispatched(b), table.dispatched(a)), (vec![1], vec![1]));
}

#[test]
fn byte_credit_is_never_exceeded_and_a_rich_lane_is_found() {
    let mut table = Table::new(SessionConfig::default());
    let (poor, rich) = (table.worker("acme", "poor", &["h"]), table.worker("acme", "rich", &["h"]));
    table.credit(poor, "h", 9, 100);
    table.credit(rich, "h", 9, 5_000);
    table.offer("acme", "h", Shape { bytes: 4_000, ..PLAIN });
    assert_eq!((table.dispatched(poor), table.dispatched(rich)), (vec![], vec![1]));
    // Nobody can pay for the first now; once it is paid for, the one behind it goes to whoever can.
    table.offer("acme", "h", Shape { bytes: 2_000, ..PLAIN });
    table.offer("acme", "h", Shape { bytes: 50, ..PLAIN });
    assert_eq!((table.dispatched(poor), table.dispatched(rich)), (vec![], vec![]));
    table.credit(rich, "h", 1, 1_000);
    assert_eq!(table.dispatched(rich), [1]);
    assert_eq!(table.dispatched(poor), [1], "the small one was not forgotten");
}

#[test]
fn bounds_refuse_and_name_themselves() {
    let small = |bounds: Bounds| Bounds { sessions: 1, queued: 2, queued_bytes: 1_000, ..bounds };
    let config = SessionConfig::default();
    let config = SessionConfig { tenant: small(config.tenant.clone()), ..config };
    let mut table = Table::new(config);
    table.offer("acme", "h", PLAIN);
    assert_eq!(table.try_offer("acme", "h", Shape { bytes: 1_000, ..PLAIN }).1, Admission::Full);
    table.offer("acme", "h", PLAIN);
    assert_eq!(table.try_offer("acme", "h", PLAIN).1, Admission::Full);
    assert_eq!(table.try_offer("globex", "h", PLAIN).1, Admission::Queued, "another tenant has its own");

    table.worker("acme", "w", &["h"]);
    let fault = table.hello("acme", &greeting("v", "n", &["h"])).expect_err("one too many");
    assert_eq!(
        (fault.reason, fault.metadata.as_slice()),
        (Reason::QuotaExceeded, &[("limit", "1".to_owned())][..])
    );
}
