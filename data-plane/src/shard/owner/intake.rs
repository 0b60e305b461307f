//! What the store has for this owner: what was in memory before, mail, far timers, ready rows.

use std::collections::HashSet;

use orch8_engine::{Event, HowLost, Signal};
use orch8_model::InstanceId;
use tokio::time::Instant;

use super::{LOAD_BATCH, MAIL_BATCH, MAIL_TAKEN_MAX, Owner, RETRY, memory::Dropped, now, turning::far_of};
use crate::{
    session::TaskRef,
    shard::hot::{Cause, Flying, Report},
    store::{Loaded, Mail, Ready, StoreError},
};

impl Owner {
    /// After the lease was raised: everything that was in memory, as it was committed.
    pub(super) async fn recover(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let ids = self.store.hot(self.lease.shard, after, LOAD_BATCH).await?;
            let Some(last) = ids.last().copied() else { break };
            for loaded in self.store.load(&ids).await? {
                if let Some(id) = self.admit(loaded).await? {
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
    pub(super) fn hold(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id) {
            for d in hot.instance.open_tasks(&hot.compiled.program) {
                self.tasks.insert(d.task, (id, d.node));
                self.held
                    .insert(d.task, TaskRef { task: d.task, attempt: d.attempt, claim_epoch: d.claim_epoch });
            }
        }
        self.go_on(id);
        self.set_alarm(id);
        self.rest(id);
    }

    /// Nobody claimed them: lost.
    pub(super) fn end_hold(&mut self) {
        if self.hold_ends.is_some_and(|at| at <= Instant::now()) {
            self.hold_ends = None;
            for task in std::mem::take(&mut self.held).into_values() {
                if let Some((instance, node)) = self.tasks.get(&task.task).copied() {
                    self.lost(instance, node, task, HowLost::LeaseEnded);
                }
            }
        }
    }

    /// Mail first, then far timers, then what is ready.
    pub(super) async fn look_into_store(&mut self) -> Result<(), StoreError> {
        self.look = false;
        if Instant::now() >= self.next_look {
            // The net: whatever was read and then left is found again.
            self.mail_after = 0;
            // Whoever was asleep may have lost the shard meanwhile, and an idle owner makes no turn that would tell it.
            self.doubt = true;
        }
        self.next_look = Instant::now() + self.config.poll;
        self.read_mail().await?;
        self.read_timers().await?;
        self.claim().await
    }

    pub(super) async fn read_mail(&mut self) -> Result<(), StoreError> {
        if self.mail_taken.len() >= MAIL_TAKEN_MAX {
            self.mail_waits = true;
            return Ok(());
        }
        let mail = self.store.mail(self.lease, self.mail_after, MAIL_BATCH).await?;
        // Behind a full page there may be another; what stays in front of it, for whatever reason, stops nobody.
        self.look |= mail.len() as u32 == MAIL_BATCH;
        let last = mail.last().map_or(self.mail_after, |m| m.seq);
        let fresh: Vec<Mail> = mail
            .into_iter()
            .filter(|m| !self.mail_taken.contains(&m.seq) && !self.again.contains_key(&m.instance))
            .collect();
        let cold: Vec<InstanceId> = fresh
            .iter()
            .map(|m| m.instance)
            .filter(|id| !self.hot.contains_key(id))
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        self.reload(&cold).await?;
        self.mail_after = last;
        for letter in fresh {
            self.mail_taken.insert(letter.seq);
            let signal = Signal { id: letter.body.signal, kind: letter.body.kind };
            let cause = Cause { event: Event::Signal(signal), mail: vec![letter.seq], report: None };
            self.push(letter.tenant, letter.instance, cause);
        }
        Ok(())
    }

    /// Brings cold instances into memory.
    pub(super) async fn reload(&mut self, ids: &[InstanceId]) -> Result<(), StoreError> {
        // One whose turns did not stand comes back with what it had to do, and in no other way.
        let ids: Vec<InstanceId> = ids.iter().copied().filter(|id| !self.again.contains_key(id)).collect();
        for chunk in ids.chunks(LOAD_BATCH as usize) {
            let mut risen = Vec::new();
            for loaded in self.store.load(chunk).await? {
                let fresh = loaded.snapshot.is_none() && loaded.tail.is_empty();
                if let Some(id) = self.admit(loaded).await? {
                    // It was never turned: nothing of it is open, and only its claim starts it.
                    if !fresh {
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

    pub(super) async fn read_timers(&mut self) -> Result<(), StoreError> {
        self.horizon = self.horizon.max(now().plus(far_of(&self.config)));
        let due = self.store.due_timers(self.lease, self.horizon, LOAD_BATCH).await?;
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
    pub(super) async fn claim(&mut self) -> Result<(), StoreError> {
        self.next_ready = self.store.next_ready(self.lease, now()).await?;
        let mut tenants = self.store.ready_tenants(self.lease, now()).await?;
        if tenants.is_empty() {
            return Ok(());
        }
        // Somebody waits to come in: those who rest make room.
        self.evict(self.config.claim_batch as usize).await;
        let limit = self.config.claim_batch.min(u32::try_from(self.room()).unwrap_or(u32::MAX));
        if limit == 0 {
            // Whoever leaves, or could, makes us look again.
            self.starved = true;
            return Ok(());
        }
        self.rotation = self.rotation.wrapping_add(1);
        let turns = self.rotation % tenants.len();
        tenants.rotate_left(turns);
        let skip: Vec<InstanceId> = self.ready_taken.iter().chain(self.again.keys()).copied().collect();
        let claimed: Vec<Ready> =
            self.store.claim(self.lease, now(), limit, self.config.claim_per_tenant, &skip, &tenants).await?;
        let ids: Vec<InstanceId> = claimed.iter().map(|r| r.instance).collect();
        // There may be more: look again as soon as these are turned.
        self.look |= !claimed.is_empty();
        self.reload(&ids).await?;
        for id in ids {
            // A row of one that is not to be had stays as it is, and is not claimed over and over.
            if self.ready_taken.insert(id)
                && let Some(hot) = self.hot.get(&id)
            {
                let tenant = hot.tenant.tenant.clone();
                self.push(tenant, id, Cause::of(Event::Start));
            }
        }
        Ok(())
    }

    /// Instances whose turn did not stand: what was committed after all is done, the rest runs once more.
    pub(super) async fn read_again(&mut self) {
        let due: Vec<InstanceId> =
            self.again.iter().filter(|(_, (at, _))| *at <= Instant::now()).map(|(id, _)| *id).collect();
        for id in due {
            let Some((_, dropped)) = self.again.remove(&id) else { continue };
            if let Err((error, dropped)) = self.run_again(id, dropped).await {
                tracing::error!(instance.id = %id, error = &error as &dyn std::error::Error, "instance cannot be read again yet");
                self.again.insert(id, (Instant::now() + RETRY, dropped));
            }
        }
    }

    async fn run_again(&mut self, id: InstanceId, dropped: Dropped) -> Result<(), (StoreError, Dropped)> {
        let loaded = match self.store.load(&[id]).await {
            Ok(mut rows) => rows.pop(),
            Err(error) => return Err((error, dropped)),
        };
        let Some(loaded) = loaded else { return Ok(()) };
        let next = next_turn(&loaded);
        if let Err(error) = self.admit(loaded).await {
            return Err((error, dropped));
        }
        self.tasks.retain(|_, (instance, _)| *instance != id);
        self.open_again(id);
        let Dropped { tenant, unknown, flying, causes } = dropped;
        let (stood, undone): (Vec<_>, Vec<_>) =
            flying.into_iter().partition(|flying| unknown && flying.turn_no < next);
        for flying in stood {
            self.done(id, flying);
        }
        // Mail goes first: it is what a closing turn has to absorb.
        self.mail_after = 0;
        if let Err(error) = self.read_mail().await {
            tracing::error!(shard.id = %self.lease.shard, error = &error as &dyn std::error::Error, "mail cannot be read");
            self.next_look = Instant::now();
        }
        for cause in undone.into_iter().filter_map(cause_of).chain(causes) {
            self.push(tenant.clone(), id, cause);
        }
        Ok(())
    }
}

/// Number of the turn that comes after what is stored.
fn next_turn(loaded: &Loaded) -> u64 {
    let last = loaded.tail.last().map(|row| row.turn_no).or(loaded.snapshot.as_ref().map(|(no, _)| *no));
    last.map_or(0, |no| no + 1)
}

/// What has to be turned again because a turn did not stand. The first answer is of the cause itself; the others were
/// about reports that saw this turn, and whoever gets no answer asks again.
fn cause_of(flying: Flying) -> Option<Cause> {
    let Flying { answers, cause, .. } = flying;
    if !cause.mail.is_empty() {
        return None;
    }
    let reported = matches!(cause.event, Event::Reported { .. });
    let report = answers.into_iter().next().filter(|_| reported);
    Some(Cause { report: report.map(|a| Report { task: a.task, answer: a.answer }), ..cause })
}
