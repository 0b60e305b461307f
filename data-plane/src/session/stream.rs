//! One session on the wire: a reading half that acts on the worker's frames, a writing half that asks the board what
//! to send whenever the transport has room.
//!
//! The halves share a [`Line`]. The reading half is a task of its own, so that a worker that does not read still has
//! its frames heard; the writing half is driven by the transport, so that a worker that does not read is sent nothing.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use futures::{FutureExt, Stream, StreamExt, stream, stream::FuturesUnordered};
use orch8_engine::HowLost;
use orch8_model::{Fault, Millis, Shard, TenantId, limits::OUTPUT_BYTES_MAX};
use orch8_proto::{door, v1};
use prost::Message;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout, timeout_at},
};
use uuid::Uuid;

use super::{
    FromSession, SessionConfig, Sessions, TaskRef,
    board::{Ids, Line, SessionKey, TakenOver},
    hello::Greeting,
    report::{self, Report},
    task,
};
use crate::shard::Post;

/// Both halves of a stream. The session ends with the writing half; the reading half ends with the session.
pub(super) fn halves<S>(
    sessions: Sessions,
    key: SessionKey,
    tenant: TenantId,
    inbound: S,
) -> (
    impl Future<Output = ()> + Send + use<S>,
    impl Stream<Item = Result<v1::SessionResponse, Fault>> + Send + use<S>,
)
where
    S: Stream<Item = Result<v1::SessionRequest, Option<Fault>>> + Send + Unpin + 'static,
{
    let line = Arc::new(Line::default());
    let writer = Writer { sessions: sessions.clone(), key, line: line.clone(), ended: false };
    let reader = Reader { sessions, key, tenant, line, inbound, answers: FuturesUnordered::new() };
    (reader.run(), stream::unfold(writer, |mut writer| async { Some((writer.next().await?, writer)) }))
}

struct Writer {
    sessions: Sessions,
    key: SessionKey,
    line: Arc<Line>,
    ended: bool,
}

impl Writer {
    async fn next(&mut self) -> Option<Result<v1::SessionResponse, Fault>> {
        use v1::session_response::Frame;
        while !self.ended {
            let frame = self.sessions.with(|board, now| board.next_frame(self.key, now));
            if let Some(mut frame) = frame {
                if let Frame::Ping(ping) = &mut frame {
                    ping.at = Some(door::wire_instant(Millis::from(chrono::Utc::now())));
                }
                return Some(Ok(v1::SessionResponse { frame: Some(frame) }));
            }
            if let Some(why) = self.line.ended() {
                self.ended = true;
                return why.clone().map(Err);
            }
            self.line.bell.notified().await;
        }
        None
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.line.cut.cancel();
    }
}

struct Reader<S> {
    sessions: Sessions,
    key: SessionKey,
    tenant: TenantId,
    line: Arc<Line>,
    inbound: S,
    answers: FuturesUnordered<Answer>,
}

/// Why a reader stopped.
enum Stop {
    /// The worker closed its half properly.
    Finished,
    /// The stream broke, or the session was ended elsewhere.
    Cut,
    /// The worker broke the protocol.
    Broke(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Broke(fault)
    }
}

impl<S> Reader<S>
where
    S: Stream<Item = Result<v1::SessionRequest, Option<Fault>>> + Send + Unpin,
{
    async fn run(mut self) {
        let stop = match self.open().await {
            Ok(()) => self.listen().await,
            Err(stop) => stop,
        };
        match stop {
            Stop::Finished => self.finish().await,
            Stop::Cut => self.close(None),
            Stop::Broke(fault) => {
                tracing::info!(tenant.id = %self.tenant, why = %fault, "a worker session is refused or broke the protocol");
                self.close(Some(fault));
            }
        }
        self.hear_the_rest().await;
    }

    async fn open(&mut self) -> Result<(), Stop> {
        use v1::session_request::Frame;
        let config = self.sessions.config().clone();
        let first = match timeout(config.hello, next_frame(&mut self.inbound, &self.line, config.frame_bytes))
            .await
        {
            Ok(Ok(frame)) => frame,
            // No session was opened, so none would ever end the stream.
            Ok(Err(Stop::Finished)) => {
                return Err(Fault::invalid("hello", "must come before the worker closes its half").into());
            }
            Ok(Err(stop)) => return Err(stop),
            Err(_) => {
                let limit = config.hello.as_millis();
                return Err(Fault::invalid("hello", format_args!("did not come within {limit} ms")).into());
            }
        };
        let Frame::Hello(hello) = first else {
            return Err(Fault::invalid("frame", "must be hello, as the first of a session").into());
        };
        let mut greeting = Greeting::parse(hello, &self.tenant, &config)?;
        let unacknowledged: Vec<_> =
            std::mem::take(&mut greeting.unacknowledged).into_iter().map(Report::parse).collect();
        let reported: Vec<TaskRef> =
            unacknowledged.iter().flatten().map(|report: &Report| report.task).collect();

        let ids =
            Ids { key: self.key, session: Uuid::new_v4().to_string(), token: Uuid::new_v4().to_string() };
        let mut welcome = welcome(&ids, &config);
        let (tenant, line) = (&self.tenant, self.line.clone());
        welcome.held =
            self.sessions.with(|board, now| board.open(ids, tenant, &greeting, &reported, line, now))?;
        self.ask_owners(&greeting, &mut welcome.held).await;
        welcome.acks = self.judge_first(unacknowledged).await;
        self.sessions.with(|board, _| board.welcome(self.key, welcome));
        Ok(())
    }

    /// What the worker runs and this node does not know was sent before its owner took the shard: the owner knows.
    async fn ask_owners(&mut self, greeting: &Greeting, held: &mut [v1::HeldVerdict]) {
        let mut asked = Vec::new();
        for (verdict, (_, shard)) in held.iter_mut().zip(&greeting.running) {
            let Some(task) = task::reference(verdict.lease.as_ref()) else { continue };
            if verdict.state() == v1::HeldState::Drop {
                let (answer, adopted) = oneshot::channel();
                let post = Post::Session(FromSession::Adopt { tenant: self.tenant.clone(), task, answer });
                tell_owner(&self.sessions, self.key, *shard, post).await;
                asked.push((verdict, adopted));
            }
        }
        // An owner that stopped, or takes too long, adopts nothing: the worker drops the task.
        let patience = Instant::now() + self.sessions.config().ack;
        for (verdict, mut adopted) in asked {
            let answer = match timeout_at(patience.into(), &mut adopted).await {
                Ok(answer) => answer.ok().flatten(),
                Err(_) => {
                    // Closed first: an answer that came in this very moment counts, a later one finds nobody.
                    adopted.close();
                    adopted.try_recv().ok().flatten()
                }
            };
            let Some(ready) = answer else { continue };
            let (prepared, shard) = (task::Prepared::new(&ready), ready.shard);
            let task = prepared.reference;
            match self.sessions.with(|board, now| board.take_over(self.key, prepared, now)) {
                TakenOver::Yes => verdict.set_state(v1::HeldState::Keep),
                TakenOver::Known => {}
                TakenOver::SessionGone => {
                    // And with it the lease that the owner has just handed over.
                    let lost = FromSession::Lost { task, how: HowLost::LeaseEnded };
                    tell_owner(&self.sessions, self.key, shard, Post::Session(lost)).await;
                }
            }
        }
    }

    async fn listen(&mut self) -> Stop {
        let config = self.sessions.config().clone();
        loop {
            let room = self.answers.len() < config.pending_answers;
            let frame = tokio::select! {
                Some(answer) = self.answers.next(), if !self.answers.is_empty() => {
                    self.answered(answer);
                    continue;
                }
                frame = next_frame(&mut self.inbound, &self.line, config.frame_bytes), if room => frame,
                () = self.line.cut.cancelled(), if !room => Err(Stop::Cut),
                // It is the owners that are slow: the worker's pings wait unread, and its lease goes on.
                () = sleep(config.ping), if !room => {
                    self.sessions.with(|board, now| board.heard(self.key, now));
                    continue;
                }
            };
            match frame {
                Ok(frame) => {
                    if let Err(fault) = self.act(frame).await {
                        return Stop::Broke(fault);
                    }
                }
                Err(stop) => return stop,
            }
        }
    }

    async fn act(&mut self, frame: v1::session_request::Frame) -> Result<(), Fault> {
        use v1::session_request::Frame;
        let key = self.key;
        match frame {
            Frame::Hello(_) => Err(Fault::invalid("hello", "must be the first frame only")),
            Frame::Results(results) => self.results(results.results).await,
            Frame::Credit(credit) => self.hear(|board, _| board.credit(key, &credit)),
            Frame::Received(received) => self.hear(|board, now| board.received(key, received.up_to_seq, now)),
            Frame::Progress(progress) => self.hear(|board, now| {
                if let Some(task) = task::reference(progress.lease.as_ref()) {
                    board.progress(key, task, now);
                }
                Ok(())
            }),
            Frame::Release(release) => self.hear(|board, now| {
                let held = release.tasks.iter().filter_map(|held| task::reference(held.lease.as_ref()));
                board.release(key, held, now);
                Ok(())
            }),
            Frame::Ping(_) => self.hear(|_, _| Ok(())),
            Frame::Drain(_) => self.hear(|board, _| {
                board.drain(key);
                Ok(())
            }),
        }
    }

    /// Renews the lease, then does what the frame asks.
    fn hear(
        &self,
        act: impl FnOnce(&mut super::board::Board, Instant) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.sessions.with(|board, now| {
            board.heard(self.key, now);
            act(board, now)
        })
    }

    async fn results(&mut self, results: Vec<v1::TaskResult>) -> Result<(), Fault> {
        let limit = self.sessions.config().batch_tasks;
        if results.len() > limit {
            return Err(Fault::too_large("results.results", results.len(), limit, "results"));
        }
        let unplaceable = self.judge(results.into_iter().map(Report::parse)).await;
        if !unplaceable.is_empty() {
            self.sessions.with(|board, now| board.acks(self.key, unplaceable, now));
        }
        Ok(())
    }

    /// Sends reports to their owners; the answers come to `self.answers`. Answers what could not be sent.
    async fn judge(
        &mut self,
        reports: impl IntoIterator<Item = Result<Report, v1::ResultAck>>,
    ) -> Vec<v1::ResultAck> {
        let (mut refused, mut accepted) = (Vec::new(), Vec::new());
        for report in reports {
            match report {
                Ok(report) => accepted.push(report),
                Err(ack) => refused.push(ack),
            }
        }
        self.sessions.with(|board, now| {
            board.heard(self.key, now);
            for report in &mut accepted {
                if let Some(shard) = board.reported(&self.tenant, report.task) {
                    report.shard = shard;
                }
            }
            board.pump();
        });
        for Report { task, lease, shard, outcome, instead } in accepted {
            let (answer, verdict) = oneshot::channel();
            let tenant = self.tenant.clone();
            let post = Post::Session(FromSession::Reported { tenant, task, outcome, answer });
            // An owner that stopped drops the sender, and the verdict is RETRY_LATER.
            tell_owner(&self.sessions, self.key, shard, post).await;
            self.answers.push(Answer { task, lease: Some(lease), instead, verdict });
        }
        refused
    }

    /// Results that came with the Hello: answers in their order. What is not committed in time is answered later.
    async fn judge_first(&mut self, results: Vec<Result<Report, v1::ResultAck>>) -> Vec<v1::ResultAck> {
        let order: Vec<Option<v1::Lease>> = results
            .iter()
            .map(|result| match result {
                Ok(report) => Some(report.lease.clone()),
                Err(ack) => ack.lease.clone(),
            })
            .collect();
        let mut acks = self.judge(results).await;
        let patience = self.sessions.config().ack;
        let all = async {
            while let Some((task, ack)) = self.answers.next().await {
                self.sessions.with(|board, _| board.settle(task, ack.status()));
                acks.push(ack);
            }
        };
        let _ = timeout(patience, all).await;
        let answer = |lease: Option<v1::Lease>| {
            let known = acks.iter().position(|ack| ack.lease == lease).map(|at| acks.swap_remove(at));
            known.unwrap_or_else(|| {
                let later = v1::ResultStatus::RetryLater;
                report::ack(lease.unwrap_or_default(), later, "not committed yet; the answer will follow")
            })
        };
        order.into_iter().map(answer).collect()
    }

    /// One answer, and all others that are there already: they share a frame.
    fn answered(&mut self, first: (TaskRef, v1::ResultAck)) {
        let mut answers = vec![first];
        while let Some(Some(more)) = self.answers.next().now_or_never() {
            answers.push(more);
        }
        self.sessions.with(|board, now| board.answered(self.key, answers, now));
    }

    /// The worker closed its half: it still reads the answers it waits for.
    async fn finish(&mut self) {
        self.sessions.with(|board, _| board.drain(self.key));
        let line = self.line.clone();
        tokio::select! {
            () = self.hear_the_rest() => {}
            () = line.cut.cancelled() => {}
        }
        self.sessions.with(|board, _| board.hang_up(self.key));
        // The writing half ends the session when all is written; the clock does, if it never can be.
        self.line.cut.cancelled().await;
        self.close(None);
    }

    fn close(&self, why: Option<Fault>) {
        self.sessions.with(|board, now| board.cut(self.key, why.clone(), now));
        self.line.end(why);
    }

    /// Owners may still answer: a task whose result is committed is not lost when the grace ends.
    async fn hear_the_rest(&mut self) {
        let grace = self.sessions.config().grace;
        let rest = async {
            while let Some(answer) = self.answers.next().await {
                self.answered(answer);
            }
        };
        let _ = timeout(grace, rest).await;
    }
}

/// The next frame, within its size. What arrived before a cut is still read.
async fn next_frame<S>(
    inbound: &mut S,
    line: &Line,
    bytes_max: usize,
) -> Result<v1::session_request::Frame, Stop>
where
    S: Stream<Item = Result<v1::SessionRequest, Option<Fault>>> + Unpin,
{
    let next = tokio::select! {
        biased;
        next = inbound.next() => next,
        () = line.cut.cancelled() => return Err(Stop::Cut),
    };
    let request = match next {
        Some(Ok(request)) => request,
        Some(Err(Some(unreadable))) => return Err(Stop::Broke(unreadable)),
        Some(Err(None)) => return Err(Stop::Cut),
        None => return Err(Stop::Finished),
    };
    let bytes = request.encoded_len();
    let frame = request.frame.ok_or_else(|| Fault::invalid("frame", "is empty or unknown"))?;
    if bytes > bytes_max && !is_one_result(&frame) {
        return Err(Fault::too_large("frame", bytes, bytes_max, "bytes").into());
    }
    Ok(frame)
}

/// Waits for room in the owner's mailbox. It is the server that is slow then: the worker's lease goes on.
async fn tell_owner(sessions: &Sessions, key: SessionKey, shard: Shard, post: Post) {
    let mut post = pin!(sessions.mailboxes().post(shard, post));
    if post.as_mut().now_or_never().is_some() {
        return;
    }
    while timeout(sessions.config().ping, post.as_mut()).await.is_err() {
        sessions.with(|board, now| board.heard(key, now));
    }
}

/// The owner's answer to one report, once it is there.
struct Answer {
    task: TaskRef,
    lease: Option<v1::Lease>,
    instead: Option<(v1::ResultStatus, String)>,
    verdict: oneshot::Receiver<v1::ResultAck>,
}

impl Future for Answer {
    type Output = (TaskRef, v1::ResultAck);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let verdict = match Pin::new(&mut self.verdict).poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(verdict) => verdict,
        };
        let lease = self.lease.take();
        let mut ack = verdict.unwrap_or_else(|_| {
            report::ack(
                v1::Lease::default(),
                v1::ResultStatus::RetryLater,
                "the owner of the task is not there now",
            )
        });
        ack.lease = lease;
        if ack.status() == v1::ResultStatus::Committed
            && let Some((status, message)) = self.instead.take()
        {
            ack.status = status.into();
            ack.message = message;
        }
        Poll::Ready((self.task, ack))
    }
}

/// The one frame that may be larger than a frame.
fn is_one_result(frame: &v1::session_request::Frame) -> bool {
    use v1::session_request::Frame;
    match frame {
        Frame::Results(results) => results.results.len() == 1,
        Frame::Hello(hello) => hello.unacknowledged.len() == 1,
        Frame::Credit(_)
        | Frame::Received(_)
        | Frame::Progress(_)
        | Frame::Release(_)
        | Frame::Ping(_)
        | Frame::Drain(_) => false,
    }
}

fn welcome(ids: &Ids, config: &SessionConfig) -> v1::Welcome {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    v1::Welcome {
        session_id: ids.session.clone(),
        resume_token: ids.token.clone(),
        held: Vec::new(),
        acks: Vec::new(),
        lease: Some(door::wire_duration(config.lease)),
        ping_interval: Some(door::wire_duration(config.ping)),
        frame_bytes_max: number(config.frame_bytes),
        batch_max: number(config.batch_tasks),
        lane_in_flight_max: number(config.lane_in_flight),
        output_bytes_max: number(OUTPUT_BYTES_MAX),
    }
}
