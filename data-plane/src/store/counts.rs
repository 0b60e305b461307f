//! What a store has done since it was opened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the store has done since it was opened; for `orch8 bench` and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub transactions: u64,
    pub statements: u64,
    pub turns: u64,
    /// Writes refused by a fence.
    pub fenced: u64,
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            transactions: a.transactions.saturating_add(b.transactions),
            statements: a.statements.saturating_add(b.statements),
            turns: a.turns.saturating_add(b.turns),
            fenced: a.fenced.saturating_add(b.fenced),
        })
    }
}

/// The same, while it rises.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub transactions: AtomicU64,
    pub statements: AtomicU64,
    pub turns: AtomicU64,
    pub fenced: AtomicU64,
}

impl Counts {
    pub fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Relaxed);
    }

    pub fn read(&self) -> Counters {
        Counters {
            transactions: self.transactions.load(Relaxed),
            statements: self.statements.load(Relaxed),
            turns: self.turns.load(Relaxed),
            fenced: self.fenced.load(Relaxed),
        }
    }
}
