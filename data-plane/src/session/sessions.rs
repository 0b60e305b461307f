//! The hub: one mutex around the board, a clock that wakes it, and couriers that tell owners.
//!
//! Every critical section is a few map operations per task, without I/O, encoding or `await`. That is measured to be
//! far below what the transport costs (`examples/session_speed.rs`); a task that owned the board would add a wake-up
//! to every offer.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::Stream;
use orch8_model::{Fault, Millis, Shard, TenantId};
use orch8_proto::v1;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{
    Census, FromSession, ReadyTask, SessionConfig, TaskRef,
    board::{Admission, Board, SessionKey},
    stream,
    task::Prepared,
};
use crate::shard::{Mailboxes, Post};

/// The worker sessions of a node. Cheap to clone; the last clone takes the clock with it.
#[derive(Clone)]
pub struct Sessions(Arc<Hub>);

struct Hub {
    board: Mutex<Board>,
    config: Arc<SessionConfig>,
    mailboxes: Mailboxes,
    clock: Arc<Notify>,
    drained: Notify,
    next_key: AtomicU64,
    tasks: TaskTracker,
}

/// What became of an offer.
#[derive(Debug)]
#[must_use = "a refused task must be offered again"]
pub enum Offered {
    /// A worker will get it, or a `Lost` will say why not.
    Queued,
    /// The tenant or the node is at its bound of waiting tasks; offer it again later.
    Full(ReadyTask),
    /// This node gives no more work out.
    Draining(ReadyTask),
}

impl Sessions {
    /// Sessions that report to these owners. Must be called in a tokio runtime: it starts the clock of the leases.
    pub fn start(config: SessionConfig, mailboxes: Mailboxes) -> Self {
        let (config, clock) = (Arc::new(config), Arc::new(Notify::new()));
        let sessions = Self(Arc::new(Hub {
            board: Mutex::new(Board::new(config.clone(), clock.clone())),
            config,
            mailboxes,
            clock: clock.clone(),
            drained: Notify::new(),
            next_key: AtomicU64::new(0),
            tasks: TaskTracker::new(),
        }));
        tokio::spawn(keep_time(Arc::downgrade(&sessions.0), clock));
        sessions
    }

    /// Puts a committed try before the workers. Never waits.
    pub fn offer(&self, task: ReadyTask) -> Offered {
        let prepared = Prepared::new(&task);
        let admission = self.with(|board, now| {
            let admission = board.offer(prepared, now);
            board.pump();
            admission
        });
        offered(admission, task)
    }

    /// Puts the tries of one commit before the workers, in this order: one lock, fuller batches. Answers what was
    /// refused.
    pub fn offer_all(&self, tasks: Vec<ReadyTask>) -> Vec<Offered> {
        let prepared: Vec<Prepared> = tasks.iter().map(Prepared::new).collect();
        let admissions: Vec<Admission> = self.with(|board, now| {
            let admissions = prepared.into_iter().map(|task| board.offer(task, now)).collect();
            board.pump();
            admissions
        });
        let all = admissions.into_iter().zip(tasks).map(|(admission, task)| offered(admission, task));
        all.filter(|offered| !matches!(offered, Offered::Queued)).collect()
    }

    /// The try is no longer wanted: it leaves the queue, or is revoked from the session that has it.
    pub fn withdraw(&self, task: TaskRef, reason: &str) {
        self.with(|board, _| board.withdraw(task, reason));
    }

    /// Serves one stream of a worker whose credential is of `tenant`. The stream of answers ends with the session;
    /// dropping it ends the session.
    ///
    /// An error of `inbound` is a frame that could not be read, or `None` when the stream broke.
    ///
    /// Errors, as the last item: a Hello or frame that breaks the protocol (the field is named), too many sessions,
    /// draining, a lease that passed, a process that was replaced.
    pub fn serve<S>(
        &self,
        tenant: TenantId,
        inbound: S,
    ) -> impl Stream<Item = Result<v1::SessionResponse, Fault>> + Send + use<S>
    where
        S: Stream<Item = Result<v1::SessionRequest, Option<Fault>>> + Send + Unpin + 'static,
    {
        let key = SessionKey(self.0.next_key.fetch_add(1, Ordering::Relaxed));
        let (reader, writer) = stream::halves(self.clone(), key, tenant, inbound);
        self.0.tasks.spawn(reader);
        writer
    }

    /// Live sessions of a tenant on this node.
    pub fn sessions(&self, tenant: &TenantId) -> Vec<v1::WorkerSession> {
        let wall = Millis::from(chrono::Utc::now());
        self.with(|board, now| board.sessions_of(tenant, now, wall))
    }

    /// Handlers that tasks of the tenant wait for, or that its sessions offer.
    pub fn handlers(&self, tenant: &TenantId) -> Vec<v1::HandlerStatus> {
        self.with(|board, now| board.handlers_of(tenant, now))
    }

    /// How much there is of everything.
    pub fn census(&self) -> Census {
        self.with(|board, _| board.census())
    }

    /// This node owns no shard of the store: sessions end with `SHARD_MOVING` and none opens.
    pub fn stand_by(&self) {
        self.with(Board::stand_by);
    }

    /// The shard is another owner's: what was not sent yet is not sent.
    pub fn forget(&self, shard: Shard) {
        self.with(|board, _| board.forget(shard));
    }

    /// A tenant is placed in another store: its sessions end with `SHARD_MOVING`.
    pub fn send_away(&self, tenant: &TenantId) {
        self.with(|board, now| board.send_away(tenant, now));
    }

    /// This node owns shards of the store: sessions may open.
    pub fn stand_up(&self) {
        self.with(|board, _| board.stand_up());
    }

    /// Tells every worker to leave, waits until all have or the deadline passed, and ends what is left. From the call
    /// on nothing is given out and no session opens.
    pub async fn drain(&self, deadline: Duration) {
        self.with(|board, _| board.go_away(deadline, "this node is shutting down"));
        let all_left = async {
            while !self.with(|board, _| board.is_drained()) {
                self.0.drained.notified().await;
            }
        };
        let _ = tokio::time::timeout(deadline, all_left).await;
        self.with(|board, now| board.end_all(now));
        self.0.tasks.close();
        // Owners that stopped before us take no more mail; their successors find the leases passed.
        let _ = tokio::time::timeout(self.0.config.ack, self.0.tasks.wait()).await;
    }

    /// Times and bounds.
    pub(super) fn config(&self) -> &SessionConfig {
        &self.0.config
    }

    /// The owners.
    pub(super) fn mailboxes(&self) -> &Mailboxes {
        &self.0.mailboxes
    }

    /// One critical section.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Board, Instant) -> R) -> R {
        self.0.with(act)
    }
}

impl Hub {
    fn with<R>(&self, act: impl FnOnce(&mut Board, Instant) -> R) -> R {
        // The board keeps its rules statement by statement; a panic elsewhere must not stop every worker.
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut board, Instant::now());
        let posts = board.take_posts();
        let drained = board.is_drained();
        drop(board);
        if !posts.is_empty() {
            self.deliver(posts);
        }
        if drained {
            self.drained.notify_one();
        }
        result
    }

    /// One courier per shard: an owner that is behind delays nobody else's news. What waits is bounded by the tasks
    /// in flight: each is lost once.
    fn deliver(&self, posts: Vec<(Shard, FromSession)>) {
        let mut by_shard: BTreeMap<Shard, Vec<FromSession>> = BTreeMap::new();
        for (shard, post) in posts {
            by_shard.entry(shard).or_default().push(post);
        }
        for (shard, posts) in by_shard {
            let mailboxes = self.mailboxes.clone();
            self.tasks.spawn(async move {
                for post in posts {
                    if !mailboxes.post(shard, Post::Session(post)).await {
                        tracing::warn!(shard.id = %shard, "the owner has stopped; a lost task is its successor's");
                        return;
                    }
                }
            });
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.clock.notify_one();
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sessions").field(&self.census()).finish()
    }
}

fn offered(admission: Admission, task: ReadyTask) -> Offered {
    match admission {
        Admission::Queued => Offered::Queued,
        Admission::Full => Offered::Full(task),
        Admission::Draining => Offered::Draining(task),
    }
}

/// Wakes the board when its earliest timer is due. Ends with the hub.
async fn keep_time(hub: std::sync::Weak<Hub>, clock: Arc<Notify>) {
    loop {
        let Some(next) = hub.upgrade().map(|hub| hub.with(Board::advance)) else { return };
        match next {
            Some(next) => {
                let due = tokio::time::sleep_until(next.into());
                tokio::select! { () = due => {} () = clock.notified() => {} }
            }
            None => clock.notified().await,
        }
    }
}
