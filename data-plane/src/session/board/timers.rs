//! Instants at which something is due, removable: a timer that is no longer wanted leaves nothing behind.

use std::{collections::BTreeMap, time::Instant};

/// Names one timer.
pub(super) type TimerKey = (Instant, u64);

#[derive(Debug)]
pub(super) struct Timers<T> {
    due: BTreeMap<TimerKey, T>,
    next: u64,
}

impl<T> Timers<T> {
    pub fn new() -> Self {
        Self { due: BTreeMap::new(), next: 0 }
    }

    pub fn set(&mut self, at: Instant, what: T) -> TimerKey {
        let key = (at, self.next);
        self.next = self.next.wrapping_add(1);
        self.due.insert(key, what);
        key
    }

    pub fn cancel(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    /// The earliest timer that is due at `now`.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub fn earliest(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn len(&self) -> usize {
        self.due.len()
    }
}
