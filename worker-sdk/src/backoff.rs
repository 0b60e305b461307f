//! How long to wait before the next connection: doubling, capped, jittered, forgotten after a healthy time.

use std::time::Duration;

/// State of the back-off. Randomness and durations are arguments.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    cap: Duration,
    healthy: Duration,
    failures: u32,
}

impl Backoff {
    /// `healthy`: a session that stood so long ends a series of failures.
    pub fn new(first: Duration, cap: Duration, healthy: Duration) -> Self {
        Self { first, cap, healthy, failures: 0 }
    }

    /// A session ended after it had stood for so long.
    pub fn stood(&mut self, stood: Duration) {
        if stood >= self.healthy {
            self.failures = 0;
        }
    }

    /// The next wait: uniform between half and all of min(first × 2ⁿ, cap). `random` is uniform in [0, 1).
    pub fn next(&mut self, random: f64) -> Duration {
        let full = self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_to_its_cap_and_forgets_after_a_healthy_time() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(1_000), ms(60_000));
        let waits: Vec<_> = (0..6).map(|_| backoff.next(1.0)).collect();
        assert_eq!(waits, [ms(100), ms(200), ms(400), ms(800), ms(1_000), ms(1_000)]);
        backoff.stood(ms(59_999));
        assert_eq!(backoff.next(0.0), ms(500));
        backoff.stood(ms(60_000));
        assert_eq!(backoff.next(0.0), ms(50));
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30), Duration::MAX);
        for _ in 0..200 {
            assert!(backoff.next(0.999) <= Duration::from_secs(30));
        }
    }
}
