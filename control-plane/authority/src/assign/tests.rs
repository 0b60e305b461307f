use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn store(name: &str) -> StoreName {
    StoreName::parse(name).expect("a name")
}

fn name(name: &str) -> NodeName {
    NodeName::parse(name).expect("a name")
}

fn process(n: u8) -> ProcessId {
    ProcessId::from_slice(&[n; 16]).expect("16 bytes")
}

fn epoch(n: u64) -> LeaseEpoch {
    LeaseEpoch::new(n).expect("small")
}

/// A living node; its process and the time it joined are `at`.
fn node(called: &str, at: u8, stores: &[&str]) -> Node {
    Node {
        name: name(called),
        process: process(at),
        joined_at: Millis(at.into()),
        live: true,
        stores: stores.iter().map(|s| store(s)).collect(),
    }
}

fn silent(node: Node) -> Node {
    Node { live: false, ..node }
}

fn free(of: &str, shard: u16) -> Lease {
    Lease { store: store(of), shard: Shard(shard), holder: None, epoch: epoch(0), stored_epoch: epoch(0) }
}

fn held(of: &str, shard: u16, by: &Node, at: u64) -> Lease {
    let holder = Some(Holder { node: by.name.clone(), process: by.process });
    Lease { holder, epoch: epoch(at), ..free(of, shard) }
}

/// Store, shard, owner, epoch of what changes.
fn told(given: &[Given]) -> Vec<(String, u16, String, u64)> {
    let owner = |to: &Option<Holder>| to.as_ref().map(|h| h.node.to_string()).unwrap_or_default();
    given.iter().map(|g| (g.store.to_string(), g.shard.0, owner(&g.to), g.epoch.get())).collect()
}

fn line(of: &str, shard: u16, to: &str, at: u64) -> (String, u16, String, u64) {
    (of.to_owned(), shard, to.to_owned(), at)
}

#[test]
fn the_first_node_that_offers_a_store_gets_all_of_it_and_the_next_stands_by() {
    let (a, b) = (node("a", 1, &["s"]), node("b", 2, &["s"]));
    let leases = [free("s", 0), free("s", 1)];
    let given = assign(std::slice::from_ref(&a), &leases);
    assert_eq!(told(&given), [line("s", 0, "a", 1), line("s", 1, "a", 1)]);
    let leases = [held("s", 0, &a, 1), held("s", 1, &a, 1)];
    assert_eq!(assign(&[a, b], &leases), []);
}

#[test]
fn what_a_silent_node_had_goes_to_the_one_with_the_fewest_shards() {
    let (gone, busy, idle) =
        (silent(node("gone", 1, &["s"])), node("busy", 2, &["s", "t"]), node("idle", 3, &["s"]));
    let leases = [held("s", 0, &gone, 4), held("s", 1, &gone, 9), held("t", 0, &busy, 2)];
    let given = assign(&[gone, busy, idle], &leases);
    assert_eq!(told(&given), [line("s", 0, "idle", 5), line("s", 1, "idle", 10)]);
}

#[test]
fn two_stores_of_one_silent_node_go_to_two_nodes() {
    let (gone, b, c) =
        (silent(node("a", 1, &["s", "t"])), node("b", 2, &["s", "t"]), node("c", 3, &["s", "t"]));
    let given = assign(&[gone.clone(), b, c], &[held("s", 0, &gone, 1), held("t", 0, &gone, 1)]);
    assert_eq!(told(&given), [line("s", 0, "b", 2), line("t", 0, "c", 2)]);
}

#[test]
fn a_silent_node_keeps_what_nobody_else_can_open() {
    let (gone, other) = (silent(node("a", 1, &["s"])), node("b", 2, &["t"]));
    assert_eq!(assign(&[gone.clone(), other], &[held("s", 0, &gone, 3)]), []);
}

#[test]
fn a_node_that_left_owns_nothing_even_if_nobody_follows() {
    let left = node("a", 1, &["s"]);
    assert_eq!(told(&assign(&[], &[held("s", 0, &left, 3)])), [line("s", 0, "", 3)]);
    let next = node("b", 2, &["s"]);
    assert_eq!(told(&assign(&[next], &[held("s", 0, &left, 3)])), [line("s", 0, "b", 4)]);
}

#[test]
fn a_new_process_of_the_name_goes_on_with_a_higher_epoch_although_others_have_less() {
    let (old, new, idle) = (node("a", 1, &["s"]), node("a", 5, &["s"]), node("b", 2, &["s"]));
    let given = assign(&[new.clone(), idle], &[held("s", 0, &old, 3), held("s", 1, &old, 3)]);
    assert_eq!(told(&given), [line("s", 0, "a", 4), line("s", 1, "a", 4)]);
    assert!(given.iter().all(|g| g.to.as_ref().is_some_and(|h| h.process == new.process)));
}

#[test]
fn a_refused_lease_is_given_again_above_what_the_store_holds() {
    let a = node("a", 1, &["s"]);
    let mut lease = held("s", 0, &a, 3);
    lease.stored_epoch = epoch(8);
    assert_eq!(told(&assign(std::slice::from_ref(&a), &[lease.clone()])), [line("s", 0, "a", 9)]);
    lease.stored_epoch = epoch(3);
    assert_eq!(told(&assign(std::slice::from_ref(&a), &[lease.clone()])), [line("s", 0, "a", 4)]);
    lease.stored_epoch = epoch(2);
    assert_eq!(assign(&[a], &[lease]), [], "lower is no reason");
}

#[test]
fn a_living_node_that_does_not_serve_the_store_any_more_loses_it() {
    let (a, b) = (node("a", 1, &[]), node("b", 2, &["s"]));
    assert_eq!(told(&assign(std::slice::from_ref(&a), &[held("s", 0, &a, 3)])), [line("s", 0, "", 3)]);
    assert_eq!(told(&assign(&[a.clone(), b], &[held("s", 0, &a, 3)])), [line("s", 0, "b", 4)]);
}

#[test]
fn a_shard_that_lost_its_owner_joins_the_rest_of_its_store() {
    let (a, b) = (node("a", 9, &["s"]), node("b", 1, &["s"]));
    let given = assign(&[a.clone(), b], &[held("s", 0, &a, 1), free("s", 1)]);
    assert_eq!(told(&given), [line("s", 1, "a", 1)]);
}

#[test]
fn epochs_that_are_used_up_stay_where_they_are() {
    let (gone, b) = (silent(node("a", 1, &["s"])), node("b", 2, &["s"]));
    assert_eq!(assign(&[gone.clone(), b], &[held("s", 0, &gone, LeaseEpoch::MAX)]), []);
}

const STORES: [&str; 3] = ["s", "t", "u"];
const SHARDS: u16 = 3;

/// What happens between two looks at the fleet.
#[derive(Clone, Debug)]
enum Event {
    /// A process comes under one of four names, with these stores.
    Joins(usize, Vec<&'static str>),
    Leaves(usize),
    FallsSilent(usize),
    IsHeardAgain(usize),
    /// A store turns out to hold a higher epoch.
    Refuses(usize, u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let stores = prop::sample::subsequence(STORES.to_vec(), 0..=STORES.len());
    prop_oneof![
        (0..4_usize, stores).prop_map(|(n, stores)| Event::Joins(n, stores)),
        (0..4_usize).prop_map(Event::Leaves),
        (0..4_usize).prop_map(Event::FallsSilent),
        (0..4_usize).prop_map(Event::IsHeardAgain),
        (0..9_usize, 0..5_u64).prop_map(|(lease, above)| Event::Refuses(lease, above)),
    ]
}

struct World {
    nodes: BTreeMap<NodeName, Node>,
    leases: Vec<Lease>,
    processes: u8,
    /// Every holder there ever was, by store, shard and epoch.
    history: BTreeMap<(StoreName, Shard, LeaseEpoch), Holder>,
}

impl World {
    fn new() -> Self {
        let leases = STORES.iter().flat_map(|of| (0..SHARDS).map(|shard| free(of, shard))).collect();
        Self { nodes: BTreeMap::new(), leases, processes: 0, history: BTreeMap::new() }
    }

    fn happens(&mut self, event: Event) {
        let called = |n: usize| name(["a", "b", "c", "d"][n]);
        match event {
            Event::Joins(n, stores) => {
                self.processes = self.processes.wrapping_add(1);
                let joined = node(called(n).as_str(), self.processes, &stores);
                self.nodes.insert(joined.name.clone(), joined);
            }
            Event::Leaves(n) => drop(self.nodes.remove(&called(n))),
            Event::FallsSilent(n) => self.hear(&called(n), false),
            Event::IsHeardAgain(n) => self.hear(&called(n), true),
            Event::Refuses(n, above) => {
                let lease = &mut self.leases[n];
                lease.stored_epoch = epoch(lease.epoch.get() + above);
            }
        }
    }

    fn hear(&mut self, called: &NodeName, live: bool) {
        if let Some(node) = self.nodes.get_mut(called) {
            node.live = live;
        }
    }

    fn nodes(&self) -> Vec<Node> {
        self.nodes.values().cloned().collect()
    }

    fn take(&mut self, given: &[Given]) -> Result<(), TestCaseError> {
        for g in given {
            let found = self.leases.iter_mut().find(|l| l.store == g.store && l.shard == g.shard);
            let lease = found.expect("a lease that exists");
            prop_assert!(g.epoch >= lease.epoch, "an epoch fell");
            if let Some(to) = &g.to {
                prop_assert!(
                    g.epoch > lease.epoch && g.epoch > lease.stored_epoch,
                    "a holder without a new epoch"
                );
                let key = (g.store.clone(), g.shard, g.epoch);
                prop_assert!(self.history.insert(key, to.clone()).is_none(), "an epoch had a holder before");
            }
            lease.holder = g.to.clone();
            lease.epoch = g.epoch;
        }
        Ok(())
    }

    fn serves(&self, lease: &Lease) -> Option<&Node> {
        let holder = lease.holder.as_ref()?;
        let node = self.nodes.get(&holder.node)?;
        (node.live && node.process == holder.process && node.stores.contains(&lease.store)).then_some(node)
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_fleet_keeps_its_promises(
        events in prop::collection::vec(prop::collection::vec(any_event(), 1..4), 1..25),
    ) {
        let mut world = World::new();
        for events in events {
            events.into_iter().for_each(|event| world.happens(event));
            let before = world.leases.clone();
            let given = assign(&world.nodes(), &world.leases);

            let mut shuffled = world.leases.clone();
            shuffled.reverse();
            let nodes: Vec<_> = world.nodes().into_iter().rev().collect();
            prop_assert_eq!(&assign(&nodes, &shuffled), &given, "the order of the facts decides nothing");

            for lease in before.iter().filter(|l| l.stored_epoch < l.epoch && world.serves(l).is_some()) {
                let moved = given.iter().any(|g| g.store == lease.store && g.shard == lease.shard);
                prop_assert!(!moved, "a live holder keeps what it has: {:?}", lease);
            }
            world.take(&given)?;
            prop_assert_eq!(&assign(&world.nodes(), &world.leases), &[], "a second look changes nothing");
            for of in STORES.map(store) {
                let owners: Vec<_> =
                    world.leases.iter().filter(|l| l.store == of).map(|l| world.serves(l)).collect();
                let offered = world.nodes.values().any(|n| n.live && n.stores.contains(&of));
                if offered {
                    prop_assert!(owners.iter().all(Option::is_some), "{} has a shard without an owner", of);
                    prop_assert!(owners.windows(2).all(|w| w[0] == w[1]), "{} has two owners", of);
                }
            }
        }
    }
}
