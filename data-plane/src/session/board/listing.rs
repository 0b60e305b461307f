//! What operators see: sessions, handlers, and how much of everything there is.

use std::time::{Duration, Instant};

use orch8_engine::nearest::nearest;
use orch8_model::{Millis, TenantId};
use orch8_proto::{door, v1};

use super::{Board, Place, queue::Queue, session::Phase, session::Session};

/// How much the sessions of a node hold. All zero when nobody is connected and nothing waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Sessions whose stream stands.
    pub sessions: usize,
    /// Sessions whose stream broke and whose tasks keep their lease for the grace.
    pub broken: usize,
    /// Tasks that wait for a worker.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Tasks with workers, results not yet in.
    pub in_flight: usize,
    /// Tasks known, results being judged included.
    pub tasks: usize,
    /// Tenants known.
    pub tenants: usize,
    /// Worker processes known.
    pub workers: usize,
    /// Handlers known.
    pub handlers: usize,
    /// Timers set.
    pub timers: usize,
}

impl Board {
    pub fn census(&self) -> Census {
        Census {
            sessions: self.live,
            broken: self.sessions.len().saturating_sub(self.live),
            queued: self.node.queued,
            queued_bytes: self.node.queued_bytes,
            in_flight: self.node.in_flight,
            tasks: self.tasks.len(),
            tenants: self.tenants.len(),
            workers: self.workers.len(),
            handlers: self.queues.len(),
            timers: self.timers.len(),
        }
    }

    /// Live sessions of a tenant, oldest first. `now` and `wall` are the same instant.
    pub fn sessions_of(&self, tenant: &TenantId, now: Instant, wall: Millis) -> Vec<v1::WorkerSession> {
        let keys = self.tenants.get(tenant).into_iter().flat_map(|tenant| &tenant.sessions);
        let mut keys: Vec<_> = keys.copied().collect();
        keys.sort_unstable();
        let sessions = keys.iter().filter_map(|key| self.sessions.get(key));
        sessions.map(|session| show(session, now, wall)).collect()
    }

    /// Handlers of a tenant that are wanted or offered, by name.
    pub fn handlers_of(&self, tenant: &TenantId, now: Instant) -> Vec<v1::HandlerStatus> {
        let mut queues: Vec<&Queue> = self.queues.of(tenant).collect();
        queues.sort_unstable_by(|a, b| a.handler.cmp(&b.handler));
        let offered = || queues.iter().filter(|queue| queue.offered_by > 0).map(|queue| &*queue.handler);
        let status = |queue: &&Queue| v1::HandlerStatus {
            handler: queue.handler.to_string(),
            queued: queue.waiting.len() as u64,
            in_flight: queue.in_flight as u64,
            sessions: u32::try_from(queue.offered_by).unwrap_or(u32::MAX),
            oldest: self.waits_for(queue, now).map(door::wire_duration),
            nearest: match queue.offered_by {
                0 => nearest(&queue.handler, offered()).unwrap_or_default().to_owned(),
                _ => String::new(),
            },
        };
        queues.iter().map(status).collect()
    }

    fn waits_for(&self, queue: &Queue, now: Instant) -> Option<Duration> {
        let oldest = self.tasks.get(&queue.oldest()?)?;
        debug_assert_eq!(oldest.place, Place::Queued);
        Some(now.saturating_duration_since(oldest.offered))
    }
}

fn show(session: &Session, now: Instant, wall: Millis) -> v1::WorkerSession {
    let at = |then: Instant| {
        let ago = now.saturating_duration_since(then).as_millis();
        Some(door::wire_instant(wall.plus(-i64::try_from(ago).unwrap_or(i64::MAX))))
    };
    let lanes = session.lanes.iter().map(|lane| v1::LaneStatus {
        name: lane.name.clone(),
        handlers: lane.handlers.iter().map(ToString::to_string).collect(),
        credit: u32::try_from(lane.credit.tasks()).unwrap_or(u32::MAX),
        in_flight: u32::try_from(lane.in_flight).unwrap_or(u32::MAX),
    });
    v1::WorkerSession {
        session_id: session.id.clone(),
        worker_id: session.worker.to_string(),
        version: session.version.clone(),
        lanes: lanes.collect(),
        opened_at: at(session.opened),
        last_frame_at: at(session.heard),
        draining: session.going_away || session.phase == Phase::Draining,
    }
}
