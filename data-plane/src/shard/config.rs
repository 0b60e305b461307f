//! Times and bounds of shard owners.

use std::time::Duration;

/// Times and bounds of the shard owners of one store.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Instances a shard keeps in memory; when full, ready rows wait in the store.
    pub hot_max: usize,
    /// Rough bytes a shard keeps in memory.
    pub hot_bytes_max: usize,
    /// Ready rows claimed at a time, and of one tenant.
    pub claim_batch: u32,
    pub claim_per_tenant: u32,
    /// The net under lost nudges.
    pub poll: Duration,
    /// Timers further away than this are stored and found again; nearer ones live in the wheel.
    pub far: Duration,
    /// After a take-over a dispatched task counts as held by its worker for this long.
    pub takeover_hold: Duration,
    /// A snapshot rides along every so many turns, or bytes of journal.
    pub snapshot_turns: u32,
    pub snapshot_bytes: usize,
}

impl Default for ShardConfig {
    fn default() -> Self {
        Self {
            hot_max: 50_000,
            hot_bytes_max: 256 << 20,
            claim_batch: 256,
            claim_per_tenant: 32,
            poll: Duration::from_secs(5),
            far: Duration::from_secs(60),
            takeover_hold: Duration::from_secs(30),
            snapshot_turns: 64,
            snapshot_bytes: 256 << 10,
        }
    }
}

impl ShardConfig {
    /// The same with shorter waits, for tests.
    #[must_use]
    pub fn faster(self, times: u32) -> Self {
        let times = times.max(1);
        Self { poll: self.poll / times, takeover_hold: self.takeover_hold / times, ..self }
    }
}
