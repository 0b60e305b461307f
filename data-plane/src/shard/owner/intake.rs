//! What the store has for this owner: what was in memory before, mail, far timers, ready rows.

use std::collections::HashSet;

use orch8_engine::{Event, HowLost, Signal};
use orch8_model::InstanceId;
use tokio::time::Instant;

use super::{LOAD_BATCH, MAIL_BATCH, Owner, RETRY, now};
use crate::{
    session::TaskRef,
    shard::hot::Cause,
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
    pub(super) fn hold(&mut self, id: InstanceId) {
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
        self.next_look = Instant::now() + self.config.poll;
        self.read_mail().await?;
        self.read_timers().await?;
        self.claim().await
    }

    pub(super) async fn read_mail(&mut self) -> Result<(), StoreError> {
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
    pub(super) async fn reload(&mut self, ids: &[InstanceId]) -> Result<(), StoreError> {
        for chunk in ids.chunks(LOAD_BATCH as usize) {
            let mut risen = Vec::new();
            for loaded in self.store.load(chunk).await? {
                let fresh = loaded.snapshot.is_none() && loaded.tail.is_empty();
                if let Some(id) = self.admit(loaded, fresh).await? {
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
        let skip: Vec<InstanceId> = self.ready_taken.iter().copied().collect();
        let claimed: Vec<Ready> =
            self.store.claim(self.lease, now(), limit, self.config.claim_per_tenant, &skip, &tenants).await?;
        let ids: Vec<InstanceId> = claimed.iter().map(|r| r.instance).collect();
        // There may be more: look again as soon as these are turned.
        self.look |= !claimed.is_empty();
        self.reload(&ids).await?;
        for id in ids {
            if let Some(hot) = self.hot.get_mut(&id)
                && self.ready_taken.insert(id)
            {
                hot.ready = true;
                let tenant = hot.tenant.tenant.clone();
                self.push(tenant, id, Cause::of(Event::Start));
            }
        }
        Ok(())
    }

    /// Instances whose turn did not stand: what was committed after all is answered, the rest runs once more.
    pub(super) async fn read_again(&mut self) {
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

    pub(super) async fn run_again(
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
            self.push(tenant.clone(), id, cause);
        }
        Ok(())
    }
}
