//! The owner of a shard: the only writer of its instances.
//!
//! One loop: take posts, take what is due, turn what waits (fair between tenants), hand the turns to the committer, act
//! on what was committed. State moves on in memory when a turn is decided; nothing is *done* before its commit returned.
//! A turn that does not stand costs the instance its place in memory: it is read again and its causes run once more.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use chrono::Utc;
use orch8_engine::{Action, Dispatch, Event, HowLost, Instance, NodeNo, Signal, Turn, fairness::Fair, turn};
use orch8_model::{ClaimEpoch, InstanceId, Millis, TaskId, TenantId, json};
use orch8_proto::v1;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    committer::{Fate, Settled, Submitted},
    hot::{Answer, Cause, Flying, Hot, Report, status_of},
    mailbox::Post,
    programs::Programs,
    room::{ShardConfig, StoreRoom},
    wheel::Wheel,
};
use crate::{
    session::{FromSession, Offered, ReadyTask, Sessions, TaskRef},
    store::{
        Closing, Lease, Loaded, Mail, Ready, Store, StoreError, TenantHandle, TimerRow, TurnAnswer, TurnWrite,
    },
    watch::Watchers,
};

/// Mail rows read at a time.
const MAIL_BATCH: u32 = 1024;
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
    /// Evictable instances, longest unused first, with the `used` number they had.
    idle: VecDeque<(InstanceId, u64)>,
    accepted: HashMap<TaskId, ClaimEpoch>,
    accepted_order: VecDeque<TaskId>,
    /// Instances to be read again, not before when, with what has to be turned.
    again: Vec<(Instant, InstanceId, Vec<Cause>)>,
    /// Committed tries on their way to the sessions; what these refuse is offered again at `offer_again`.
    offers: Vec<ReadyTask>,
    offer_again: Option<Instant>,
    look: bool,
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
            idle: VecDeque::new(),
            accepted: HashMap::new(),
            accepted_order: VecDeque::new(),
            again: Vec::new(),
            offers: Vec::new(),
            offer_again: None,
            look: true,
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
        self.offer_all();
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
        self.evict().await;
    }

    /// When to look up next, if nothing is posted before.
    fn alarm(&self) -> Instant {
        let due = [self.wheel.next(), self.next_ready].into_iter().flatten().min();
        let by_clock = due.map(|at| Instant::now() + Duration::from_millis(at.since(now()) as u64));
        let again = self.again.iter().map(|(at, ..)| *at).min();
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
                self.held.remove(&task.task);
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
                        self.held.remove(&task.task);
                        self.adopted(instance, task)
                    }
                    Some(_) | None => None,
                };
                let _ = answer.send(held);
            }
        }
    }

    fn is_of(&self, instance: InstanceId, tenant: &TenantId) -> bool {
        self.hot.get(&instance).is_some_and(|hot| hot.tenant.tenant == *tenant)
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
        if let Some(tenant) = self.hot.get(&instance).map(|hot| hot.tenant.tenant.clone()) {
            let event = Event::Lost { node, attempt: task.attempt, claim_epoch: task.claim_epoch, how };
            self.push(tenant, instance, Cause::of(event));
        }
    }

    fn push(&mut self, tenant: TenantId, instance: InstanceId, cause: Cause) {
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

    // ---- turning -------------------------------------------------------------------------------------------------

    /// Applies one cause. `None`: nothing to commit.
    fn turn(&mut self, id: InstanceId, cause: Cause) -> Option<Submitted> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (seed, at, lease) = (self.seed, now(), self.lease);
        let Some(hot) = self.hot.get_mut(&id) else {
            // Dropped since it was queued: the store knows better, and what was mail is still there.
            self.forget_mail(&cause.mail);
            if let Some(report) = cause.report {
                self.answer_unknown(report);
            }
            return None;
        };
        hot.used += 1;
        let (turn_no, weight) = (hot.instance.next_turn(), hot.instance.weight());
        let Turn { record, actions, verdict } =
            turn(&hot.compiled.program, &mut hot.instance, cause.event.clone(), at, seed);
        self.bytes = self.bytes.saturating_sub(weight) + hot.instance.weight();
        let Cause { event, mail, report } = cause;

        let Some(record) = record else {
            self.nothing_changed(id, mail, report, verdict);
            return None;
        };
        let far = i64::try_from(self.config.far.as_millis()).unwrap_or(i64::MAX);
        let write =
            write_of(hot, id, lease, turn_no, at, json_of(&record), &actions, &mail, far, &self.config);
        let mut flying =
            Flying { turn_no, actions, answers: Vec::new(), cause: Cause { event, mail, report: None } };
        if let (Some(report), Some(verdict)) = (report, verdict) {
            flying.answers.push(Answer {
                task: report.task,
                status: status_of(verdict),
                answer: report.answer,
            });
        }
        hot.flying.push_back(flying);
        Some(Submitted { lease, turn: write })
    }

    /// An event that changed nothing. Its answer still waits for turns of the same instance that are on their way.
    fn nothing_changed(
        &mut self,
        id: InstanceId,
        mail: Vec<i64>,
        report: Option<Report>,
        verdict: Option<orch8_engine::Verdict>,
    ) {
        self.forget_mail(&mail);
        let Some(report) = report else { return };
        let duplicate = self.accepted.get(&report.task.task) == Some(&report.task.claim_epoch);
        let status = match verdict {
            Some(verdict) if !duplicate => status_of(verdict),
            Some(_) | None => v1::ResultStatus::Duplicate,
        };
        let answer = Answer { task: report.task, status, answer: report.answer };
        match self.hot.get_mut(&id).and_then(|hot| hot.flying.back_mut()) {
            Some(last) => last.answers.push(answer),
            None => answer.send(),
        }
    }

    fn forget_mail(&mut self, mail: &[i64]) {
        for seq in mail {
            self.mail_taken.remove(seq);
        }
    }

    // ---- after the commit ----------------------------------------------------------------------------------------

    fn settle(&mut self, settled: Settled) {
        let Some(hot) = self.hot.get_mut(&settled.instance) else { return };
        if hot.flying.front().is_none_or(|f| f.turn_no != settled.turn_no) {
            return;
        }
        match settled.fate {
            Fate::Answered(TurnAnswer::Done) => {
                if let Some(flying) = hot.flying.pop_front() {
                    self.done(settled.instance, flying);
                }
            }
            Fate::Answered(TurnAnswer::Fenced) => {
                tracing::warn!(shard.id = %self.lease.shard, instance.id = %settled.instance, "turn refused by a fence");
                self.doubt = true;
                self.drop_hot(settled.instance, Instant::now() + RETRY);
            }
            Fate::Answered(TurnAnswer::Lost | TurnAnswer::HasMail) => {
                self.drop_hot(settled.instance, Instant::now())
            }
            Fate::Unknown => self.drop_hot(settled.instance, Instant::now() + RETRY),
        }
    }

    /// The one place where committed turns become deeds.
    fn done(&mut self, id: InstanceId, flying: Flying) {
        self.forget_mail(&flying.cause.mail);
        let mut closed = false;
        for answer in flying.answers {
            if answer.status == v1::ResultStatus::Committed {
                self.remember(answer.task);
            }
            answer.send();
        }
        for action in flying.actions {
            match action {
                Action::Dispatch(dispatch) => self.offer(id, *dispatch),
                Action::CancelTask { task, attempt, claim_epoch, reason, .. } => {
                    self.tasks.remove(&task);
                    self.held.remove(&task);
                    self.offers.retain(|offer| offer.dispatch.task != task);
                    self.sessions.withdraw(TaskRef { task, attempt, claim_epoch }, reason);
                }
                Action::Continue => {
                    if let Some(tenant) = self.hot.get(&id).map(|hot| hot.tenant.tenant.clone()) {
                        self.push(tenant, id, Cause::of(Event::Continue));
                    }
                }
                // The alarm below is the truth; the action only tells what to store.
                Action::WakeAt { .. } => {}
                Action::Closed => closed = true,
            }
        }
        self.watchers.changed(id);
        let Some(hot) = self.hot.get_mut(&id) else { return };
        if hot.ready {
            hot.ready = false;
            self.ready_taken.remove(&id);
        }
        if closed {
            self.remove_hot(id);
            return;
        }
        self.set_alarm(id);
        self.rest(id);
    }

    fn remember(&mut self, task: TaskRef) {
        self.tasks.remove(&task.task);
        if self.accepted.insert(task.task, task.claim_epoch).is_none() {
            self.accepted_order.push_back(task.task);
        }
        if self.accepted_order.len() > ACCEPTED_MAX
            && let Some(oldest) = self.accepted_order.pop_front()
        {
            self.accepted.remove(&oldest);
        }
    }

    fn offer(&mut self, id: InstanceId, dispatch: Dispatch) {
        let Some(hot) = self.hot.get(&id) else { return };
        self.tasks.insert(dispatch.task, (id, dispatch.node));
        let task = self.ready_task(hot, dispatch);
        self.offers.push(task);
    }

    /// Puts committed tries before the workers, many at a time.
    fn offer_all(&mut self) {
        if self.offers.is_empty() || self.offer_again.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.offer_again = None;
        for refused in self.sessions.offer_all(std::mem::take(&mut self.offers)) {
            match refused {
                Offered::Queued => {}
                Offered::Full(task) => {
                    // Withdrawn meanwhile, or still wanted: the table of open tries knows.
                    self.offers.push(task);
                    self.offer_again = Some(Instant::now() + OFFER_AGAIN);
                }
                // This node is leaving; the next owner holds the task open and sends it.
                Offered::Draining(_) => {}
            }
        }
    }

    fn ready_task(&self, hot: &Hot, dispatch: Dispatch) -> ReadyTask {
        let birth = hot.instance.birth();
        ReadyTask {
            tenant: hot.tenant.tenant.clone(),
            weight: 1,
            priority: hot.priority,
            instance: birth.instance,
            continuity: birth.continuity,
            sequence: hot.compiled.name.clone(),
            shard: self.lease.shard,
            placement: hot.tenant.placement,
            dispatch: Box::new(dispatch),
        }
    }

    fn set_alarm(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get_mut(&id) {
            let wake = hot.instance.next_wake();
            self.wheel.set(id, hot.alarm, wake);
            hot.alarm = wake;
        }
    }

    fn wake_due(&mut self) {
        let at = now();
        while let Some(id) = self.wheel.pop_due(at) {
            if let Some(hot) = self.hot.get_mut(&id) {
                hot.alarm = None;
                let tenant = hot.tenant.tenant.clone();
                self.push(tenant, id, Cause::of(Event::Wake));
            }
        }
    }

    // ---- memory --------------------------------------------------------------------------------------------------

    /// Takes an instance out of memory because a turn of it did not stand; it is read again with what it had to do.
    fn drop_hot(&mut self, id: InstanceId, not_before: Instant) {
        if let Some(mut hot) = self.remove_hot(id) {
            let causes = hot.flying.drain(..).flat_map(|flying| {
                // The first answer belongs to the cause; the others are owed whatever happens.
                let mut answers = flying.answers.into_iter();
                let report = answers.next().map(|a| Report { task: a.task, answer: a.answer });
                for late in answers {
                    late.send();
                }
                Some(Cause { report, ..flying.cause })
            });
            let causes = causes.collect();
            self.again.push((not_before, id, causes));
        }
    }

    fn remove_hot(&mut self, id: InstanceId) -> Option<Hot> {
        let hot = self.hot.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(hot.instance.weight());
        self.wheel.set(id, hot.alarm, None);
        self.ready_taken.remove(&id);
        for task in hot.instance.open_task_ids() {
            self.tasks.remove(&task);
        }
        Some(hot)
    }

    /// Notes that an instance could leave memory now.
    fn rest(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id)
            && self.evictable(hot)
        {
            self.idle.push_back((id, hot.used));
        }
    }

    fn evictable(&self, hot: &Hot) -> bool {
        let far = i64::try_from(self.config.far.as_millis()).unwrap_or(i64::MAX);
        hot.flying.is_empty()
            && hot.alarm.is_none_or(|at| at > now().plus(far))
            && hot.instance.open_task_ids().next().is_none()
    }

    async fn evict(&mut self) {
        while self.hot.len() > self.config.hot_max || self.bytes > self.config.hot_bytes_max {
            let Some((id, used)) = self.idle.pop_front() else { return };
            if !self.hot.get(&id).is_some_and(|hot| hot.used == used && self.evictable(hot)) {
                continue;
            }
            match self.store.set_hot(self.lease, &[id], false).await {
                Ok(()) => drop(self.remove_hot(id)),
                Err(error) => {
                    tracing::error!(shard.id = %self.lease.shard, error = &error as &dyn std::error::Error, "eviction failed");
                    return;
                }
            }
        }
        // Entries that no longer count would make the list grow with every turn.
        if self.idle.len() > 4 * self.hot.len() + 1024 {
            let hot = &self.hot;
            self.idle.retain(|(id, used)| hot.get(id).is_some_and(|hot| hot.used == *used));
        }
    }

    fn has_room(&self) -> bool {
        self.hot.len() < self.config.hot_max && self.bytes < self.config.hot_bytes_max
    }

    // ---- the store -----------------------------------------------------------------------------------------------

    /// After the lease was raised: everything that was in memory, as it was committed.
    async fn recover(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let ids = self.store.hot(self.lease.shard, after, LOAD_BATCH).await?;
            let Some(last) = ids.last().copied() else { break };
            for loaded in self.store.load(&ids).await? {
                if let Some(id) = self.admit(loaded, false).await? {
                    self.hold(id);
                }
            }
            after = Some(last);
        }
        if !self.held.is_empty() {
            self.hold_ends = Some(Instant::now() + self.config.takeover_hold);
        }
        tracing::info!(shard.id = %self.lease.shard, instances = self.hot.len(), held = self.held.len(), "shard recovered");
        Ok(())
    }

    /// Tries that were dispatched before this owner: their workers may still hold them.
    fn hold(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id) {
            for d in hot.instance.open_tasks(&hot.compiled.program) {
                self.tasks.insert(d.task, (id, d.node));
                self.held
                    .insert(d.task, TaskRef { task: d.task, attempt: d.attempt, claim_epoch: d.claim_epoch });
            }
        }
        self.set_alarm(id);
        self.rest(id);
    }

    /// Nobody claimed them: lost.
    fn end_hold(&mut self) {
        if self.hold_ends.is_some_and(|at| at <= Instant::now()) {
            self.hold_ends = None;
            for task in std::mem::take(&mut self.held).into_values() {
                if let Some((instance, node)) = self.tasks.get(&task.task).copied() {
                    self.lost(instance, node, task, HowLost::LeaseEnded);
                }
            }
        }
    }

    /// Puts a loaded instance into memory. `None`: closed, or in memory already.
    async fn admit(&mut self, loaded: Loaded, ready: bool) -> Result<Option<InstanceId>, StoreError> {
        let id = loaded.row.birth.instance;
        if loaded.row.status.is_terminal() || self.hot.contains_key(&id) {
            return Ok(None);
        }
        let tenant: TenantHandle = loaded.row.tenant.clone();
        let sequence = loaded.row.birth.sequence;
        let Some(compiled) = self.programs.get(&self.store, &tenant, sequence).await? else {
            return Err(StoreError::Corrupt {
                table: "instances",
                column: "sequence_id",
                key: id.to_string(),
            });
        };
        let hot = Hot::wake(loaded, compiled, ready)?;
        self.bytes += hot.instance.weight();
        self.hot.insert(id, hot);
        Ok(Some(id))
    }

    /// Mail first, then far timers, then what is ready.
    async fn look_into_store(&mut self) -> Result<(), StoreError> {
        self.look = false;
        self.next_look = Instant::now() + self.config.poll;
        self.read_mail().await?;
        self.read_timers().await?;
        self.claim().await
    }

    async fn read_mail(&mut self) -> Result<(), StoreError> {
        let mail = self.store.mail(self.lease, 0, MAIL_BATCH).await?;
        let full = mail.len() as u32 == MAIL_BATCH;
        let fresh: Vec<Mail> = mail.into_iter().filter(|m| !self.mail_taken.contains(&m.seq)).collect();
        let progress = full && !fresh.is_empty();
        let cold: Vec<InstanceId> = fresh
            .iter()
            .map(|m| m.instance)
            .filter(|id| !self.hot.contains_key(id))
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        self.reload(&cold).await?;
        for letter in fresh {
            self.mail_taken.insert(letter.seq);
            let signal = Signal { id: letter.body.signal, kind: letter.body.kind };
            let cause = Cause { event: Event::Signal(signal), mail: vec![letter.seq], report: None };
            self.push(letter.tenant, letter.instance, cause);
        }
        self.look |= progress;
        Ok(())
    }

    /// Brings cold instances into memory.
    async fn reload(&mut self, ids: &[InstanceId]) -> Result<(), StoreError> {
        for chunk in ids.chunks(LOAD_BATCH as usize) {
            let mut risen = Vec::new();
            for loaded in self.store.load(chunk).await? {
                // A ready row that was never turned comes with the claim that answers it.
                let fresh = loaded.snapshot.is_none() && loaded.tail.is_empty();
                if let Some(id) = self.admit(loaded, fresh).await? {
                    if fresh {
                        self.ready_taken.insert(id);
                        if let Some(tenant) = self.hot.get(&id).map(|hot| hot.tenant.tenant.clone()) {
                            self.push(tenant, id, Cause::of(Event::Start));
                        }
                    } else {
                        risen.push(id);
                        self.open_again(id);
                    }
                }
            }
            if !risen.is_empty() {
                self.store.set_hot(self.lease, &risen, true).await?;
            }
        }
        Ok(())
    }

    /// An instance that was read again: its open tries are known to the sessions or waiting in their queue.
    fn open_again(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id) {
            for d in hot.instance.open_tasks(&hot.compiled.program) {
                self.tasks.insert(d.task, (id, d.node));
            }
        }
        self.set_alarm(id);
    }

    async fn read_timers(&mut self) -> Result<(), StoreError> {
        let far = i64::try_from(self.config.far.as_millis()).unwrap_or(i64::MAX);
        let due = self.store.due_timers(self.lease, now().plus(far), LOAD_BATCH).await?;
        if due.is_empty() {
            return Ok(());
        }
        let cold: Vec<InstanceId> = due
            .iter()
            .map(|t| t.instance)
            .filter(|id| !self.hot.contains_key(id))
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        self.reload(&cold).await?;
        self.look |= due.len() as u32 == LOAD_BATCH;
        self.store.forget_timers(self.lease, &due).await
    }

    /// Ready rows, a few of each tenant, tenants in turn.
    async fn claim(&mut self) -> Result<(), StoreError> {
        self.next_ready = self.store.next_ready(self.lease, now()).await?;
        if !self.has_room() {
            return Ok(());
        }
        let mut tenants = self.store.ready_tenants(self.lease, now()).await?;
        if tenants.is_empty() {
            return Ok(());
        }
        self.rotation = self.rotation.wrapping_add(1);
        let turns = self.rotation % tenants.len();
        tenants.rotate_left(turns);
        let skip: Vec<InstanceId> = self.ready_taken.iter().copied().collect();
        let claimed: Vec<Ready> = self
            .store
            .claim(self.lease, now(), self.config.claim_batch, self.config.claim_per_tenant, &skip, &tenants)
            .await?;
        let ids: Vec<InstanceId> = claimed.iter().map(|r| r.instance).collect();
        // There may be more: look again as soon as these are turned.
        self.look |= !claimed.is_empty();
        self.reload(&ids).await
    }

    /// Instances whose turn did not stand: what was committed after all is answered, the rest runs once more.
    async fn read_again(&mut self) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.again).into_iter().partition(|(at, ..)| *at <= Instant::now());
        self.again = later;
        for (_, id, causes) in due {
            let loaded = match self.store.load(&[id]).await {
                Ok(mut rows) => rows.pop(),
                Err(error) => {
                    tracing::error!(instance.id = %id, error = &error as &dyn std::error::Error, "instance cannot be read");
                    self.again.push((Instant::now() + RETRY, id, causes));
                    continue;
                }
            };
            let Some(loaded) = loaded else { continue };
            if let Err(error) = self.run_again(id, loaded, causes).await {
                tracing::error!(instance.id = %id, error = &error as &dyn std::error::Error, "instance cannot be rebuilt");
            }
        }
    }

    async fn run_again(
        &mut self,
        id: InstanceId,
        loaded: Loaded,
        causes: Vec<Cause>,
    ) -> Result<(), StoreError> {
        let tenant = loaded.row.tenant.tenant.clone();
        let fresh = loaded.snapshot.is_none() && loaded.tail.is_empty();
        if self.admit(loaded, fresh).await?.is_some() {
            if fresh {
                self.ready_taken.insert(id);
            }
            self.open_again(id);
        }
        // Mail goes first: it is what a closing turn has to absorb.
        self.read_mail().await?;
        for cause in causes {
            let taken = cause.mail.iter().any(|seq| self.mail_taken.contains(seq));
            if !taken {
                self.push(tenant.clone(), id, cause);
            }
        }
        Ok(())
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

fn json_of(record: &orch8_engine::TurnRecord) -> String {
    serde_json::to_value(record).map(|v| json::print(&v)).unwrap_or_default()
}

#[allow(clippy::too_many_arguments)]
fn write_of(
    hot: &mut Hot,
    instance: InstanceId,
    lease: Lease,
    turn_no: u64,
    at: Millis,
    body: String,
    actions: &[Action],
    mail: &[i64],
    far: i64,
    config: &ShardConfig,
) -> TurnWrite {
    let (status, closed) = (hot.instance.status(), hot.instance.status().is_terminal());
    let snapshot = snapshot_due(hot, body.len(), closed, config).then(|| hot.instance.snapshot());
    if snapshot.is_some() {
        hot.tail = (0, 0);
    }
    let timers = actions.iter().filter_map(|action| match action {
        Action::WakeAt { node, at: due } if *due > at.plus(far) => {
            Some(TimerRow { instance, node: node.0, due_at: *due })
        }
        Action::WakeAt { .. }
        | Action::Dispatch(_)
        | Action::CancelTask { .. }
        | Action::Continue
        | Action::Closed => None,
    });
    TurnWrite {
        shard: lease.shard,
        tenant: hot.tenant.clone(),
        instance,
        turn_no,
        at,
        body,
        snapshot,
        status: (status != hot.stored).then(|| {
            hot.stored = status;
            status
        }),
        closing: closed.then(|| Closing { closed_at: at, error: error_of(&hot.instance) }),
        mail: mail.to_vec(),
        timers: timers.collect(),
        ready: hot.ready && turn_no == 0,
    }
}

fn snapshot_due(hot: &mut Hot, bytes: usize, closed: bool, config: &ShardConfig) -> bool {
    hot.tail.0 += 1;
    hot.tail.1 += bytes;
    !closed && (hot.tail.0 >= config.snapshot_turns || hot.tail.1 >= config.snapshot_bytes)
}

fn error_of(instance: &Instance) -> Option<String> {
    instance.error().map(|error| json::print(&error.to_value()))
}
