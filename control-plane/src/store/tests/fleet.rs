//! Stores, nodes, leases, the lead.

use std::{collections::BTreeMap, time::Duration};

use orch8_authority::{Confirmed, Given, Holder, StoreKind, StoreShape};
use orch8_model::{LeaseEpoch, Shard};

use super::*;

const SHAPE: StoreShape = StoreShape { kind: StoreKind::Postgres, shard_count: 4 };

fn epoch(n: u64) -> LeaseEpoch {
    LeaseEpoch::new(n).expect("small")
}

fn holder(node: &str, of: u8) -> Holder {
    Holder { node: node_name(node), process: process(of) }
}

/// Registers `main` and lets a process join that serves it.
async fn join(store: &ControlStore, node: &str, of: u8) {
    store.register_store(&store_name("main"), SHAPE.kind, Millis(0)).await.expect("answers");
    let mut fleet = store.begin_fleet().await.expect("begins");
    fleet.learn(&store_name("main"), SHAPE).await.expect("learnt");
    let joining = Joining {
        node: node_name(node),
        process: process(of),
        address: format!("http://{node}:1"),
        stores: vec![store_name("main")],
    };
    fleet.enter(&joining).await.expect("entered");
    fleet.commit().await.expect("committed");
}

async fn give(store: &ControlStore, shards: std::ops::Range<u16>, to: Option<Holder>, at: u64) {
    let given: Vec<_> = shards
        .map(|shard| Given {
            store: store_name("main"),
            shard: Shard(shard),
            to: to.clone(),
            epoch: epoch(at),
        })
        .collect();
    let mut fleet = store.begin_fleet().await.expect("begins");
    fleet.give(&given).await.expect("given");
    fleet.commit().await.expect("committed");
}

on_both! {
    async fn a_store_is_registered_once_and_keeps_its_kind(rig) {
        let (name, other) = (store_name("main"), StoreKind::Sqlite);
        let Registered::There(made) =
            rig.store.register_store(&name, StoreKind::Postgres, Millis(5)).await.expect("answers")
        else { panic!("made") };
        assert_eq!((made.shape.shard_count, made.created_at), (0, Millis(5)));
        let again = rig.store.register_store(&name, StoreKind::Postgres, Millis(9)).await.expect("answers");
        assert_eq!(again, Registered::There(made.clone()));
        let differs = rig.store.register_store(&name, other, Millis(9)).await.expect("answers");
        assert_eq!(differs, Registered::Differs(made.clone()));
        assert_eq!(rig.store.stores(None, 10).await.expect("a page"), std::slice::from_ref(&made));
        assert_eq!(rig.store.stores(Some(&name), 10).await.expect("a page"), []);
        assert_eq!(rig.store.store(&name).await.expect("answers"), Some(made));
    }

    async fn there_are_only_so_many_stores(rig) {
        for n in 0..STORES_MAX {
            let name = store_name(&format!("s{n}"));
            rig.store.register_store(&name, StoreKind::Sqlite, Millis(0)).await.expect("answers");
        }
        let one_more = rig.store.register_store(&store_name("more"), StoreKind::Sqlite, Millis(0)).await;
        assert_eq!(one_more.expect("answers"), Registered::Full);
    }

    async fn the_first_count_of_shards_stands_and_makes_the_leases(rig) {
        join(&rig.store, "a", 1).await;
        let mut fleet = rig.store.begin_fleet().await.expect("begins");
        fleet.learn(&store_name("main"), StoreShape { shard_count: 9, ..SHAPE }).await.expect("answers");
        let leases = fleet.leases().await.expect("answers");
        assert_eq!(leases.len(), 4);
        assert!(leases.iter().all(|lease| lease.holder.is_none() && lease.epoch == epoch(0)));
        let stores = fleet.stores(&[store_name("main"), store_name("other")]).await.expect("answers");
        assert_eq!(stores.iter().map(|s| s.shape).collect::<Vec<_>>(), [SHAPE]);
    }

    async fn a_name_is_of_one_process_and_who_lost_it_is_remembered(rig) {
        join(&rig.store, "a", 1).await;
        let first = rig.store.nodes().await.expect("answers").remove(0);
        assert!(rig.store.hear(&holder("a", 1)).await.expect("answers"));
        join(&rig.store, "a", 1).await;
        let again = rig.store.nodes().await.expect("answers").remove(0);
        assert_eq!(again.joined_at, first.joined_at, "who only comes back has been here all the time");
        join(&rig.store, "a", 2).await;
        assert!(!rig.store.hear(&holder("a", 1)).await.expect("answers"));
        assert!(rig.store.hear(&holder("a", 2)).await.expect("answers"));
        let mut fleet = rig.store.begin_fleet().await.expect("begins");
        let heard = fleet.successor_heard(&node_name("a"), process(1)).await.expect("answers");
        assert!(heard.is_some_and(|ms| ms < 10_000), "{heard:?}");
        assert_eq!(fleet.successor_heard(&node_name("a"), process(2)).await.expect("answers"), None);
        assert_eq!(fleet.others(&node_name("a")).await.expect("answers"), 0);
        assert_eq!(fleet.others(&node_name("b")).await.expect("answers"), 1);
    }

    async fn who_has_left_is_not_heard_any_more(rig) {
        join(&rig.store, "a", 1).await;
        for of in [2, 1] {
            let mut fleet = rig.store.begin_fleet().await.expect("begins");
            fleet.leave(&node_name("a"), process(of)).await.expect("answers");
            fleet.commit().await.expect("committed");
            assert_eq!(rig.store.hear(&holder("a", 1)).await.expect("answers"), of == 2, "only its own process");
        }
        assert_eq!(rig.store.nodes().await.expect("answers"), []);
        assert!(rig.store.fleet_view().await.expect("answers").seats.is_empty());
        join(&rig.store, "a", 1).await;
        assert!(rig.store.hear(&holder("a", 1)).await.expect("answers"));
    }

    async fn what_was_given_is_seen_by_its_process_alone_and_no_epoch_falls(rig) {
        join(&rig.store, "a", 1).await;
        join(&rig.store, "b", 2).await;
        let before = rig.store.counters().await.expect("answers");
        give(&rig.store, 0..4, Some(holder("a", 1)), 5).await;
        give(&rig.store, 3..4, Some(holder("b", 2)), 6).await;
        give(&rig.store, 0..1, Some(holder("b", 2)), 4).await;
        let view = rig.store.fleet_view().await.expect("answers");
        assert!(view.counters.leases > before.leases && view.counters.fleet == before.fleet);
        let of = |node: &str| -> Vec<(u16, u64)> {
            view.seats[node].leases.iter().map(|(_, shard, at)| (shard.0, at.get())).collect()
        };
        assert_eq!((of("a"), of("b")), (vec![(0, 5), (1, 5), (2, 5)], vec![(3, 6)]));
        join(&rig.store, "a", 3).await;
        let view = rig.store.fleet_view().await.expect("answers");
        assert_eq!((view.seats["a"].process, view.seats["a"].leases.len()), (process(3), 0), "not yet");
        give(&rig.store, 0..1, None, 5).await;
        let shards = rig.store.shards().await.expect("answers");
        let owners: Vec<_> = shards.iter().map(|s| s.node.as_ref().map(|n| n.as_str())).collect();
        assert_eq!(owners, [None, Some("a"), Some("a"), Some("b")]);
    }

    async fn a_refusal_is_noted_of_the_holders_own_lease_only(rig) {
        join(&rig.store, "a", 1).await;
        give(&rig.store, 0..2, Some(holder("a", 1)), 5).await;
        for (who, shard, stored) in
            [(holder("a", 1), 0, 8), (holder("a", 1), 1, 4), (holder("b", 1), 1, 9), (holder("a", 2), 1, 9)]
        {
            let mut fleet = rig.store.begin_fleet().await.expect("begins");
            let refused = [(store_name("main"), Shard(shard), epoch(stored))];
            fleet.refuse(&who, &refused).await.expect("answers");
            fleet.commit().await.expect("committed");
        }
        let leases = rig.store.begin_fleet().await.expect("begins").leases().await.expect("answers");
        let mut stored: Vec<_> = leases.iter().map(|l| (l.shard.0, l.stored_epoch.get())).collect();
        stored.sort();
        assert_eq!(stored[..2], [(0, 8), (1, 0)]);
    }

    async fn confirmations_are_kept_unless_a_higher_epoch_was_heard(rig) {
        join(&rig.store, "a", 1).await;
        give(&rig.store, 0..2, Some(holder("a", 1)), 5).await;
        let confirm = |at, commit_seq, fell_from| {
            let confirmed = Confirmed { epoch: epoch(at), commit_seq, fell_from };
            let heard: BTreeMap<_, _> =
                (0..2).map(|shard| ((store_name("main"), Shard(shard)), confirmed)).collect();
            let store = rig.store.clone();
            async move { store.confirm(&heard).await.expect("kept") }
        };
        confirm(5, 100, 0).await;
        confirm(5, 90, 100).await;
        confirm(4, 7, 0).await;
        let known = rig.store.confirmed(&holder("a", 1)).await.expect("answers");
        assert_eq!(known.len(), 2);
        assert!(known.values().all(|c| *c == Confirmed { epoch: epoch(5), commit_seq: 90, fell_from: 100 }));
        assert!(rig.store.confirmed(&holder("b", 1)).await.expect("answers").is_empty());
        let shards = rig.store.shards().await.expect("answers");
        assert_eq!(shards.iter().map(|s| s.fell_from).collect::<Vec<_>>(), [100, 100, 0, 0]);
        give(&rig.store, 0..1, Some(holder("a", 1)), 6).await;
        let shards = rig.store.shards().await.expect("answers");
        assert_eq!(shards.iter().map(|s| s.fell_from).collect::<Vec<_>>(), [0, 100, 0, 0], "a new owner begins anew");
    }

    async fn endpoints_are_where_a_tenants_store_is_owned(rig) {
        let acme = TenantId::parse("acme").expect("a name");
        join(&rig.store, "b", 2).await;
        join(&rig.store, "a", 1).await;
        join(&rig.store, "c", 3).await;
        let placement = Placement {
            tenant: acme.clone(), store: store_name("main"), epoch: PlacementEpoch::new(1).expect("small"),
            updated_at: Millis(0),
        };
        rig.store.advance_placement(placement).await.expect("placed");
        assert!(rig.store.endpoints(&acme).await.expect("answers").is_empty());
        give(&rig.store, 0..3, Some(holder("b", 2)), 1).await;
        give(&rig.store, 3..4, Some(holder("a", 1)), 1).await;
        assert_eq!(rig.store.endpoints(&acme).await.expect("answers"), ["http://a:1", "http://b:1"]);
        join(&rig.store, "b", 9).await;
        assert_eq!(rig.store.endpoints(&acme).await.expect("answers"), ["http://a:1"], "the new b has none yet");
    }

    async fn nodes_that_own_nothing_are_forgotten_in_time(rig) {
        for (node, of) in [("left", 1), ("silent", 2), ("owner", 3), ("live", 4)] {
            join(&rig.store, node, of).await;
        }
        give(&rig.store, 0..1, Some(holder("owner", 3)), 1).await;
        rig.run("UPDATE nodes SET left_at = 1 WHERE node_id = 'left'").await;
        rig.run("UPDATE nodes SET seen_at = 1 WHERE node_id IN ('silent', 'owner')").await;
        let mut fleet = rig.store.begin_fleet().await.expect("begins");
        assert_eq!(fleet.forget().await.expect("answers"), 2);
        fleet.commit().await.expect("committed");
        let names: Vec<_> =
            rig.store.nodes().await.expect("answers").iter().map(|n| n.name.to_string()).collect();
        assert_eq!(names, ["live", "owner"]);
    }
}

#[tokio::test]
async fn the_lead_is_one_replicas_until_it_is_silent_or_leaves() {
    let rig = Rig::postgres().await;
    let ttl = Duration::from_millis(400);
    let campaign = |who: &'static str| {
        let store = rig.store.clone();
        async move { store.campaign(who, ttl, Millis(0)).await.expect("answers") }
    };
    let first = campaign("a").await.expect("free");
    assert_eq!(campaign("b").await, None);
    tokio::time::sleep(ttl / 2).await;
    assert_eq!(campaign("a").await, Some(first.clone()), "kept, it is one term");
    tokio::time::sleep(ttl * 2).await;
    let second = campaign("b").await.expect("the first is silent");
    assert!(second.epoch > first.epoch && second.since > first.since);
    assert_eq!(campaign("a").await, None);
    assert!(rig.store.begin_fleet_as(&first).await.expect("answers").is_none(), "its time has passed");
    assert!(rig.store.begin_fleet_as(&second).await.expect("answers").is_some());
    rig.store.resign("a").await.expect("answers");
    assert_eq!(campaign("a").await, None, "nobody resigns for another");
    rig.store.resign("b").await.expect("answers");
    let third = campaign("a").await.expect("free again");
    assert!(third.epoch > second.epoch);
}

#[tokio::test]
async fn a_file_is_led_by_whoever_has_it() {
    let rig = Rig::sqlite().await;
    let term = rig.store.campaign("a", Duration::ZERO, Millis(7)).await.expect("answers").expect("its own");
    assert_eq!(term.since, Millis(7));
    assert!(rig.store.begin_fleet_as(&term).await.expect("answers").is_some());
}

#[tokio::test]
async fn the_clock_of_each_database_is_in_milliseconds() {
    for rig in [Rig::sqlite().await, Rig::postgres().await] {
        let here = Millis::from(chrono::Utc::now());
        let there = rig.store.now().await.expect("answers");
        assert!(there.since(here) < 5_000 && here.since(there) < 5_000, "{there} is not {here}");
    }
}
