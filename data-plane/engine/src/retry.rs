//! How long to wait before the next try. Never in the past, no overflow at any attempt.

use crate::program::Retry;

/// Milliseconds to wait after the failure of `attempt` (zero-based). `random` is uniform in [0, 1).
/// `retry_after_ms` (clamped to 24 h) is a lower bound that may exceed the policy's maximum.
pub fn backoff_ms(policy: &Retry, attempt: u32, random: f64, retry_after_ms: Option<i64>) -> i64 {
    let _ = (policy, attempt, random, retry_after_ms);
    unimplemented!()
}
