//! How long to wait before the next try. Never in the past, no overflow at any attempt.

use crate::program::{Jitter, Retry};

/// A hint to wait is honoured up to a day.
pub const RETRY_AFTER_MS_MAX: i64 = 24 * 60 * 60 * 1000;

/// Milliseconds to wait after the failure of `attempt` (zero-based). `random` is uniform in [0, 1).
/// `retry_after_ms` (clamped to 24 h) is a lower bound that may exceed the policy's maximum.
///
/// `base = min(initial · multiplier^attempt, max)`; a fraction j of jitter is uniform in [base(1−j), base(1+j)], held
/// within [initial, max]; full jitter is uniform in [0, base].
pub fn backoff_ms(policy: &Retry, attempt: u32, random: f64, retry_after_ms: Option<i64>) -> i64 {
    let (initial, max) = (policy.initial_ms.max(0) as f64, policy.max_ms.max(0) as f64);
    let grown = initial * policy.multiplier.powf(f64::from(attempt));
    // Infinite, or 0 · ∞: the longest wait, never none.
    let base = if grown.is_finite() { grown.min(max) } else { max };
    let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.0 };
    let wait = match policy.jitter {
        Jitter::Full => base * random,
        // `max` last: it wins over an initial wait that is longer.
        Jitter::Fraction(j) => (base * (1.0 + j * (2.0 * random - 1.0))).max(initial).min(max),
    };
    let wait = (wait + 0.5).floor() as i64;
    wait.max(retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX)).max(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(initial_ms: i64, max_ms: i64, multiplier: f64, jitter: Jitter) -> Retry {
        Retry {
            max_attempts: 5,
            initial_ms,
            max_ms,
            multiplier,
            jitter,
            retry_if: None,
            non_retryable_codes: Vec::new(),
        }
    }

    #[test]
    fn waits_double_up_to_the_maximum() {
        let policy = policy(1000, 5000, 2.0, Jitter::Fraction(0.0));
        let waits: Vec<i64> = (0..5).map(|attempt| backoff_ms(&policy, attempt, 0.7, None)).collect();
        assert_eq!(waits, [1000, 2000, 4000, 5000, 5000]);
    }

    #[test]
    fn no_attempt_and_no_factor_overflows() {
        for multiplier in [1.0, 1.5, 2.0, 10.0, 1e308] {
            for attempt in [0, 1, 35, 64, 1023, 1024, 100_000, u32::MAX] {
                for random in [0.0, 0.5, 0.999_999_999] {
                    let numeric = policy(1000, 600_000, multiplier, Jitter::Fraction(0.5));
                    let wait = backoff_ms(&numeric, attempt, random, None);
                    assert!((1000..=600_000).contains(&wait), "{multiplier}^{attempt}: {wait}");
                    let full = policy(1000, 600_000, multiplier, Jitter::Full);
                    let wait = backoff_ms(&full, attempt, random, None);
                    assert!((0..=600_000).contains(&wait), "{multiplier}^{attempt}: {wait}");
                }
            }
        }
        // 0 · ∞ is no number.
        assert_eq!(backoff_ms(&policy(0, 9, 1e308, Jitter::Fraction(0.0)), 2, 0.0, None), 9);
        assert_eq!(backoff_ms(&policy(0, 9, 2.0, Jitter::Fraction(0.0)), 2, 0.0, None), 0);
    }

    #[test]
    fn a_hint_to_wait_may_exceed_the_maximum_but_not_a_day() {
        let policy = policy(1000, 2000, 2.0, Jitter::Fraction(0.0));
        for (hint, expected) in [
            (None, 1000),
            (Some(7000), 7000),
            (Some(500), 1000),
            (Some(-5), 1000),
            (Some(2 * RETRY_AFTER_MS_MAX), RETRY_AFTER_MS_MAX),
            (Some(i64::MAX), RETRY_AFTER_MS_MAX),
            (Some(i64::MIN), 1000),
        ] {
            assert_eq!(backoff_ms(&policy, 0, 0.0, hint), expected, "{hint:?}");
        }
    }

    #[test]
    fn jitter_spreads_around_the_base() {
        let numeric = policy(1000, 60_000, 2.0, Jitter::Fraction(0.1));
        assert_eq!(backoff_ms(&numeric, 3, 0.0, None), 7200);
        assert_eq!(backoff_ms(&numeric, 3, 0.5, None), 8000);
        assert_eq!(backoff_ms(&numeric, 3, 1.0, None), 8800);
        // Never below the first wait.
        assert_eq!(backoff_ms(&numeric, 0, 0.0, None), 1000);
        let full = policy(1000, 60_000, 2.0, Jitter::Full);
        assert_eq!(backoff_ms(&full, 3, 0.0, None), 0);
        assert_eq!(backoff_ms(&full, 3, 0.25, None), 2000);
    }

    proptest! {
        #[test]
        fn a_wait_lies_within_the_policy(
            initial in 0i64..=315_360_000_000,
            more in 0i64..=315_360_000_000,
            multiplier in prop_oneof![1.0..10.0_f64, Just(f64::MAX), Just(1.0)],
            attempt: u32,
            jitter in 0.0..=1.0_f64,
            random in 0.0..1.0_f64,
            hint in proptest::option::of(any::<i64>()),
        ) {
            let max = (initial + more).min(315_360_000_000);
            let policy = policy(initial, max, multiplier, Jitter::Fraction(jitter));
            let wait = backoff_ms(&policy, attempt, random, None);
            prop_assert!((initial..=max).contains(&wait));
            let hinted = backoff_ms(&policy, attempt, random, hint);
            prop_assert!(hinted >= wait && hinted <= wait.max(RETRY_AFTER_MS_MAX));
        }
    }
}
