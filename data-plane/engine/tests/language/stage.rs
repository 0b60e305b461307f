//! A run on virtual time with scripted workers. Every turn is also replayed on a twin from its printed record, and now
//! and then the twin is rebuilt from a snapshot: every row of the language's table is a test of recovery as well.

use std::collections::VecDeque;

use orch8_engine::{
    Action, Birth, Dispatch, Event, HowLost, Instance, Outcome, Program, Signal, SignalKind, Status,
    TurnRecord, Verdict, publish,
    record::OutputRecord,
    timeline::{NodeState, Timeline, TimelineNode},
    turn,
};
use orch8_model::{ContinuityId, InstanceId, Millis, SignalId, StepError, TenantId, json as text};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// What a scripted worker does with a task.
pub enum Reply {
    Ok(Value),
    Fail(&'static str),
    FailRetryable,
    RetryAfter(u64),
    /// Its lease ends.
    Lost,
    /// Takes it and says nothing.
    Silent,
}

type Script = Box<dyn FnMut(&Dispatch) -> Reply>;

/// When every run begins.
pub const BEGIN: Millis = Millis(1_800_000_000_000);
/// A run that needs more turns than this does not end.
const TURNS_MAX: usize = 200_000;

pub struct Stage {
    pub program: Program,
    pub instance: Instance,
    twin: Instance,
    pub now: Millis,
    worker: Script,
    /// Tries that were put before the workers and not taken yet.
    pub waiting: VecDeque<Dispatch>,
    /// Every delivery, in order, and when.
    pub sent: Vec<(Dispatch, Millis)>,
    pub outputs: Vec<OutputRecord>,
    pub closed: usize,
    pub largest_record: usize,
    pub most_waiting: usize,
    pub turns: usize,
    timeline: Timeline,
}

impl Stage {
    /// A run of `blocks` on `data`, not begun. Workers answer `{}`.
    pub fn of(blocks: Value, data: Value) -> Self {
        let document = json!({ "name": "t", "blocks": blocks });
        let published =
            publish::check(document.to_string().as_bytes()).unwrap_or_else(|p| panic!("{p:?}\n{document}"));
        let id = Uuid::from_u128(0x7000_8000_0000_0000_0001);
        let birth = Birth {
            tenant: TenantId::parse("acme").expect("a name"),
            instance: InstanceId(id),
            continuity: ContinuityId(id),
            data: data.as_object().cloned().unwrap_or_default(),
            config: Map::new(),
            timezone: "UTC".to_owned(),
            created_at: BEGIN,
            fire_at: BEGIN,
        };
        Self {
            program: published.program,
            instance: Instance::new(birth.clone()),
            twin: Instance::new(birth),
            now: BEGIN,
            worker: Box::new(|_| Reply::Ok(json!({}))),
            waiting: VecDeque::new(),
            sent: Vec::new(),
            outputs: Vec::new(),
            closed: 0,
            largest_record: 0,
            most_waiting: 0,
            turns: 0,
            timeline: Timeline::default(),
        }
    }

    pub fn workers(mut self, script: impl FnMut(&Dispatch) -> Reply + 'static) -> Self {
        self.worker = Box::new(script);
        self
    }

    /// One event, its record replayed on the twin.
    pub fn event(&mut self, event: Event) -> Option<Verdict> {
        self.turns += 1;
        assert!(self.turns < TURNS_MAX, "the run does not end");
        let seed = self.turns as u64 * 0x9e37_79b9;
        let done = turn(&self.program, &mut self.instance, event, self.now, seed);
        if let Some(record) = done.record {
            let printed = text::print(&serde_json::to_value(&record).expect("a record is JSON"));
            self.largest_record = self.largest_record.max(printed.len());
            let read = TurnRecord::parse(&printed).expect("what was printed can be read");
            self.twin.apply(&self.program, &read);
            if self.turns.is_multiple_of(7) {
                let birth = self.twin.birth().clone();
                self.twin = Instance::restore(birth, &self.twin.snapshot()).expect("a snapshot can be read");
            }
            assert_eq!(self.twin, self.instance, "the record says all that the turn did");
            self.timeline.fold(&self.program, &read);
            self.outputs.extend(read.outputs);
        }
        for action in done.actions {
            match action {
                Action::Dispatch(task) => {
                    self.sent.push(((*task).clone(), self.now));
                    self.waiting.push_back(*task);
                }
                Action::CancelTask { task, .. } => self.waiting.retain(|waiting| waiting.task != task),
                Action::Continue => drop(self.event(Event::Continue)),
                Action::WakeAt { .. } => {}
                Action::Closed => self.closed += 1,
            }
        }
        self.most_waiting = self.most_waiting.max(self.waiting.len());
        done.verdict
    }

    pub fn start(&mut self) -> &mut Self {
        self.event(Event::Start);
        self
    }

    /// One worker takes one task. `false`: none waits.
    pub fn work(&mut self) -> bool {
        let Some(task) = self.waiting.pop_front() else { return false };
        let failed = |code: &str, retryable, retry_after| Outcome::Failed {
            code: code.to_owned(),
            message: format!("said {code}"),
            details: Value::Null,
            retryable,
            retry_after,
        };
        let outcome = match (self.worker)(&task) {
            Reply::Ok(output) => Outcome::Completed(output),
            Reply::Fail(code) => failed(code, false, None),
            Reply::FailRetryable => failed("BUSY", true, None),
            Reply::RetryAfter(ms) => failed("BUSY", true, Some(std::time::Duration::from_millis(ms))),
            Reply::Lost => {
                self.lost(&task, HowLost::LeaseEnded);
                return true;
            }
            Reply::Silent => return true,
        };
        self.report(&task, outcome);
        true
    }

    pub fn report(&mut self, task: &Dispatch, outcome: Outcome) -> Option<Verdict> {
        let Dispatch { node, attempt, claim_epoch, .. } = *task;
        self.event(Event::Reported { node, attempt, claim_epoch, outcome })
    }

    pub fn lost(&mut self, task: &Dispatch, how: HowLost) {
        let Dispatch { node, attempt, claim_epoch, .. } = *task;
        self.event(Event::Lost { node, attempt, claim_epoch, how });
    }

    pub fn signal(&mut self, kind: SignalKind) {
        let id = SignalId::parse(&format!("s-{}", self.turns)).expect("a name");
        self.event(Event::Signal(Signal { id, kind }));
    }

    pub fn answer(&mut self, block: &str, payload: Value) {
        self.signal(SignalKind::Custom { name: format!("human_input:{block}"), payload });
    }

    pub fn cancel(&mut self) {
        self.signal(SignalKind::Cancel { reason: String::new() });
    }

    /// The next timer. `false`: none is set.
    pub fn wake(&mut self) -> bool {
        let Some(at) = self.instance.next_wake() else { return false };
        self.now = self.now.max(at);
        self.event(Event::Wake);
        true
    }

    /// Starts, and goes on until nothing more happens by itself.
    pub fn run(mut self) -> Self {
        self.start();
        self.go_on();
        self
    }

    pub fn go_on(&mut self) -> &mut Self {
        while !self.status().is_terminal() && (self.work() || self.wake()) {}
        self
    }

    pub fn status(&self) -> Status {
        self.instance.status()
    }

    pub fn error(&self) -> &StepError {
        self.instance.error().unwrap_or_else(|| panic!("no error; {:?}", self.status()))
    }

    pub fn data(&self, key: &str) -> Value {
        self.instance.data().get(key).cloned().unwrap_or(Value::Null)
    }

    /// Outputs of a block, in order.
    pub fn rows(&self, block: &str) -> Vec<Value> {
        self.outputs.iter().filter(|row| row.block_id == block).map(|row| row.output.clone()).collect()
    }

    pub fn tasks(&self, block: &str) -> usize {
        self.sent.iter().filter(|(task, _)| task.block_id == block).count()
    }

    pub fn nodes(&self, block: &str) -> Vec<TimelineNode> {
        self.timeline.nodes().filter(|node| node.block_id == block).cloned().collect()
    }

    pub fn state(&self, block: &str) -> Option<NodeState> {
        self.nodes(block).last().map(|node| node.state)
    }

    /// Milliseconds since the run began.
    pub fn elapsed(&self) -> i64 {
        self.now.since(BEGIN)
    }
}

pub fn noop(id: &str) -> Value {
    json!({ "type": "step", "id": id, "handler": "noop" })
}

pub fn log(id: &str, message: &str) -> Value {
    json!({ "type": "step", "id": id, "handler": "log", "params": { "message": message } })
}

pub fn fail(id: &str) -> Value {
    json!({ "type": "step", "id": id, "handler": "fail" })
}

pub fn sleep(id: &str, ms: u64) -> Value {
    json!({ "type": "step", "id": id, "handler": "sleep", "params": { "duration_ms": ms } })
}

pub fn work(id: &str) -> Value {
    json!({ "type": "step", "id": id, "handler": "work" })
}

/// A block with more fields.
pub fn with(mut block: Value, more: Value) -> Value {
    if let (Some(block), Value::Object(more)) = (block.as_object_mut(), more) {
        block.extend(more);
    }
    block
}
