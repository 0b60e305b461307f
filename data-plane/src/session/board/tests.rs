//! The board under a clock that the test owns.

use std::collections::HashSet;

use orch8_model::{ClaimEpoch, Fault, HandlerName, Reason, TaskId};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::session::{Bounds, hello::Greeting};

/// A board, its time, and what owners were told.
struct Table {
    board: Board,
    now: Instant,
    next: u64,
    lost: Vec<(TaskRef, HowLost)>,
    lines: HashMap<SessionKey, Arc<Line>>,
}

/// What a test varies of a task.
#[derive(Clone, Copy)]
struct Shape {
    priority: u8,
    bytes: usize,
    at_most_once: bool,
    timeout: Option<Duration>,
    start_within: Option<Duration>,
}

const PLAIN: Shape = Shape { priority: 1, bytes: 10, at_most_once: false, timeout: None, start_within: None };

impl Table {
    fn new(config: SessionConfig) -> Self {
        Self {
            board: Board::new(Arc::new(config), Arc::new(Notify::new())),
            now: Instant::now(),
            next: 0,
            lost: Vec::new(),
            lines: HashMap::new(),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.board.advance(self.now);
        self.hear();
    }

    fn hear(&mut self) {
        for (_, post) in self.board.take_posts() {
            match post {
                FromSession::Lost { task, how } => self.lost.push((task, how)),
                FromSession::Reported { .. } | FromSession::Adopt { .. } => {
                    panic!("the board reports nothing by itself")
                }
            }
        }
    }

    fn lost(&mut self) -> Vec<HowLost> {
        self.hear();
        self.lost.drain(..).map(|(_, how)| how).collect()
    }

    fn offer(&mut self, tenant: &str, handler: &str, shape: Shape) -> TaskRef {
        let (reference, admission) = self.try_offer(tenant, handler, shape);
        assert_eq!(admission, Admission::Queued);
        reference
    }

    fn try_offer(&mut self, tenant: &str, handler: &str, shape: Shape) -> (TaskRef, Admission) {
        self.next += 1;
        let reference = TaskRef {
            task: TaskId(Uuid::from_u128(u128::from(self.next))),
            attempt: 0,
            claim_epoch: ClaimEpoch::new(1).expect("small"),
        };
        let task = Prepared {
            reference,
            tenant: TenantId::parse(tenant).expect("a name"),
            weight: 1,
            priority: shape.priority,
            shard: Shard(0),
            at_most_once: shape.at_most_once,
            timeout: shape.timeout,
            start_within: shape.start_within,
            params_bytes: shape.bytes,
            wire_bytes: shape.bytes,
            wire: Box::new(v1::Task { handler: handler.to_owned(), ..v1::Task::default() }),
        };
        let admission = self.board.offer(task, self.now);
        self.board.pump();
        (reference, admission)
    }

    fn hello(
        &mut self,
        tenant: &str,
        greeting: &Greeting,
    ) -> Result<(SessionKey, Vec<v1::HeldVerdict>), Fault> {
        self.next += 1;
        let key = SessionKey(self.next);
        let ids = Ids { key, session: format!("s{}", self.next), token: format!("t{}", self.next) };
        let tenant = TenantId::parse(tenant).expect("a name");
        let line = Arc::new(Line::default());
        let held = self.board.open(ids, &tenant, greeting, &[], line.clone(), self.now)?;
        self.lines.insert(key, line);
        self.board.welcome(key, v1::Welcome::default());
        assert!(matches!(self.frame(key), Some(v1::session_response::Frame::Welcome(_))));
        Ok((key, held))
    }

    /// A session of tenant and worker `who` that offers these handlers in one lane each.
    fn worker(&mut self, tenant: &str, who: &str, handlers: &[&str]) -> SessionKey {
        self.hello(tenant, &greeting(who, "nonce", handlers)).expect("room").0
    }

    fn credit(&mut self, key: SessionKey, lane: &str, tasks: u32, bytes: u64) {
        let credit = v1::Credit { lane: lane.to_owned(), tasks, bytes };
        self.board.credit(key, &credit).expect("a lane");
    }

    fn frame(&mut self, key: SessionKey) -> Option<v1::session_response::Frame> {
        self.board.next_frame(key, self.now)
    }

    /// Everything the session is sent now; the tasks of each Dispatch as how many.
    fn dispatched(&mut self, key: SessionKey) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(frame) = self.frame(key) {
            if let v1::session_response::Frame::Dispatch(dispatch) = frame {
                sizes.push(dispatch.tasks.len());
            }
        }
        sizes
    }

    fn acknowledge(&mut self, key: SessionKey) {
        let seq = self.board.sessions[&key].seq;
        self.board.received(key, seq, self.now).expect("was sent");
    }

    fn place(&self, task: TaskRef) -> Option<Place> {
        self.board.tasks.get(&task).map(|entry| entry.place)
    }

    fn is_live(&self, key: SessionKey) -> bool {
        self.board.sessions.get(&key).is_some_and(Session::is_live)
    }
}

fn greeting(who: &str, nonce: &str, handlers: &[&str]) -> Greeting {
    let lane = |handler: &&str| ((*handler).to_owned(), vec![HandlerName::parse(handler).expect("a name")]);
    Greeting {
        worker: WorkerId::parse(who).expect("a name"),
        nonce: nonce.to_owned(),
        version: String::new(),
        lanes: handlers.iter().map(lane).collect(),
        running: Vec::new(),
        unacknowledged: Vec::new(),
        token: String::new(),
    }
}

fn running(who: &str, nonce: &str, tasks: &[TaskRef], token: &str) -> Greeting {
    Greeting {
        running: tasks.iter().map(|task| (crate::session::task::lease(*task), Shard(0))).collect(),
        token: token.to_owned(),
        ..greeting(who, nonce, &["h"])
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

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
