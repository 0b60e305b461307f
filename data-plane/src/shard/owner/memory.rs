//! Which instances are in memory: how they come in, how they leave, and what a turn that did not stand costs them.

use orch8_engine::Event;
use orch8_model::{InstanceId, TenantId};
use tokio::time::Instant;

use super::{Owner, now, turning::far_of};
use crate::{
    shard::hot::{Cause, Flying, Hot},
    store::{Loaded, StoreError, TenantHandle},
};

/// An instance that has to be read again, with what it had to do.
pub struct Dropped {
    pub tenant: TenantId,
    /// Whether its turns were committed is known only when it is read again.
    pub unknown: bool,
    /// Turns that did not stand, oldest first.
    pub flying: Vec<Flying>,
    /// What came since.
    pub causes: Vec<Cause>,
}

impl Owner {
    /// Takes an instance out of memory because a turn of it did not stand; it is read again with what it had to do.
    /// Until then reports and lost leases of its open tries still find it. `unknown`: its turns may have been committed.
    pub(super) fn drop_hot(&mut self, id: InstanceId, not_before: Instant, unknown: bool) {
        let Some(hot) = self.hot.get(&id) else { return };
        // Its start waits in `causes` or is read again with it: nobody else claims it meanwhile.
        let claimed = self.ready_taken.contains(&id);
        let tasks: Vec<_> =
            hot.instance.open_task_ids().filter_map(|task| Some((task, *self.tasks.get(&task)?))).collect();
        let Some(hot) = self.remove_hot(id) else { return };
        self.tasks.extend(tasks);
        if claimed {
            self.ready_taken.insert(id);
        }
        for flying in &hot.flying {
            // A message is still in the store, or was consumed after all: reading it again tells.
            self.forget_mail(&flying.cause.mail);
        }
        self.look = true;
        let dropped =
            Dropped { tenant: hot.tenant.tenant, unknown, flying: hot.flying.into(), causes: Vec::new() };
        self.again.insert(id, (not_before, dropped));
    }

    pub(super) fn remove_hot(&mut self, id: InstanceId) -> Option<Hot> {
        let hot = self.hot.remove(&id)?;
        self.look |= std::mem::take(&mut self.starved);
        self.bytes = self.bytes.saturating_sub(hot.instance.weight());
        self.wheel.set(id, hot.alarm, None);
        self.ready_taken.remove(&id);
        for task in hot.instance.open_task_ids() {
            self.tasks.remove(&task);
        }
        Some(hot)
    }

    /// Notes that an instance could leave memory now.
    pub(super) fn rest(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id)
            && self.evictable(hot)
        {
            self.idle.push_back((id, hot.used));
            self.look |= std::mem::take(&mut self.starved);
        }
    }

    pub(super) fn evictable(&self, hot: &Hot) -> bool {
        // A clock that was set back makes no near timer a far one: nobody has stored it.
        let near = self.horizon.max(now().plus(far_of(&self.config)));
        hot.flying.is_empty()
            && hot.queued == 0
            && !hot.instance.has_work()
            && hot.alarm.is_none_or(|at| at > near)
            && hot.instance.open_task_ids().next().is_none()
    }

    /// Lets the longest unused go until memory is within its bounds with `room` instances to spare, or nobody can go.
    pub(super) async fn evict(&mut self, room: usize) {
        let most = self.config.hot_max.saturating_sub(room);
        let (mut leaving, mut bytes) = (Vec::new(), self.bytes);
        while self.hot.len() - leaving.len() > most || bytes > self.config.hot_bytes_max {
            let Some((id, used)) = self.idle.pop_front() else { break };
            if let Some(hot) = self.hot.get(&id).filter(|hot| hot.used == used && self.evictable(hot))
                && !leaving.contains(&id)
            {
                bytes = bytes.saturating_sub(hot.instance.weight());
                leaving.push(id);
            }
        }
        if !leaving.is_empty() {
            match self.store.set_hot(self.lease, &leaving, false).await {
                Ok(()) => leaving.into_iter().for_each(|id| drop(self.remove_hot(id))),
                Err(error) => {
                    tracing::error!(shard.id = %self.lease.shard, error = &error as &dyn std::error::Error, "eviction failed");
                    leaving.into_iter().for_each(|id| self.rest(id));
                }
            }
        }
        // Entries that no longer count would make the list grow with every turn.
        if self.idle.len() > 4 * self.hot.len() + 1024 {
            let hot = &self.hot;
            self.idle.retain(|(id, used)| hot.get(id).is_some_and(|hot| hot.used == *used));
        }
    }

    /// Instances that may still come into memory.
    pub(super) fn room(&self) -> usize {
        match self.bytes < self.config.hot_bytes_max {
            true => self.config.hot_max.saturating_sub(self.hot.len()),
            false => 0,
        }
    }

    /// Puts a loaded instance into memory. `None`: closed, in memory already, or unreadable: one instance that cannot be
    /// read is reported and left alone, and never stops its shard.
    pub(super) async fn admit(&mut self, loaded: Loaded) -> Result<Option<InstanceId>, StoreError> {
        let id = loaded.row.birth.instance;
        match self.rebuild_into_memory(loaded).await {
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::error!(shard.id = %self.lease.shard, instance.id = %id, error = &error as &dyn std::error::Error, "instance left alone; restore its rows from a backup");
                self.ready_taken.insert(id);
                Ok(None)
            }
            done => done,
        }
    }

    async fn rebuild_into_memory(&mut self, loaded: Loaded) -> Result<Option<InstanceId>, StoreError> {
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
        let hot = Hot::wake(loaded, compiled)?;
        self.bytes += hot.instance.weight();
        self.hot.insert(id, hot);
        Ok(Some(id))
    }

    /// An instance that was read again: its open tries are known to the sessions or waiting in their queue.
    pub(super) fn open_again(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id) {
            for d in hot.instance.open_tasks(&hot.compiled.program) {
                self.tasks.insert(d.task, (id, d.node));
            }
        }
        self.go_on(id);
        self.set_alarm(id);
    }

    /// Work that was left at a turn's bound goes on: the action that said so may have been lost with its owner.
    pub(super) fn go_on(&mut self, id: InstanceId) {
        if let Some(hot) = self.hot.get(&id)
            && hot.instance.has_work()
        {
            self.push(hot.tenant.tenant.clone(), id, Cause::of(Event::Continue));
        }
    }
}
