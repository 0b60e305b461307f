//! Deficit round robin between tenants: a queue in which a huge tenant never stands in front of a small one.

use std::{collections::HashMap, collections::VecDeque, hash::Hash};

/// A queue of `T` with one lane per key `K`. Every lane with work gets `quantum × weight` of cost per round.
#[derive(Debug)]
pub struct Fair<K, T> {
    lanes: HashMap<K, Lane<T>>,
    /// Keys with work, in turn order.
    round: VecDeque<K>,
    quantum: u64,
    len: usize,
}

#[derive(Debug)]
struct Lane<T> {
    items: VecDeque<(T, u64)>,
    deficit: u64,
    weight: u64,
}

impl<K: Clone + Eq + Hash, T> Fair<K, T> {
    /// `quantum`: cost a lane of weight 1 may spend per round, at least 1.
    pub fn new(quantum: u64) -> Self {
        Self { lanes: HashMap::new(), round: VecDeque::new(), quantum: quantum.max(1), len: 0 }
    }

    /// Items in all lanes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends to the key's lane. `cost` ≥ 1.
    pub fn push(&mut self, key: K, weight: u64, cost: u64, item: T) {
        let lane = self.lanes.entry(key.clone()).or_insert_with(|| {
            self.round.push_back(key);
            Lane { items: VecDeque::new(), deficit: 0, weight: weight.max(1) }
        });
        lane.weight = weight.max(1);
        lane.items.push_back((item, cost.max(1)));
        self.len += 1;
    }

    /// The next item in turn order. A lane is dropped when it is empty: an idle tenant saves up nothing.
    pub fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        loop {
            let key = self.round.front()?.clone();
            let lane = self.lanes.get_mut(&key)?;
            let cost = lane.items.front().map_or(0, |(_, cost)| *cost);
            if lane.deficit < cost {
                lane.deficit += self.quantum * lane.weight;
                self.round.rotate_left(1);
                continue;
            }
            lane.deficit -= cost;
            let item = lane.items.pop_front().map(|(item, _)| item);
            if lane.items.is_empty() {
                self.lanes.remove(&key);
                self.round.pop_front();
            }
            self.len -= 1;
            return item;
        }
    }
}
