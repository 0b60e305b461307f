//! What this process owes: steps that run, results that are not committed, credit that is out.
//!
//! It survives connections; a new session is told what is in it. Pure: time is an argument, nothing is sent here.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use orch8_proto::{door, v1};
use prost::Message;
use tokio_util::sync::CancellationToken;

use crate::{StepError, runner::Event};

/// The one lane of this crate's workers.
pub(crate) const LANE: &str = "default";

/// Results that a Hello carries at most; the rest follows in Results. Half a frame of bytes.
const HELLO_RESULTS_BYTES: usize = 512 << 10;

/// How long to wait before a result that could not be judged is sent again.
const RETRY_LATER: Duration = Duration::from_secs(1);

/// Checkpoints that wait for the connection. A handler that says more waits, or its oldest word is dropped.
const PROGRESS_MAX: usize = 256;

/// What the server of the current session allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub frame_bytes: usize,
    pub batch: usize,
    pub output_bytes: usize,
    pub lane_in_flight: usize,
    pub lease: Duration,
    pub ping: Duration,
}

impl Limits {
    /// Errors: none; what is missing or nonsense is replaced by what every server allows.
    pub fn of(welcome: &v1::Welcome) -> Self {
        let number = |number: u32, otherwise: usize| match usize::try_from(number) {
            Ok(number) if number > 0 => number,
            _ => otherwise,
        };
        let time = |field, length, otherwise| match door::duration(field, length) {
            Ok(Some(length)) if !length.is_zero() => length,
            _ => otherwise,
        };
        Self {
            frame_bytes: number(welcome.frame_bytes_max, 1 << 20),
            batch: number(welcome.batch_max, 1),
            output_bytes: number(welcome.output_bytes_max, 2 << 20),
            lane_in_flight: number(welcome.lane_in_flight_max, 256),
            lease: time("lease", welcome.lease, Duration::from_secs(20)),
            ping: time("ping_interval", welcome.ping_interval, Duration::from_secs(5)),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    max_in_flight: usize,
    limits: Limits,
    running: HashMap<v1::Lease, Running>,
    /// Results without a final answer.
    results: HashMap<v1::Lease, v1::TaskResult>,
    /// Those of them to be sent on this connection.
    unsent: VecDeque<v1::Lease>,
    /// Those of them to be sent again, soonest first.
    later: VecDeque<(Instant, v1::Lease)>,
    progress: VecDeque<v1::Progress>,
    /// Arrived after the drain began.
    release: Vec<v1::HeldTask>,
    /// Credit granted on this connection that no task has used.
    credit: usize,
    received: Option<u64>,
    ping: bool,
    drain: Drain,
    /// The server wants this connection to end.
    leaving: bool,
}

#[derive(Debug)]
struct Running {
    route: Option<v1::Route>,
    cancelled: CancellationToken,
    /// Taken away: what it returns is nobody's business.
    revoked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    No,
    /// To be said on this connection.
    Wanted,
    Said,
}

impl Ledger {
    pub fn new(max_in_flight: usize) -> Self {
        Self {
            max_in_flight: max_in_flight.max(1),
            limits: Limits::of(&v1::Welcome::default()),
            running: HashMap::new(),
            results: HashMap::new(),
            unsent: VecDeque::new(),
            later: VecDeque::new(),
            progress: VecDeque::new(),
            release: Vec::new(),
            credit: 0,
            received: None,
            ping: false,
            drain: Drain::No,
            leaving: false,
        }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A Hello that names everything held. What does not fit as a result is named as running: its lease is kept too.
    pub fn hello(&self) -> v1::Hello {
        let mut bytes = 0;
        let mut hello = v1::Hello::default();
        for (lease, running) in self.running.iter().filter(|(_, running)| !running.revoked) {
            hello.running.push(v1::HeldTask { lease: Some(lease.clone()), route: running.route });
        }
        for (lease, result) in &self.results {
            bytes += result.encoded_len();
            if bytes <= HELLO_RESULTS_BYTES && hello.unacknowledged.len() < self.limits.batch {
                hello.unacknowledged.push(result.clone());
            } else {
                hello.running.push(v1::HeldTask { lease: Some(lease.clone()), route: result.route });
            }
        }
        hello
    }

    /// A new connection took over. Everything that the Welcome does not answer is sent again on it.
    pub fn welcomed(&mut self, welcome: &v1::Welcome, now: Instant) {
        self.limits = Limits::of(welcome);
        (self.credit, self.received, self.ping, self.leaving) = (0, None, false, false);
        if self.drain == Drain::Said {
            self.drain = Drain::Wanted;
        }
        for held in &welcome.held {
            match held.state() {
                v1::HeldState::Drop | v1::HeldState::Committed => {
                    if let Some(lease) = &held.lease {
                        self.revoke(lease);
                    }
                }
                v1::HeldState::Keep | v1::HeldState::Unspecified => {}
            }
        }
        self.later.clear();
        self.unsent = self.results.keys().cloned().collect();
        for ack in &welcome.acks {
            self.answered(ack, now);
        }
    }

    /// A task arrived. `None`: it runs already, or this worker drains and it goes back.
    pub fn begin(&mut self, task: &v1::Task) -> Option<CancellationToken> {
        let lease = task.lease.clone()?;
        self.credit = self.credit.saturating_sub(1);
        if self.drain != Drain::No {
            self.release.push(v1::HeldTask { lease: Some(lease), route: task.route });
            return None;
        }
        if self.running.contains_key(&lease) || self.results.contains_key(&lease) {
            return None;
        }
        let cancelled = CancellationToken::new();
        let running = Running { route: task.route, cancelled: cancelled.clone(), revoked: false };
        self.running.insert(lease, running);
        Some(cancelled)
    }

    /// Everything up to this Dispatch arrived.
    pub fn received(&mut self, seq: u64) {
        self.received = Some(seq);
    }

    /// Something came from a handler.
    pub fn note(&mut self, event: Event) {
        match event {
            Event::Finished { lease, outcome } => self.finished(lease, outcome),
            Event::Progress(progress) => {
                if self.progress.len() >= PROGRESS_MAX {
                    self.progress.pop_front();
                }
                self.progress.push_back(progress);
            }
        }
    }

    fn finished(&mut self, lease: v1::Lease, outcome: Result<Bytes, StepError>) {
        let Some(running) = self.running.remove(&lease).filter(|running| !running.revoked) else { return };
        let outcome = outcome.and_then(|output| self.within_limit(output));
        let outcome = match outcome {
            Ok(data) => {
                v1::task_result::Outcome::Completed(v1::Payload { data, content_type: String::new() })
            }
            Err(error) => v1::task_result::Outcome::Failed(error.into_wire()),
        };
        let result =
            v1::TaskResult { lease: Some(lease.clone()), route: running.route, outcome: Some(outcome) };
        self.results.insert(lease.clone(), result);
        self.unsent.push_back(lease);
    }

    /// A frame over the server's limit would cut the stream, and come again after every reconnect.
    fn within_limit(&self, output: Bytes) -> Result<Bytes, StepError> {
        let (bytes, limit) = (output.len(), self.limits.output_bytes);
        if bytes <= limit {
            return Ok(output);
        }
        let message = format!("output has {bytes} bytes, at most {limit} are allowed");
        Err(StepError::permanent(message).code("OUTPUT_TOO_LARGE"))
    }

    /// The server's answer to a result.
    pub fn answered(&mut self, ack: &v1::ResultAck, now: Instant) {
        let Some(lease) = &ack.lease else { return };
        match ack.status() {
            v1::ResultStatus::RetryLater | v1::ResultStatus::Unspecified => {
                if self.results.contains_key(lease) {
                    self.unsent.retain(|unsent| unsent != lease);
                    self.later.push_back((now + RETRY_LATER, lease.clone()));
                }
            }
            v1::ResultStatus::Committed | v1::ResultStatus::Duplicate => {
                self.results.remove(lease);
            }
            v1::ResultStatus::StaleLease
            | v1::ResultStatus::TaskCancelled
            | v1::ResultStatus::TooLarge
            | v1::ResultStatus::Invalid => {
                self.results.remove(lease);
                let status = ack.status().as_str_name();
                tracing::warn!(task.id = %lease.task_id, attempt = lease.attempt, status, why = %ack.message, "a result was not accepted as sent");
            }
        }
    }

    /// The step is no longer wanted: its context is cancelled, and nothing of it is reported.
    pub fn revoke(&mut self, lease: &v1::Lease) {
        if let Some(running) = self.running.get_mut(lease) {
            running.revoked = true;
            running.cancelled.cancel();
        }
        self.results.remove(lease);
    }

    /// No new tasks from now on.
    pub fn drain(&mut self) {
        if self.drain == Drain::No {
            self.drain = Drain::Wanted;
        }
    }

    pub fn is_draining(&self) -> bool {
        self.drain != Drain::No
    }

    /// The server asked to leave: no more credit on this connection.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// The connection was silent for long.
    pub fn ping(&mut self) {
        self.ping = true;
    }

    /// Steps that run or whose results are not committed.
    pub fn unfinished(&self) -> usize {
        self.results.len() + self.running.values().filter(|running| !running.revoked).count()
    }

    /// Nothing is owed and nothing is left to say.
    pub fn is_settled(&self) -> bool {
        self.unfinished() == 0 && self.release.is_empty() && self.received.is_none()
    }

    /// The drain was said, and nothing is owed.
    pub fn is_drained(&self) -> bool {
        self.drain == Drain::Said && self.is_settled()
    }

    /// Cancels the context of everything that runs.
    pub fn cancel_all(&mut self) {
        for running in self.running.values() {
            running.cancelled.cancel();
        }
    }

    /// When a result is to be sent again.
    pub fn retry_at(&self) -> Option<Instant> {
        self.later.front().map(|(at, _)| *at)
    }

    /// Whether [`Self::next_frame`] has something.
    pub fn has_frame(&self, now: Instant) -> bool {
        self.received.is_some()
            || !self.release.is_empty()
            || !self.unsent.is_empty()
            || self.retry_at().is_some_and(|at| at <= now)
            || !self.progress.is_empty()
            || self.drain == Drain::Wanted
            || self.credit_to_grant() > 0
            || self.ping
    }

    /// What to say next.
    pub fn next_frame(&mut self, now: Instant) -> Option<v1::session_request::Frame> {
        use v1::session_request::Frame;
        let frame = self.frame(now);
        if frame.is_some() {
            self.ping = false;
            return frame;
        }
        std::mem::take(&mut self.ping).then_some(Frame::Ping(v1::Ping { at: None }))
    }

    fn frame(&mut self, now: Instant) -> Option<v1::session_request::Frame> {
        use v1::session_request::Frame;
        if let Some(up_to_seq) = self.received.take() {
            return Some(Frame::Received(v1::Received { up_to_seq }));
        }
        if !self.release.is_empty() {
            let first = self.release.len().min(self.limits.batch);
            return Some(Frame::Release(v1::Release { tasks: self.release.drain(..first).collect() }));
        }
        if let Some(results) = self.next_results(now) {
            return Some(Frame::Results(results));
        }
        if let Some(progress) = self.progress.pop_front() {
            return Some(Frame::Progress(progress));
        }
        if self.drain == Drain::Wanted {
            self.drain = Drain::Said;
            return Some(Frame::Drain(v1::Drain {}));
        }
        let tasks = self.credit_to_grant();
        self.credit += tasks;
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        (tasks > 0).then(|| Frame::Credit(v1::Credit { lane: LANE.to_owned(), tasks, bytes: 0 }))
    }

    fn next_results(&mut self, now: Instant) -> Option<v1::Results> {
        while self.retry_at().is_some_and(|at| at <= now) {
            self.unsent.extend(self.later.pop_front().map(|(_, lease)| lease));
        }
        let (mut results, mut bytes) = (Vec::new(), 0);
        while let Some(lease) = self.unsent.pop_front() {
            // Answered or revoked meanwhile.
            let Some(result) = self.results.get(&lease) else { continue };
            bytes += result.encoded_len() + 8;
            if !results.is_empty() && bytes > self.limits.frame_bytes {
                self.unsent.push_front(lease);
                break;
            }
            results.push(result.clone());
            if results.len() >= self.limits.batch {
                break;
            }
        }
        (!results.is_empty()).then_some(v1::Results { results })
    }

    /// What may be granted now. While some credit is out, nothing below a quarter of all: grants need not outnumber
    /// tasks. When none is out, whatever there is: no place stays empty.
    fn credit_to_grant(&self) -> usize {
        if self.drain != Drain::No || self.leaving {
            return 0;
        }
        let max = self.max_in_flight.min(self.limits.lane_in_flight);
        let room = max.saturating_sub(self.running.len()).saturating_sub(self.credit);
        if self.credit == 0 || room >= (max / 4).max(1) { room } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(n: u32) -> v1::Task {
        let lease = v1::Lease { task_id: format!("task-{n}"), attempt: 0, claim_epoch: 1 };
        v1::Task { lease: Some(lease), route: Some(v1::Route::default()), ..v1::Task::default() }
    }

    fn lease(n: u32) -> v1::Lease {
        task(n).lease.unwrap_or_default()
    }

    fn finish(ledger: &mut Ledger, n: u32, bytes: usize) {
        let output = Bytes::from(vec![b'1'; bytes]);
        ledger.note(Event::Finished { lease: lease(n), outcome: Ok(output) });
    }

    fn frames(ledger: &mut Ledger, now: Instant) -> Vec<v1::session_request::Frame> {
        std::iter::from_fn(|| ledger.next_frame(now)).collect()
    }

    fn welcome() -> v1::Welcome {
        v1::Welcome { batch_max: 64, ..v1::Welcome::default() }
    }

    fn ack(n: u32, status: v1::ResultStatus) -> v1::ResultAck {
        v1::ResultAck { lease: Some(lease(n)), status: status.into(), message: String::new() }
    }

    #[test]
    fn credit_and_running_steps_never_exceed_what_may_be_in_flight() {
        let now = Instant::now();
        let mut ledger = Ledger::new(8);
        ledger.welcomed(&welcome(), now);
        let mut granted = 0;
        for n in 0..200 {
            for frame in frames(&mut ledger, now) {
                if let v1::session_request::Frame::Credit(credit) = frame {
                    granted += credit.tasks;
                }
            }
            assert!(ledger.running.len() + ledger.credit <= 8);
            assert!(granted > n, "a worker with room asks for work");
            assert!(ledger.begin(&task(n)).is_some());
            if n % 3 != 0 || ledger.running.len() == 8 {
                let any = ledger.running.keys().next().cloned().unwrap_or_default();
                ledger.note(Event::Finished { lease: any.clone(), outcome: Ok(Bytes::from_static(b"1")) });
                ledger.answered(&v1::ResultAck { lease: Some(any), status: 1, ..Default::default() }, now);
            }
        }
    }

    #[test]
    fn a_result_is_sent_again_until_it_is_answered_for_good() {
        let now = Instant::now();
        let mut ledger = Ledger::new(4);
        ledger.welcomed(&welcome(), now);
        ledger.begin(&task(1));
        finish(&mut ledger, 1, 1);
        assert!(ledger.next_results(now).is_some());
        assert!(ledger.next_results(now).is_none());

        // The connection broke; the next Hello has it, and the Welcome cannot say yet.
        assert_eq!(ledger.hello().unacknowledged.len(), 1);
        let acks = vec![ack(1, v1::ResultStatus::RetryLater)];
        ledger.welcomed(&v1::Welcome { acks, ..welcome() }, now);
        assert!(ledger.next_results(now).is_none());
        assert_eq!(ledger.next_results(now + RETRY_LATER).map(|r| r.results.len()), Some(1));

        ledger.answered(&ack(1, v1::ResultStatus::Duplicate), now);
        assert!(ledger.is_settled());
    }

    #[test]
    fn what_was_revoked_is_cancelled_and_not_reported() {
        let now = Instant::now();
        let mut ledger = Ledger::new(4);
        let running = ledger.begin(&task(1)).expect("new");
        ledger.revoke(&lease(1));
        assert!(running.is_cancelled());
        assert!(ledger.hello().running.is_empty());
        assert_eq!(ledger.running.len(), 1, "it still occupies its place");
        finish(&mut ledger, 1, 1);
        assert!(ledger.next_results(now).is_none());
        assert!(ledger.is_settled());
    }

    #[test]
    fn an_output_over_the_limit_becomes_a_permanent_failure_with_both_numbers() {
        let mut ledger = Ledger::new(4);
        ledger.welcomed(&v1::Welcome { output_bytes_max: 100, ..welcome() }, Instant::now());
        ledger.begin(&task(1));
        finish(&mut ledger, 1, 101);
        let results = ledger.next_results(Instant::now()).map(|r| r.results).unwrap_or_default();
        let Some(v1::task_result::Outcome::Failed(failure)) = &results[0].outcome else { panic!("failed") };
        assert!(!failure.retryable && failure.message.contains("101") && failure.message.contains("100"));
    }

    #[test]
    fn a_frame_of_results_stays_within_a_frame_and_a_large_one_goes_alone() {
        let now = Instant::now();
        let mut ledger = Ledger::new(16);
        let small = v1::Welcome { frame_bytes_max: 1_000, ..welcome() };
        ledger.welcomed(&small, now);
        for (n, bytes) in [(1, 400), (2, 400), (3, 1_500), (4, 10), (5, 10)] {
            ledger.begin(&task(n));
            finish(&mut ledger, n, bytes);
        }
        let sizes: Vec<usize> =
            std::iter::from_fn(|| ledger.next_results(now)).map(|r| r.results.len()).collect();
        assert_eq!(sizes, [2, 1, 2]);
    }

    #[test]
    fn a_draining_worker_hands_back_what_comes_and_asks_for_nothing() {
        let now = Instant::now();
        let mut ledger = Ledger::new(4);
        ledger.welcomed(&welcome(), now);
        ledger.drain();
        assert!(ledger.begin(&task(1)).is_none());
        ledger.received(1);
        use v1::session_request::Frame;
        let said = frames(&mut ledger, now);
        assert!(
            matches!(&said[..], [Frame::Received(_), Frame::Release(release), Frame::Drain(_)] if release.tasks.len() == 1),
            "{said:?}"
        );
        assert!(ledger.is_drained());
    }
}
