//! From rounds to figures. Pure.

use std::time::Duration;

/// One round of the raw loop or of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    pub steps: u64,
    pub took: Duration,
    /// What the write-ahead log saw meanwhile; `None` where it cannot be seen.
    pub log: Option<LogWritten>,
    /// Of the whole life of the database connection; `None` where nobody counted.
    pub statements_per_step: Option<f64>,
}

/// Growth of a write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogWritten {
    pub bytes: u64,
    pub commits: u64,
}

/// Steps per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

impl Rate {
    pub fn of_all(rounds: &[Round]) -> Vec<Rate> {
        rounds.iter().map(|round| Rate(round.per_second())).collect()
    }
}

impl Round {
    pub fn per_second(&self) -> f64 {
        self.steps as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Each engine round over the raw rounds just before and just after it. `engine[i]` ran between `raw[i]` and
/// `raw[i + 1]`.
pub fn paired_ratios(raw: &[Rate], engine: &[Rate]) -> Vec<f64> {
    engine
        .iter()
        .zip(raw.windows(2))
        .flat_map(|(engine, neighbours)| neighbours.iter().map(|raw| engine.0 / raw.0))
        .collect()
}

/// The middle one, or the mean of the two in the middle. `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

/// The fastest over the slowest.
pub fn spread(rates: &[Rate]) -> f64 {
    let fastest = rates.iter().map(|rate| rate.0).fold(f64::MIN, f64::max);
    let slowest = rates.iter().map(|rate| rate.0).fold(f64::MAX, f64::min);
    fastest / slowest
}

/// `None` unless every round saw its log.
pub fn wal_bytes_per_step(rounds: &[Round]) -> Option<f64> {
    per_step(rounds, |log| log.bytes)
}

/// As [`wal_bytes_per_step`].
pub fn commits_per_step(rounds: &[Round]) -> Option<f64> {
    per_step(rounds, |log| log.commits)
}

fn per_step(rounds: &[Round], of: impl Fn(LogWritten) -> u64) -> Option<f64> {
    let steps: u64 = rounds.iter().map(|round| round.steps).sum();
    let written: Option<u64> = rounds.iter().map(|round| round.log.map(&of)).sum();
    written.filter(|_| steps > 0).map(|written| written as f64 / steps as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_round_is_compared_with_both_neighbours() {
        let ratios = paired_ratios(&[Rate(100.0), Rate(200.0), Rate(400.0)], &[Rate(100.0), Rate(100.0)]);
        assert_eq!(ratios, [1.0, 0.5, 0.5, 0.25]);
        assert_eq!(median(&ratios), Some(0.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
        assert_eq!(spread(&[Rate(100.0), Rate(150.0), Rate(120.0)]), 1.5);
    }

    #[test]
    fn a_log_that_was_not_seen_in_one_round_gives_no_figure() {
        let round = |log| Round { steps: 10, took: Duration::from_secs(1), log, statements_per_step: None };
        let seen = Some(LogWritten { bytes: 5_000, commits: 2 });
        assert_eq!(wal_bytes_per_step(&[round(seen), round(seen)]), Some(500.0));
        assert_eq!(commits_per_step(&[round(seen)]), Some(0.2));
        assert_eq!(wal_bytes_per_step(&[round(seen), round(None)]), None);
    }
}
