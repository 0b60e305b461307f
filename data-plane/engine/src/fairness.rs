//! Deficit round robin between tenants: a queue in which a huge tenant never stands in front of a small one.
//!
//! After Shreedhar and Varghese, "Efficient fair queuing using deficit round-robin": a lane's turn begins with a grant of
//! `quantum × weight`, lasts while the grant covers the next item, and carries the rest over. Nobody with work waits
//! longer than one turn of everybody else, and nothing waits while somebody could be served.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    mem,
};

/// An item costs at most this many quanta, whatever it says: a pop visits a lane at most that often in vain.
const COST_QUANTA_MAX: u64 = 64;

/// A queue of `T` with one lane per key `K`. Every lane with work gets `quantum × weight` of cost per round.
#[derive(Debug)]
pub struct Fair<K, T> {
    /// Never empty ones.
    lanes: HashMap<K, Lane<T>>,
    /// Keys with work, in turn order; the first one has its turn.
    round: VecDeque<K>,
    /// Whether the first one has had its grant.
    granted: bool,
    /// The lane that the last pop emptied, and what is left of its grant.
    emptied: Option<(K, u64)>,
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
    /// `quantum`: cost a lane of weight 1 may spend per round, at least 1. With costs up to the quantum a pop takes
    /// constant time.
    pub fn new(quantum: u64) -> Self {
        Self {
            lanes: HashMap::new(),
            round: VecDeque::new(),
            granted: false,
            emptied: None,
            quantum: quantum.max(1),
            len: 0,
        }
    }

    /// Items in all lanes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keys with work, in turn order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.round.iter()
    }

    /// Items in one lane.
    pub fn len_of(&self, key: &K) -> usize {
        self.lanes.get(key).map_or(0, |lane| lane.items.len())
    }

    /// Appends to the key's lane. `weight` ≥ 1 holds for the lane from now on. `cost` ≥ 1; more than 64 quanta count as
    /// 64 quanta. A new lane queues up behind all others, unless the last pop emptied it in the middle of its turn.
    pub fn push(&mut self, key: K, weight: u64, cost: u64, item: T) {
        let cost = cost.clamp(1, self.quantum.saturating_mul(COST_QUANTA_MAX));
        if !self.lanes.contains_key(&key) {
            self.open(key.clone());
        }
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.weight = weight.max(1);
            lane.items.push_back((item, cost));
            self.len += 1;
        }
    }

    /// The next item in turn order. A lane is dropped when it is empty: an idle tenant saves up nothing.
    pub fn pop(&mut self) -> Option<T> {
        self.emptied = None;
        loop {
            let key = self.round.front()?.clone();
            let lane = self.lanes.get_mut(&key)?;
            if !mem::replace(&mut self.granted, true) {
                lane.deficit = lane.deficit.saturating_add(self.quantum.saturating_mul(lane.weight));
            }
            let (item, cost) = lane.items.pop_front()?;
            if lane.deficit < cost {
                lane.items.push_front((item, cost));
                self.round.rotate_left(1);
                self.granted = false;
                continue;
            }
            lane.deficit -= cost;
            self.len -= 1;
            if lane.items.is_empty() {
                self.emptied = Some((key.clone(), lane.deficit));
                self.lanes.remove(&key);
                self.round.pop_front();
                self.granted = false;
            }
            return Some(item);
        }
    }

    /// Keeps only the items that `keep` wants; looks at every item once.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &T) -> bool) {
        let first = self.round.front().cloned();
        self.lanes.retain(|key, lane| {
            lane.items.retain(|(item, _)| keep(key, item));
            !lane.items.is_empty()
        });
        self.round.retain(|key| self.lanes.contains_key(key));
        self.len = self.lanes.values().map(|lane| lane.items.len()).sum();
        self.granted &= first.as_ref() == self.round.front();
    }

    /// A lane for a key that has none.
    fn open(&mut self, key: K) {
        let deficit = match self.emptied.take() {
            // Taken out and put back, as a worker that asks for more: its turn goes on, or its weight would mean nothing.
            Some((emptied, left)) if emptied == key && left > 0 => {
                self.round.push_front(key.clone());
                self.granted = true;
                left
            }
            emptied => {
                self.emptied = emptied;
                self.round.push_back(key.clone());
                0
            }
        };
        self.lanes.insert(key, Lane { items: VecDeque::new(), deficit, weight: 1 });
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn drain(queue: &mut Fair<u8, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn a_new_lane_is_served_within_one_round_whatever_its_neighbour_holds() {
        for (weight, waits) in [(1, 1), (5, 5)] {
            let mut queue = Fair::new(1);
            (0..20_000).for_each(|i| queue.push(0, weight, 1, i));
            assert!((0..1000).all(|_| queue.pop().is_some()));
            queue.push(1, 1, 1, 77_777);
            let place = drain(&mut queue).iter().position(|i| *i == 77_777);
            assert!(place.is_some_and(|place| place <= waits), "{place:?}");
        }
    }

    #[test]
    fn weights_are_shares() {
        let mut queue = Fair::new(1);
        for i in 0..300 {
            queue.push(0, 3, 1, i);
            queue.push(1, 1, 1, 1000 + i);
        }
        let first: Vec<u32> = (0..200).filter_map(|_| queue.pop()).collect();
        assert_eq!(first.iter().filter(|i| **i < 1000).count(), 150);
    }

    #[test]
    fn an_item_that_is_taken_out_and_put_back_keeps_the_weight_of_its_lane() {
        let mut queue = Fair::new(1);
        queue.push('a', 3, 1, ());
        queue.push('b', 1, 1, ());
        let mut served = String::new();
        for _ in 0..12 {
            let before = queue.len_of(&'a');
            queue.pop().expect("never empty");
            let key = if queue.len_of(&'a') < before { 'a' } else { 'b' };
            served.push(key);
            queue.push(key, if key == 'a' { 3 } else { 1 }, 1, ());
        }
        assert_eq!(served, "aaabaaabaaab");
    }

    #[test]
    fn an_idle_lane_saves_up_nothing() {
        let mut queue = Fair::new(10);
        queue.push('a', 1, 1, 'a');
        queue.push('b', 1, 1, 'b');
        assert_eq!((queue.pop(), queue.pop()), (Some('a'), Some('b')));
        (0..100).for_each(|_| queue.push('b', 1, 1, 'b'));
        (0..100).for_each(|_| queue.push('a', 1, 1, 'a'));
        let next: String = (0..20).filter_map(|_| queue.pop()).collect();
        // The rest of the turn that was interrupted, then turns of ten.
        assert_eq!(next, "bbbbbbbbbaaaaaaaaaab");
    }

    #[test]
    fn absurd_costs_and_weights_end() {
        let began = Instant::now();
        let mut queue = Fair::new(3);
        for lane in 0..100 {
            queue.push(lane, u64::MAX, u64::MAX, 1);
            queue.push(lane, 0, u64::MAX, 2);
            queue.push(lane, 1, 0, 3);
        }
        assert_eq!(drain(&mut queue).len(), 300);
        let mut queue = Fair::new(u64::MAX);
        queue.push(0, u64::MAX, u64::MAX, 1);
        assert_eq!(drain(&mut queue), [1]);
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn a_pop_takes_constant_time_beside_many_lanes() {
        let began = Instant::now();
        let mut queue = Fair::new(1);
        for i in 0..50_000_u32 {
            queue.push(i, 1, 1, i);
            queue.push(i, 1, 1, i);
        }
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 100_000);
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[derive(Clone, Debug)]
    enum Move {
        Push { key: u8, weight: u64, cost: u64 },
        Pop,
        Drop { key: u8 },
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            4 => (0u8..6, 1u64..5, 1u64..9).prop_map(|(key, weight, cost)| Move::Push { key, weight, cost }),
            3 => Just(Move::Pop),
            1 => (0u8..6).prop_map(|key| Move::Drop { key }),
        ];
        prop::collection::vec(one, 0..200)
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_a_lane_keeps_its_order(moves in moves(), quantum in 1u64..6) {
            let mut queue = Fair::new(quantum);
            let mut lanes: HashMap<u8, VecDeque<u32>> = HashMap::new();
            for (id, step) in (0..).zip(moves) {
                match step {
                    Move::Push { key, weight, cost } => {
                        queue.push(key, weight, cost, (key, id));
                        lanes.entry(key).or_default().push_back(id);
                    }
                    Move::Pop => {
                        let busy = !queue.is_empty();
                        let popped = queue.pop();
                        // Work conserving: something comes out whenever there is something.
                        prop_assert_eq!(popped.is_some(), busy);
                        if let Some((key, id)) = popped {
                            prop_assert_eq!(lanes.get_mut(&key).and_then(VecDeque::pop_front), Some(id));
                        }
                    }
                    Move::Drop { key } => {
                        queue.retain(|k, _| *k != key);
                        lanes.remove(&key);
                    }
                }
                prop_assert_eq!(queue.len(), lanes.values().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(queue.keys().count(), lanes.values().filter(|lane| !lane.is_empty()).count());
            }
        }

        #[test]
        fn backlogged_lanes_share_by_weight(
            weights in prop::collection::vec(1u64..5, 2..6),
            costs in prop::collection::vec(1u64..8, 600..601),
            quantum in 1u64..9,
            pops in 1usize..200,
        ) {
            let mut queue = Fair::new(quantum);
            for (lane, weight) in weights.iter().enumerate() {
                costs.iter().for_each(|cost| queue.push(lane, *weight, *cost, (lane, *cost)));
            }
            let mut served = vec![0_u64; weights.len()];
            for _ in 0..pops {
                let (lane, cost) = queue.pop().expect("backlogged");
                served[lane] += cost;
            }
            // The bound of the algorithm: one grant and one item apart, per unit of weight.
            let share = |lane: usize| served[lane] as f64 / weights[lane] as f64;
            for (a, b) in (0..weights.len()).zip(1..weights.len()) {
                let apart = (share(a) - share(b)).abs();
                prop_assert!(apart <= (quantum + 2 * 8) as f64, "{served:?} of {weights:?}");
            }
        }

        #[test]
        fn equal_lanes_are_served_equally(lanes in 2usize..8, each in 10usize..50) {
            let mut queue = Fair::new(1);
            for i in 0..each {
                (0..lanes).for_each(|lane| queue.push(lane, 1, 1, (lane, i)));
            }
            let mut served = vec![0.0_f64; lanes];
            for _ in 0..lanes * each / 2 {
                served[queue.pop().expect("backlogged").0] += 1.0;
            }
            let jain = served.iter().sum::<f64>().powi(2) / (lanes as f64 * served.iter().map(|s| s * s).sum::<f64>());
            prop_assert!(jain > 0.99, "{jain} {served:?}");
        }
    }
}
