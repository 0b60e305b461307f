//! The board under a clock that the test owns.

mod anything;
mod leases;
mod matching;

use orch8_model::{ClaimEpoch, Fault, HandlerName, TaskId};
use uuid::Uuid;

use super::*;
use crate::session::hello::Greeting;

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
        let task = self.prepared(tenant, handler, reference, shape);
        let admission = self.board.offer(task, self.now);
        self.board.pump();
        (reference, admission)
    }

    fn prepared(&self, tenant: &str, handler: &str, reference: TaskRef, shape: Shape) -> Prepared {
        Prepared {
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
        }
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
