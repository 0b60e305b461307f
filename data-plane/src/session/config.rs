//! Every time and bound of worker sessions, in one place.

use std::time::Duration;

/// Times and bounds. [`Default`] is what production runs; tests run [`faster`](Self::faster).
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// A session without a frame for this long is over, and its leases with it. 20 s.
    pub lease: Duration,
    /// Both sides send a Ping when they sent nothing else for this long: proxies cut silent streams. 5 s.
    pub ping: Duration,
    /// Pings missed before a session gets no new task. 3.
    pub missed_pings: u32,
    /// A Dispatch that is not acknowledged for this long never arrived. 2 s.
    pub ack: Duration,
    /// How long acknowledged tasks keep their lease after their stream broke. 10 s.
    pub grace: Duration,
    /// How long a new stream may take to say Hello. 10 s.
    pub hello: Duration,
    /// Most tasks of one Dispatch, and results of one Results. 64.
    pub batch_tasks: usize,
    /// Most bytes of one Dispatch; a single larger task travels alone. 256 KiB.
    pub batch_bytes: usize,
    /// Largest frame from a worker; a single larger result travels alone. 1 MiB.
    pub frame_bytes: usize,
    /// Most tasks in flight per lane, whatever credit was granted. 256.
    pub lane_in_flight: usize,
    /// Most handlers of one session: what matching may look at for one task. 64.
    pub handlers: usize,
    /// Most results of one session that wait for their commit; then its stream is read no further. 1,024.
    pub pending_answers: usize,
    /// Most answers that wait for a worker to read them; a worker that sends and never reads is cut off. 8,192.
    pub unread_answers: usize,
    /// Bounds of one tenant.
    pub tenant: Bounds,
    /// Bounds of the node.
    pub node: Bounds,
}

/// What a tenant, or the node, may hold in memory here.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Live sessions.
    pub sessions: usize,
    /// Tasks with workers, results not yet in.
    pub in_flight: usize,
    /// Tasks that wait for a worker.
    pub queued: usize,
    /// Bytes of the tasks that wait.
    pub queued_bytes: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(20),
            ping: Duration::from_secs(5),
            missed_pings: 3,
            ack: Duration::from_secs(2),
            grace: Duration::from_secs(10),
            hello: Duration::from_secs(10),
            batch_tasks: 64,
            batch_bytes: 256 << 10,
            frame_bytes: orch8_model::limits::FRAME_BYTES_MAX,
            lane_in_flight: 256,
            handlers: 64,
            pending_answers: 1_024,
            unread_answers: 8_192,
            tenant: Bounds { sessions: 1_000, in_flight: 16_384, queued: 50_000, queued_bytes: 256 << 20 },
            node: Bounds { sessions: 10_000, in_flight: 65_536, queued: 200_000, queued_bytes: 1 << 30 },
        }
    }
}

impl SessionConfig {
    /// The same with every time divided: a test need not wait for a proxy's patience.
    pub fn faster(self, factor: u32) -> Self {
        let factor = factor.max(1);
        Self {
            lease: self.lease / factor,
            ping: self.ping / factor,
            ack: self.ack / factor,
            grace: self.grace / factor,
            hello: self.hello / factor,
            ..self
        }
    }
}
