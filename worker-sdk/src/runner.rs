//! The worker's loop: connect, serve the session, connect again; the ledger goes from one to the next.

use std::{
    collections::HashMap,
    pin::pin,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, OptionFuture};
use orch8_proto::{
    client::{Code, Failure, Reason},
    v1,
};
use tokio::{sync::mpsc, time::sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::Endpoint,
};
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    StepContext, StepError, WorkerError,
    backoff::Backoff,
    handler::{self, Handler},
    ledger::{LANE, Ledger},
    link::{self, Link, unavailable},
};

/// Results and checkpoints between handlers and the loop, which is never far behind.
const EVENTS: usize = 1_024;

/// Longest wait while shards find their owner.
const MOVING_MAX: Duration = Duration::from_secs(1);

/// What a handler tells the loop.
#[derive(Debug)]
pub(crate) enum Event {
    Finished { lease: v1::Lease, outcome: Result<Bytes, StepError> },
    Progress(v1::Progress),
}

/// What a worker is, once its builder checked it.
pub(crate) struct Settings {
    /// At least one; as good as each other.
    pub endpoints: Vec<Endpoint>,
    pub credential: Option<MetadataValue<Ascii>>,
    pub tenant: String,
    pub worker_id: String,
    pub version: String,
    pub handlers: HashMap<String, Handler>,
    pub max_in_flight: usize,
    pub drain: Duration,
    pub backoff: Backoff,
}

pub(crate) struct Runner {
    settings: Settings,
    nonce: String,
    resume_token: String,
    ledger: Ledger,
    events: mpsc::Receiver<Event>,
    tell: mpsc::Sender<Event>,
    backoff: Backoff,
    /// Which endpoint is asked next, modulo their number.
    next_endpoint: usize,
    /// Endpoints that were asked since the last wait that was not short.
    asked: usize,
    welcomed: bool,
}

type Opening = BoxFuture<'static, Result<(Link, v1::Welcome), Failure>>;

/// How a session ended.
enum End {
    /// We drained.
    Drained,
    Broken(Failure),
}

impl Runner {
    pub fn new(settings: Settings) -> Self {
        let (tell, events) = mpsc::channel(EVENTS);
        Self {
            nonce: Uuid::new_v4().simple().to_string(),
            resume_token: String::new(),
            ledger: Ledger::new(settings.max_in_flight),
            events,
            tell,
            backoff: settings.backoff.clone(),
            // Anywhere, so that workers that start together spread.
            next_endpoint: (random() * settings.endpoints.len() as f64) as usize,
            asked: 0,
            welcomed: false,
            settings,
        }
    }

    /// Works until `shutdown`, then finishes what it has within the drain time.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        let (stop, drain) = (CancellationToken::new(), self.settings.drain);
        let ended = {
            let mut work = pin!(self.work(&stop));
            tokio::select! {
                ended = &mut work => Some(ended),
                () = shutdown => {
                    stop.cancel();
                    tokio::time::timeout(drain, work).await.ok()
                }
            }
        };
        self.ledger.cancel_all();
        ended.unwrap_or_else(|| Err(WorkerError::Unfinished { unfinished: self.ledger.unfinished() }))
    }

    async fn work(&mut self, stop: &CancellationToken) -> Result<(), WorkerError> {
        loop {
            if stop.is_cancelled() && self.ledger.is_settled() {
                return Ok(());
            }
            let opening = self.opening();
            let failure = match self.meanwhile(stop, opening).await {
                None => return Ok(()),
                Some(Err(failure)) if !self.welcomed && is_final(failure.code) => {
                    return Err(WorkerError::Refused(failure));
                }
                Some(Err(failure)) => failure,
                Some(Ok((link, welcome))) => match self.serve(link, welcome, stop).await {
                    End::Drained => return Ok(()),
                    End::Broken(failure) => failure,
                },
            };
            let wait = self.next_wait(&failure);
            tracing::warn!(worker.id = %self.settings.worker_id, why = %failure, wait_ms = wait.as_millis() as u64, "no session; will connect again");
            if self.meanwhile(stop, tokio::time::sleep(wait)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Waits for something while handlers go on. `None`: we are to stop, and owe nothing.
    async fn meanwhile<T>(&mut self, stop: &CancellationToken, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        loop {
            let owes_nothing = self.ledger.is_settled();
            tokio::select! {
                done = &mut what => return Some(done),
                Some(event) = self.events.recv() => self.ledger.note(event),
                () = stop.cancelled(), if owes_nothing => return None,
            }
        }
    }

    async fn serve(&mut self, mut link: Link, welcome: v1::Welcome, stop: &CancellationToken) -> End {
        self.begin_session(&welcome);
        // After a GoAway the next session is opened before this one is left.
        let mut next: Option<Opening> = None;
        let mut reopen_at: Option<Instant> = None;
        loop {
            if self.ledger.is_drained() {
                link.close().await;
                return End::Drained;
            }
            if reopen_at.is_some() && self.ledger.is_settled() {
                // The server is leaving and no other takes us yet; nothing is owed here, so it need not wait for us.
                link.close().await;
                return End::Broken(unavailable("the server is leaving, and no other took this worker"));
            }
            let now = Instant::now();
            let limits = self.ledger.limits();
            let (silent_at, ping_at) = (link.heard + limits.lease, link.spoke + limits.ping);
            let due = [Some(silent_at), Some(ping_at), self.ledger.retry_at(), reopen_at];
            let due = due.into_iter().flatten().min().unwrap_or(ping_at);
            let may_speak = self.ledger.has_frame(now) && !link.out.is_closed();
            let draining = self.ledger.is_draining();
            let mut newer = None;
            tokio::select! {
                frame = link.inbound.message() => match frame {
                    Ok(Some(frame)) => {
                        link.heard = Instant::now();
                        if self.act(frame) && !draining && next.is_none() {
                            next = Some(self.opening());
                        }
                    }
                    Ok(None) => return self.broken(&link, unavailable("the server closed the stream")),
                    Err(status) => return self.broken(&link, Failure::from(status)),
                },
                Some(event) = self.events.recv() => {
                    self.ledger.note(event);
                    while let Ok(event) = self.events.try_recv() {
                        self.ledger.note(event);
                    }
                }
                Ok(permit) = link.out.reserve(), if may_speak => {
                    if let Some(frame) = self.ledger.next_frame(Instant::now()) {
                        permit.send(v1::SessionRequest { frame: Some(frame) });
                        link.spoke = Instant::now();
                    }
                }
                () = sleep_until(due.into()) => {
                    let now = Instant::now();
                    if silent_at <= now {
                        return self.broken(&link, unavailable("the server was silent for longer than the lease"));
                    }
                    if ping_at <= now {
                        link.spoke = now;
                        self.ledger.ping();
                    }
                    if reopen_at.take_if(|at| *at <= now).is_some() && !draining {
                        next = Some(self.opening());
                    }
                }
                () = stop.cancelled(), if !draining => self.ledger.drain(),
                Some(opened) = OptionFuture::from(next.as_mut()) => {
                    next = None;
                    match opened {
                        Ok(opened) => newer = Some(opened),
                        Err(failure) => {
                            let wait = self.next_wait(&failure);
                            reopen_at = Some(Instant::now() + wait);
                        }
                    }
                }
            }
            if let Some((opened, welcome)) = newer {
                link = opened;
                self.begin_session(&welcome);
            }
        }
    }

    fn begin_session(&mut self, welcome: &v1::Welcome) {
        self.welcomed = true;
        self.resume_token.clone_from(&welcome.resume_token);
        self.ledger.welcomed(welcome, Instant::now());
        tracing::info!(worker.id = %self.settings.worker_id, session.id = %welcome.session_id, "session open");
    }

    /// Does what a frame asks. `true`: the server wants us to leave.
    fn act(&mut self, frame: v1::SessionResponse) -> bool {
        use v1::session_response::Frame;
        match frame.frame {
            Some(Frame::Dispatch(dispatch)) => {
                for task in dispatch.tasks {
                    self.begin(task);
                }
                self.ledger.received(dispatch.seq);
            }
            Some(Frame::ResultAcks(acks)) => {
                let now = Instant::now();
                acks.acks.iter().for_each(|ack| self.ledger.answered(ack, now));
            }
            Some(Frame::Revoke(revoke)) => {
                tracing::debug!(leases = revoke.leases.len(), why = %revoke.reason, "steps were revoked");
                revoke.leases.iter().for_each(|lease| self.ledger.revoke(lease));
            }
            Some(Frame::GoAway(go_away)) => {
                tracing::info!(why = %go_away.reason, "the server asks this worker to move on");
                self.ledger.leave();
                return true;
            }
            // A newer server may say more; a Ping has said enough by arriving.
            Some(Frame::Ping(_) | Frame::Welcome(_)) | None => {}
        }
        false
    }

    fn begin(&mut self, task: v1::Task) {
        let Some(cancelled) = self.ledger.begin(&task) else { return };
        let lease = task.lease.clone().unwrap_or_default();
        let input = task.params.as_ref().map_or_else(|| Bytes::from_static(b"null"), |p| p.data.clone());
        let span = tracing::info_span!(
            "step",
            tenant.id = %task.tenant_id,
            instance.id = %task.instance_id,
            block.path = %task.block_path.join("/"),
            handler = %task.handler,
            attempt = lease.attempt,
            traceparent = %task.traceparent,
        );
        let handler = self.settings.handlers.get(&task.handler).cloned();
        let handler = handler.unwrap_or_else(|| handler::raw(unknown_handler));
        let tell = self.tell.clone();
        let context = StepContext::new(task, Instant::now(), cancelled, tell.clone());
        let step = async move {
            let outcome = handler::run(handler, context, input).await;
            // Nobody listens once the worker has stopped.
            let _ = tell.send(Event::Finished { lease, outcome }).await;
        };
        tokio::spawn(step.instrument(span));
    }

    /// Opens a session at the next endpoint.
    fn opening(&mut self) -> Opening {
        let settings = &self.settings;
        let endpoint = settings.endpoints[self.next_endpoint % settings.endpoints.len()].clone();
        self.next_endpoint = self.next_endpoint.wrapping_add(1);
        self.asked += 1;
        let mut handlers: Vec<String> = settings.handlers.keys().cloned().collect();
        handlers.sort_unstable();
        let hello = v1::Hello {
            tenant_id: settings.tenant.clone(),
            worker_id: settings.worker_id.clone(),
            instance_nonce: self.nonce.clone(),
            version: settings.version.clone(),
            lanes: vec![v1::Lane { name: LANE.to_owned(), handlers }],
            resume_token: self.resume_token.clone(),
            ..self.ledger.hello()
        };
        link::open(endpoint, settings.credential.clone(), hello).boxed()
    }

    fn broken(&mut self, link: &Link, failure: Failure) -> End {
        self.backoff.stood(link.opened.elapsed());
        End::Broken(failure)
    }

    /// Short while there are endpoints that were not asked yet: what one of them says about itself, or when it wants to
    /// be asked again, does not hold for the others. Never long while servers answer that the shards are moving: somebody
    /// will own them in a moment, and every step waits for its workers then.
    fn next_wait(&mut self, failure: &Failure) -> Duration {
        if self.asked < self.settings.endpoints.len() {
            return self.settings.backoff.clone().next(random());
        }
        self.asked = 0;
        let wait = match failure.known() {
            Some(Reason::ShardMoving | Reason::Draining) => self.backoff.next(random()).min(MOVING_MAX),
            Some(_) | None => self.backoff.next(random()),
        };
        failure.retry_after.map_or(wait, |asked| wait.max(asked.min(Duration::from_secs(30))))
    }
}

async fn unknown_handler(context: StepContext, _: Bytes) -> Result<Bytes, StepError> {
    let message = format!("this worker has no handler {:?}", context.handler());
    Err(StepError::retryable(message).code("NO_HANDLER"))
}

/// What no waiting heals, when it meets the first session.
fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument | Code::Unimplemented
    )
}

/// Uniform in [0, 1).
fn random() -> f64 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    // The low bits of the high half are the version's neighbours; the first 48 are random.
    (high >> 16) as f64 / (1_u64 << 48) as f64
}
