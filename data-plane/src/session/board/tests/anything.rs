//! Whatever happens, in whatever order.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::session::Bounds;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Open { tenant: usize, worker: usize, nonce: u8, token: bool, keep: bool },
    Offer { tenant: usize, handler: usize, bytes: usize, priority: u8, once: bool, timed: bool },
    Credit { session: prop::sample::Index, handler: usize, tasks: u32, bytes: u64 },
    Write { session: prop::sample::Index },
    Receive { session: prop::sample::Index },
    Hear { session: prop::sample::Index },
    Report { task: prop::sample::Index, verdict: i32 },
    Release { task: prop::sample::Index },
    Withdraw { task: prop::sample::Index },
    Cut { session: prop::sample::Index },
    Drain { session: prop::sample::Index },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        2 => (0..2_usize, 0..2_usize, 0..2_u8, any::<bool>(), any::<bool>())
            .prop_map(|(tenant, worker, nonce, token, keep)| Step::Open { tenant, worker, nonce, token, keep }),
        8 => (0..2_usize, 0..2_usize, 1..400_usize, 0..4_u8, any::<bool>(), any::<bool>())
            .prop_map(|(tenant, handler, bytes, priority, once, timed)| {
                Step::Offer { tenant, handler, bytes, priority, once, timed }
            }),
        6 => (index(), 0..2_usize, 1..5_u32, prop_oneof![Just(0), 1_u64..900])
            .prop_map(|(session, handler, tasks, bytes)| Step::Credit { session, handler, tasks, bytes }),
        8 => index().prop_map(|session| Step::Write { session }),
        6 => index().prop_map(|session| Step::Receive { session }),
        6 => index().prop_map(|session| Step::Hear { session }),
        6 => (index(), 0..8_i32).prop_map(|(task, verdict)| Step::Report { task, verdict }),
        1 => index().prop_map(|task| Step::Release { task }),
        1 => index().prop_map(|task| Step::Withdraw { task }),
        2 => index().prop_map(|session| Step::Cut { session }),
        1 => index().prop_map(|session| Step::Drain { session }),
        6 => (0..6_000_u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

const TENANTS: [&str; 2] = ["acme", "globex"];
const HANDLERS: [&str; 2] = ["a", "b"];

/// What must hold after every step.
fn check(table: &mut Table, offered: &HashMap<TaskRef, usize>) {
    let board = &table.board;
    let (mut in_flight, mut queued) = (0, 0);
    for (task, entry) in &board.tasks {
        match entry.place {
            Place::Queued => queued += 1,
            Place::Batched(holder, _) | Place::Sent(holder) | Place::Acked(holder) => {
                in_flight += 1;
                let session = &board.sessions[&holder.session];
                assert!(session.held.contains(task));
                assert_eq!(
                    session.tenant.as_str(),
                    TENANTS[offered[task]],
                    "a task crossed to another tenant"
                );
            }
            Place::Reported(holder) => assert!(board.sessions[&holder.session].held.contains(task)),
        }
    }
    assert_eq!((board.node.in_flight, board.node.queued), (in_flight, queued));
    let held: usize = board.sessions.values().map(|session| session.held.len()).sum();
    let lanes: usize =
        board.sessions.values().flat_map(|session| &session.lanes).map(|lane| lane.in_flight).sum();
    assert_eq!(held, board.tasks.len() - queued);
    assert_eq!(lanes, in_flight);
    // Nothing matchable is left unmatched, but for the bounds.
    for session in board.sessions.values().filter(|session| session.takes_tasks(board.config.batch_tasks)) {
        let tenant = &board.tenants[&session.tenant];
        let at_bound = board.node.in_flight >= board.config.node.in_flight
            || tenant.load.in_flight >= board.config.tenant.in_flight;
        for offer in &session.offers {
            let head = board.queues.get(offer.queue).and_then(queue::Queue::head);
            let lane = &session.lanes[offer.lane];
            let wants =
                head.is_some_and(|(_, task)| lane.takes(task.params_bytes, board.config.lane_in_flight));
            assert!(at_bound || !wants, "a task waits beside a lane that could take it");
        }
    }
    let lost: HashSet<TaskRef> = table.lost.iter().map(|(task, _)| *task).collect();
    assert_eq!(lost.len(), table.lost.len(), "a delivery is lost once");
}

proptest! {
    #[test]
    fn whatever_happens_nothing_is_lost_twice_crossed_over_or_left_behind(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let bounds = Bounds { sessions: 5, in_flight: 6, queued: 20, queued_bytes: 4_000 };
        let node = Bounds { sessions: 7, in_flight: 9, ..bounds.clone() };
        let mut table =
            Table::new(SessionConfig { tenant: bounds, node, batch_tasks: 3, batch_bytes: 600, lane_in_flight: 4, ..SessionConfig::default() });
        let mut sessions: Vec<SessionKey> = Vec::new();
        let mut offered: HashMap<TaskRef, usize> = HashMap::new();
        let mut tasks: Vec<TaskRef> = Vec::new();
        for step in steps {
            let session = |index: &prop::sample::Index, sessions: &[SessionKey]| {
                (!sessions.is_empty()).then(|| *index.get(sessions))
            };
            match step {
                Step::Open { tenant, worker, nonce, token, keep } => {
                    let token = match sessions.last().and_then(|key| table.board.sessions.get(key)) {
                        Some(session) if token => session.token.clone(),
                        Some(_) | None => String::new(),
                    };
                    let held: Vec<TaskRef> = if keep { tasks.clone() } else { Vec::new() };
                    let hello = Greeting {
                        lanes: greeting("w", "n", &HANDLERS).lanes,
                        ..running(&format!("w{worker}"), &format!("n{nonce}"), &held, &token)
                    };
                    if let Ok((key, _)) = table.hello(TENANTS[tenant], &hello) {
                        sessions.push(key);
                    }
                }
                Step::Offer { tenant, handler, bytes, priority, once, timed } => {
                    let time = timed.then(|| secs(3));
                    let shape = Shape { priority, bytes, at_most_once: once, timeout: time, start_within: time };
                    let (task, admission) = table.try_offer(TENANTS[tenant], HANDLERS[handler], shape);
                    if admission == Admission::Queued {
                        offered.insert(task, tenant);
                        tasks.push(task);
                    }
                }
                Step::Credit { session: index, handler, tasks, bytes } => {
                    if let Some(key) = session(&index, &sessions) {
                        table.credit(key, HANDLERS[handler], tasks, bytes);
                    }
                }
                Step::Write { session: index } => {
                    if let Some(key) = session(&index, &sessions) {
                        table.frame(key);
                    }
                }
                Step::Receive { session: index } => {
                    if let Some(key) = session(&index, &sessions).filter(|key| table.is_live(*key)) {
                        table.acknowledge(key);
                    }
                }
                Step::Hear { session: index } => {
                    if let Some(key) = session(&index, &sessions) {
                        table.board.heard(key, table.now);
                    }
                }
                Step::Report { task, verdict } => {
                    if !tasks.is_empty() {
                        let task = *task.get(&tasks);
                        let tenant = TenantId::parse(TENANTS[offered[&task]]).expect("a name");
                        table.board.reported(&tenant, task);
                        table.board.pump();
                        let status = v1::ResultStatus::try_from(verdict).expect("in range");
                        table.board.settle(task, status);
                        table.board.pump();
                    }
                }
                Step::Release { task } => {
                    if let Some(key) = sessions.last().filter(|_| !tasks.is_empty()) {
                        table.board.release(*key, [*task.get(&tasks)], table.now);
                    }
                }
                Step::Withdraw { task } => {
                    if !tasks.is_empty() {
                        table.board.withdraw(*task.get(&tasks), "cancelled");
                    }
                }
                Step::Cut { session: index } => {
                    if let Some(key) = session(&index, &sessions) {
                        table.board.cut(key, None, table.now);
                    }
                }
                Step::Drain { session: index } => {
                    if let Some(key) = session(&index, &sessions) {
                        table.board.drain(key);
                    }
                }
                Step::Pass { ms } => table.pass(Duration::from_millis(ms)),
            }
            table.hear();
            check(&mut table, &offered);
        }
        table.board.end_all(table.now);
        let queued: Vec<TaskRef> = table.board.tasks.keys().copied().collect();
        for task in queued {
            table.board.withdraw(task, "the test ends");
        }
        prop_assert_eq!(table.board.census(), Census::default());
        prop_assert!(table.board.queues.of(&TenantId::parse("acme").expect("a name")).next().is_none());
    }
}
