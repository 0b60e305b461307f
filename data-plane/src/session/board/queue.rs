//! The tasks of one handler of one tenant that wait, and the lanes that wait for them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use orch8_model::TenantId;

use super::SessionKey;
use crate::session::TaskRef;

/// Where a task stands: higher priority first, then age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    priority: Reverse<u8>,
    pub age: u64,
}

impl Standing {
    /// 0 low … 3 critical.
    pub const PRIORITY_MAX: u8 = 3;

    pub fn new(priority: u8, age: u64) -> Self {
        Self { priority: Reverse(priority.min(Self::PRIORITY_MAX)), age }
    }
}

/// A task in the queue, with what matching has to know of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub task: TaskRef,
    pub params_bytes: usize,
    pub wire_bytes: usize,
}

/// Order of idle offers: most byte credit first, then longest idle. When the first cannot pay for a task, none can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdleKey {
    pub bytes: Reverse<u64>,
    pub ticket: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub tenant: TenantId,
    pub handler: Arc<str>,
    pub waiting: BTreeMap<Standing, Waiting>,
    /// Offers (session, index of its offer) that have credit and found nothing here. An entry may have lost its
    /// credit since: it is checked when it is taken.
    pub idle: BTreeMap<IdleKey, (SessionKey, usize)>,
    /// Live sessions that offer the handler.
    pub offered_by: usize,
    pub in_flight: usize,
}

impl Queue {
    pub fn head(&self) -> Option<(Standing, Waiting)> {
        self.waiting.first_key_value().map(|(standing, waiting)| (*standing, *waiting))
    }

    /// The task that waits longest, whatever its priority.
    pub fn oldest(&self) -> Option<TaskRef> {
        (0..=Standing::PRIORITY_MAX)
            .filter_map(|priority| {
                let rank = Standing::new(priority, 0)..=Standing::new(priority, u64::MAX);
                self.waiting.range(rank).next()
            })
            .min_by_key(|(standing, _)| standing.age)
            .map(|(_, waiting)| waiting.task)
    }

    fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.offered_by == 0 && self.in_flight == 0
    }
}

/// Index of a queue; sessions keep it, so that matching hashes no names.
pub(super) type QueueId = usize;

/// All queues. A queue exists while a task waits or runs, or a session offers its handler.
#[derive(Debug, Default)]
pub(super) struct Queues {
    slots: Vec<Option<Queue>>,
    free: Vec<QueueId>,
    by_name: HashMap<TenantId, HashMap<Arc<str>, QueueId>>,
}

impl Queues {
    /// The queue of this name, made when missing.
    pub fn named(&mut self, tenant: &TenantId, handler: &str) -> QueueId {
        if let Some(id) = self.by_name.get(tenant).and_then(|of| of.get(handler)) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let handler: Arc<str> = handler.into();
        self.slots[id] = Some(Queue {
            tenant: tenant.clone(),
            handler: handler.clone(),
            waiting: BTreeMap::new(),
            idle: BTreeMap::new(),
            offered_by: 0,
            in_flight: 0,
        });
        self.by_name.entry(tenant.clone()).or_default().insert(handler, id);
        id
    }

    pub fn get(&self, id: QueueId) -> Option<&Queue> {
        self.slots.get(id)?.as_ref()
    }

    pub fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.slots.get_mut(id)?.as_mut()
    }

    /// Queues of a tenant, in no order.
    pub fn of(&self, tenant: &TenantId) -> impl Iterator<Item = &Queue> {
        self.by_name.get(tenant).into_iter().flat_map(|of| of.values()).filter_map(|id| self.get(*id))
    }

    /// Removes the queue if nothing needs it any more.
    pub fn sweep(&mut self, id: QueueId) {
        if !self.get(id).is_some_and(Queue::is_unused) {
            return;
        }
        let Some(queue) = self.slots[id].take() else { return };
        self.free.push(id);
        if let Some(of) = self.by_name.get_mut(&queue.tenant) {
            of.remove(&queue.handler);
            if of.is_empty() {
                self.by_name.remove(&queue.tenant);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
