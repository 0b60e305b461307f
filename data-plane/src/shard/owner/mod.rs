//! The owner of a shard: the only writer of its instances.
//!
//! One loop: take posts, take what is due, turn what waits (fair between tenants), hand the turns to the committer, act
//! on what was committed. State moves on in memory when a turn is decided; nothing is *done* before its commit returned.
//! A turn that does not stand costs the instance its place in memory: it is read again and its causes run once more.

mod deeds;
mod intake;
mod memory;
mod turning;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use chrono::Utc;
use orch8_engine::{Event, HowLost, NodeNo, fairness::Fair};
use orch8_model::{ClaimEpoch, InstanceId, Millis, TaskId, TenantId};
use orch8_proto::v1;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use self::memory::Dropped;
use super::{
    committer::Submitted,
    config::ShardConfig,
    hot::{Answer, Cause, Hot, Report},
    mailbox::Post,
    programs::Programs,
    room::StoreRoom,
    wheel::Wheel,
};
use crate::{
    session::{FromSession, ReadyTask, Sessions, TaskRef},
    store::{Lease, Store},
    watch::Watchers,
};

/// Mail rows read at a time.
const MAIL_BATCH: u32 = 1024;
/// Mail rows in memory: beyond, the rest waits in the store until half of these are absorbed.
const MAIL_TAKEN_MAX: usize = 8 * MAIL_BATCH as usize;
/// Instances read at a time when a shard is taken.
const LOAD_BATCH: u32 = 512;
/// Turns between two looks at the mailbox, so that acknowledgements never wait behind a long queue.
const TURNS_PER_ROUND: usize = 256;
/// Accepted reports remembered, to answer DUPLICATE instead of STALE_LEASE to a worker that missed its acknowledgement.
const ACCEPTED_MAX: usize = 65_536;
/// Wait before tries that the sessions had no room for are offered again.
const OFFER_AGAIN: Duration = Duration::from_millis(100);
/// Wait before an instance that could not be written or read is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The owner of one shard.
pub struct Owner {
    lease: Lease,
    store: Store,
    programs: Programs,
    watchers: Watchers,
    sessions: Sessions,
    submit: mpsc::Sender<Submitted>,
    config: ShardConfig,
    hot: HashMap<InstanceId, Hot>,
    /// Rough bytes of `hot`.
    bytes: usize,
    /// Open tries of hot instances.
    tasks: HashMap<TaskId, (InstanceId, NodeNo)>,
    /// Tries dispatched by the owner before this one, until their workers are heard of or the hold ends.
    held: HashMap<TaskId, TaskRef>,
    hold_ends: Option<Instant>,
    wheel: Wheel,
    /// What waits to be turned.
    causes: Fair<TenantId, (InstanceId, Cause)>,
    /// Mail and ready rows in `causes` or on their way to the store.
    mail_taken: HashSet<i64>,
    ready_taken: HashSet<InstanceId>,
    /// Mail up to this number has been read; it starts again from 0 when some of it was left.
    mail_after: i64,
    /// There was no room to read more mail.
    mail_waits: bool,
    /// Stored timers up to this instant are looked at; it never goes back, even if the clock does.
    horizon: Millis,
    /// Evictable instances, longest unused first, with the `used` number they had.
    idle: VecDeque<(InstanceId, u64)>,
    accepted: HashMap<TaskId, ClaimEpoch>,
    accepted_order: VecDeque<TaskId>,
    /// Instances to be read again, not before when, with what has to be turned.
    again: HashMap<InstanceId, (Instant, Dropped)>,
    /// Committed tries on their way to the sessions; what these refuse is offered again at `offer_again`.
    offers: Vec<ReadyTask>,
    offer_again: Option<Instant>,
    look: bool,
    /// Ready rows wait for room in memory.
    starved: bool,
    next_look: Instant,
    next_ready: Option<Millis>,
    rotation: usize,
    seed: u64,
    /// A turn was refused by a fence: is the shard still ours?
    doubt: bool,
    fenced: bool,
}

/// The clock of the rim.
fn now() -> Millis {
    Millis::from(Utc::now())
}

impl Owner {
    pub fn new(lease: Lease, room: &StoreRoom, config: ShardConfig, submit: mpsc::Sender<Submitted>) -> Self {
        Self {
            lease,
            store: room.store().clone(),
            programs: room.programs().clone(),
            watchers: room.watchers().clone(),
            sessions: room.sessions().clone(),
            submit,
            config,
            hot: HashMap::new(),
            bytes: 0,
            tasks: HashMap::new(),
            held: HashMap::new(),
            hold_ends: None,
            wheel: Wheel::default(),
            causes: Fair::new(1),
            mail_taken: HashSet::new(),
            ready_taken: HashSet::new(),
            mail_after: 0,
            mail_waits: false,
            horizon: Millis(0),
            idle: VecDeque::new(),
            accepted: HashMap::new(),
            accepted_order: VecDeque::new(),
            again: HashMap::new(),
            offers: Vec::new(),
            offer_again: None,
            look: true,
            starved: false,
            next_look: Instant::now(),
            next_ready: None,
            rotation: 0,
            seed: orch8_seal::random_bytes().map_or(0x9e37_79b9_7f4a_7c15, u64::from_be_bytes),
            doubt: false,
            fenced: false,
        }
    }

    /// Runs until `stop`, or until somebody else owns the shard.
    pub async fn run(mut self, mut posts: mpsc::Receiver<Post>, stop: CancellationToken) {
        while let Err(error) = self.recover().await {
            tracing::error!(shard.id = %self.lease.shard, error = &error as &dyn std::error::Error, "shard cannot be read yet");
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = stop.cancelled() => return,
            }
        }
        while !self.fenced && !stop.is_cancelled() {
            self.round().await;
            if self.causes.is_empty() || self.submit.capacity() == 0 {
                tokio::select! {
                    post = posts.recv() => match post {
                        Some(post) => self.take(post),
                        None => return,
                    },
                    // Other shards may have taken all of the committer's room, and then no post tells that it is back.
                    Ok(_) = self.submit.clone().reserve_owned(), if !self.causes.is_empty() => {}
                    () = tokio::time::sleep_until(self.alarm()) => {}
                    () = stop.cancelled() => break,
                }
            }
            for _ in 0..posts.len() {
                match posts.try_recv() {
                    Ok(post) => self.take(post),
                    Err(_) => break,
                }
            }
        }
        self.drain(posts).await;
    }

    /// Everything that can be done now.
    async fn round(&mut self) {
        // First what others wait for: no committed try waits for a read of ours.
        self.offer_all();
        if std::mem::take(&mut self.doubt) {
            self.ask_for_lease().await;
        }
        let due =
            self.look || Instant::now() >= self.next_look || self.next_ready.is_some_and(|at| at <= now());
        if due && let Err(error) = self.look_into_store().await {
            tracing::error!(shard.id = %self.lease.shard, error = &error as &dyn std::error::Error, "store cannot be read");
            self.look = false;
            self.next_ready = None;
            self.next_look = Instant::now() + RETRY;
        }
        self.read_again().await;
        self.end_hold();
        self.wake_due();
        for _ in 0..TURNS_PER_ROUND {
            // A permit first: a turn that was decided must be able to leave.
            let Ok(permit) = self.submit.clone().try_reserve_owned() else { break };
            let Some((instance, cause)) = self.causes.pop() else { break };
            if let Some(submitted) = self.turn(instance, cause) {
                permit.send(submitted);
            }
        }
        self.evict(0).await;
    }

    /// When to look up next, if nothing is posted before.
    fn alarm(&self) -> Instant {
        let due = [self.wheel.next(), self.next_ready].into_iter().flatten().min();
        let by_clock = due.map(|at| Instant::now() + Duration::from_millis(at.since(now()) as u64));
        let again = self.again.values().map(|(at, _)| *at).min();
        [Some(self.next_look), by_clock, self.hold_ends, again, self.offer_again]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.next_look)
    }

    fn take(&mut self, post: Post) {
        match post {
            Post::Nudge => self.look = true,
            Post::Settled(settled) => settled.into_iter().for_each(|s| self.settle(s)),
            Post::Session(FromSession::Reported { tenant, task, outcome, answer }) => {
                let report = Report { task, answer };
                match self.tasks.get(&task.task).copied() {
                    Some((instance, node)) if self.is_of(instance, &tenant) => {
                        let event = Event::Reported {
                            node,
                            attempt: task.attempt,
                            claim_epoch: task.claim_epoch,
                            outcome,
                        };
                        self.push(tenant, instance, Cause { event, mail: Vec::new(), report: Some(report) });
                    }
                    Some(_) | None => self.answer_unknown(report),
                }
            }
            Post::Session(FromSession::Lost { task, how }) => {
                if let Some((instance, node)) = self.tasks.get(&task.task).copied() {
                    self.lost(instance, node, task, how);
                }
            }
            Post::Session(FromSession::Adopt { tenant, task, answer }) => {
                let held = match self.tasks.get(&task.task).copied() {
                    Some((instance, _))
                        if self.is_of(instance, &tenant) && self.held.get(&task.task) == Some(&task) =>
                    {
                        self.adopted(instance, task)
                    }
                    Some(_) | None => None,
                };
                let is_held = held.is_some();
                // Nobody may be waiting for the answer any more: then it stays held, until its time is over.
                if answer.send(held).is_ok() && is_held {
                    self.held.remove(&task.task);
                }
            }
        }
    }

    fn is_of(&self, instance: InstanceId, tenant: &TenantId) -> bool {
        self.tenant_of(instance) == Some(tenant)
    }

    /// Of an instance in memory, or on its way back into it.
    fn tenant_of(&self, instance: InstanceId) -> Option<&TenantId> {
        let dropped = || self.again.get(&instance).map(|(_, dropped)| &dropped.tenant);
        self.hot.get(&instance).map(|hot| &hot.tenant.tenant).or_else(dropped)
    }

    /// The task as its worker's session has to know it from now on.
    fn adopted(&self, instance: InstanceId, task: TaskRef) -> Option<Box<ReadyTask>> {
        let hot = self.hot.get(&instance)?;
        let open = hot.instance.open_tasks(&hot.compiled.program);
        let dispatch = open.into_iter().find(|d| {
            d.task == task.task && d.attempt == task.attempt && d.claim_epoch == task.claim_epoch
        })?;
        Some(Box::new(self.ready_task(hot, dispatch)))
    }

    fn lost(&mut self, instance: InstanceId, node: NodeNo, task: TaskRef, how: HowLost) {
        if let Some(tenant) = self.tenant_of(instance).cloned() {
            let event = Event::Lost { node, attempt: task.attempt, claim_epoch: task.claim_epoch, how };
            self.push(tenant, instance, Cause::of(event));
        }
    }

    fn push(&mut self, tenant: TenantId, instance: InstanceId, cause: Cause) {
        if let Some(hot) = self.hot.get_mut(&instance) {
            hot.queued += 1;
        }
        self.causes.push(tenant, 1, 1, (instance, cause));
    }

    /// A report about no open try: accepted before, or stale.
    fn answer_unknown(&self, report: Report) {
        let status = match self.accepted.get(&report.task.task) {
            Some(epoch) if *epoch == report.task.claim_epoch => v1::ResultStatus::Duplicate,
            Some(_) | None => v1::ResultStatus::StaleLease,
        };
        Answer { task: report.task, status, answer: report.answer }.send();
    }

    /// A fence refused us: only the store knows whose the shard is.
    async fn ask_for_lease(&mut self) {
        match self.store.lease(self.lease.shard).await {
            Ok(epoch) if epoch == self.lease.epoch => {}
            Ok(epoch) => {
                tracing::error!(shard.id = %self.lease.shard, lease.epoch = %epoch, "the shard has another owner; this one stops");
                self.fenced = true;
            }
            Err(_) => self.doubt = true,
        }
    }

    /// The end: what is on its way is settled, so that acknowledgements are true.
    async fn drain(mut self, mut posts: mpsc::Receiver<Post>) {
        while self.hot.values().any(|hot| !hot.flying.is_empty()) {
            match posts.recv().await {
                Some(Post::Settled(settled)) => settled.into_iter().for_each(|s| self.settle(s)),
                Some(Post::Session(_) | Post::Nudge) => {}
                None => return,
            }
        }
    }
}
