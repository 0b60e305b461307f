//! Leases and tenant fences.

use orch8_data_plane::store::{Fence, FenceMode, Lease, Raised, Store, StoreError, TurnAnswer};
use orch8_model::Shard;

use crate::ground::*;

crate::on_every_store! {
    a_lease_only_rises_and_tells_who_holds_it,
    a_shard_that_does_not_exist_is_an_error,
    a_stale_lease_writes_nothing_and_sees_nothing,
    a_lease_of_another_shard_does_not_cover_a_turn,
    a_commit_counts_in_the_lease_and_a_refused_one_does_not,
    a_draining_tenant_is_fenced_and_its_neighbour_commits,
    only_the_exact_placement_epoch_writes_and_reads,
    a_fence_only_rises_and_the_same_epoch_changes_its_mode,
    fences_are_listed_by_tenant_in_pages,
    commit_numbers_are_read_for_many_shards_at_once,
}

async fn a_lease_only_rises_and_tells_who_holds_it(store: &Store) {
    let shard = Shard(2);
    assert_eq!(store.lease(shard).await.expect("a lease").get(), 0);
    let won = store.raise(shard, &node("a"), lease_epoch(5)).await.expect("a raise");
    assert_eq!(won, Raised::Won { lease: Lease { shard, epoch: lease_epoch(5) }, commit_seq: 0 });
    for epoch in [0, 4, 5] {
        let stale = store.raise(shard, &node("b"), lease_epoch(epoch)).await.expect("a raise");
        assert_eq!(stale, Raised::Stale { held: lease_epoch(5), by: node("a") }, "{epoch}");
    }
    assert!(matches!(store.raise(shard, &node("b"), lease_epoch(6)).await, Ok(Raised::Won { .. })));
    assert_eq!(store.lease(shard).await.expect("a lease").get(), 6);
    assert_eq!(store.lease(Shard(1)).await.expect("a lease").get(), 0, "a neighbour is untouched");
}

async fn a_shard_that_does_not_exist_is_an_error(store: &Store) {
    let beyond = Shard(store.shards());
    let raised = store.raise(beyond, &node("a"), lease_epoch(1)).await;
    assert!(matches!(raised, Err(StoreError::Corrupt { table: "shard_leases", .. })), "{raised:?}");
    assert!(store.lease(beyond).await.is_err());
}

async fn a_stale_lease_writes_nothing_and_sees_nothing(store: &Store) {
    let acme = tenant(store, "acme").await;
    let old = leases(store, 1).await;
    let id = running(store, &acme, &old).await;
    let waiting = born(store, &acme).await;
    leases(store, 2).await;

    assert_eq!(commit(store, &old, vec![turn(store, &acme, id, 1)]).await, [TurnAnswer::Fenced]);
    assert_eq!(turn_count(store, &acme, id).await, 1);
    let lease = lease_of(store, &old, id);
    store.set_hot(lease, &[id], false).await.expect("an answer");
    assert!(store.hot(lease.shard, None, 10).await.expect("hot").contains(&id), "still hot");
    let lease = lease_of(store, &old, waiting);
    assert_eq!(store.claim(lease, NOW, 10, 10, &[], &[]).await.expect("a claim"), []);
    assert_eq!(store.ready_tenants(lease, NOW).await.expect("tenants"), []);
    assert_eq!(store.next_ready(lease, NOW.plus(-1)).await.expect("an instant"), None);
}

async fn a_lease_of_another_shard_does_not_cover_a_turn(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    let mine = lease_of(store, &leases, id);
    let other = leases.iter().copied().find(|lease| lease.shard != mine.shard).expect("several shards");
    let honest = turn(store, &acme, id, 1);
    let lying = orch8_data_plane::store::TurnWrite { shard: other.shard, ..honest.clone() };
    assert_eq!(commit(store, &[other], vec![honest.clone()]).await, [TurnAnswer::Fenced]);
    assert_eq!(commit(store, &[other], vec![lying]).await, [TurnAnswer::Fenced]);
    assert_eq!(commit(store, &[], vec![honest.clone()]).await, [TurnAnswer::Fenced]);
    assert_eq!(commit(store, &[mine], vec![honest]).await, [TurnAnswer::Done]);
}

async fn a_commit_counts_in_the_lease_and_a_refused_one_does_not(store: &Store) {
    let acme = tenant(store, "acme").await;
    let old = leases(store, 1).await;
    let id = running(store, &acme, &old).await;
    commit(store, &old, vec![turn(store, &acme, id, 1)]).await;
    let shard = lease_of(store, &old, id).shard;
    let Ok(Raised::Won { commit_seq, .. }) = store.raise(shard, &node("n2"), lease_epoch(2)).await else {
        panic!("the epoch is higher");
    };
    assert_eq!(commit_seq, 2);
    commit(store, &old, vec![turn(store, &acme, id, 2)]).await;
    let Ok(Raised::Won { commit_seq, .. }) = store.raise(shard, &node("n3"), lease_epoch(3)).await else {
        panic!("the epoch is higher");
    };
    assert_eq!(commit_seq, 2);
}

async fn a_draining_tenant_is_fenced_and_its_neighbour_commits(store: &Store) {
    let (acme, other) = (tenant(store, "acme").await, tenant(store, "other").await);
    let leases = leases(store, 1).await;
    let (mine, theirs) = (running(store, &acme, &leases).await, running(store, &other, &leases).await);
    let batch = |n| vec![turn(store, &acme, mine, n), turn(store, &other, theirs, n)];
    for (n, mode) in [(1, FenceMode::Draining), (2, FenceMode::Sealed)] {
        assert!(fence(store, "acme", 1, mode).await);
        let fenced = store.counters().fenced;
        assert_eq!(
            commit(store, &leases, batch(n)).await,
            [TurnAnswer::Fenced, TurnAnswer::Done],
            "{mode:?}"
        );
        assert_eq!(store.counters().fenced, fenced + 1);
        assert_eq!(turn_count(store, &acme, mine).await, 1);
    }
    assert!(fence(store, "acme", 1, FenceMode::Guest).await);
    let again = vec![turn(store, &acme, mine, 1)];
    assert_eq!(commit(store, &leases, again).await, [TurnAnswer::Done], "a guest writes");
}

async fn only_the_exact_placement_epoch_writes_and_reads(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    for epoch in [0, 2] {
        let handle = handle("acme", epoch);
        assert_eq!(commit(store, &leases, vec![turn(store, &handle, id, 1)]).await, [TurnAnswer::Fenced]);
        assert_eq!(store.start(&handle, vec![]).await.expect("an answer"), None);
        assert!(store.instance(&handle, id).await.expect("an answer").is_none());
        assert!(store.load_one(&handle, id).await.expect("an answer").is_none());
        assert!(store.turns(&handle, id, None, 9).await.expect("an answer").is_empty());
        assert!(
            store.list_instances(&handle, &Default::default(), None, 9).await.expect("an answer").is_empty()
        );
    }
    let foreign = tenant(store, "other").await;
    assert_eq!(commit(store, &leases, vec![turn(store, &foreign, id, 1)]).await, [TurnAnswer::Fenced]);
}

async fn a_fence_only_rises_and_the_same_epoch_changes_its_mode(store: &Store) {
    assert!(fence(store, "acme", 3, FenceMode::Active).await);
    assert!(fence(store, "acme", 3, FenceMode::Draining).await);
    assert!(!fence(store, "acme", 2, FenceMode::Active).await);
    assert!(fence(store, "acme", 4, FenceMode::Sealed).await);
    let fences = store.fences(None, 10).await.expect("fences");
    let sealed =
        Fence { tenant: tenant_id("acme"), placement: placement(4), mode: FenceMode::Sealed, weight: 1 };
    assert_eq!(fences, [sealed]);
}

async fn fences_are_listed_by_tenant_in_pages(store: &Store) {
    for name in ["c", "a", "é", "b", "e\u{301}"] {
        let weight = if name == "b" { u64::MAX } else { 0 };
        let fence =
            Fence { tenant: tenant_id(name), placement: placement(1), mode: FenceMode::Active, weight };
        assert!(store.set_fence(fence).await.expect("a fence"));
    }
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = store.fences(after, 2).await.expect("fences");
        let Some(last) = page.last() else { break };
        after = Some(last.tenant.clone());
        names.extend(page.iter().map(|f| (f.tenant.as_str().to_owned(), f.weight)));
    }
    let expected = [("a", 1), ("b", i64::MAX as u64), ("c", 1), ("e\u{301}", 1), ("é", 1)];
    assert_eq!(names, expected.map(|(name, weight)| (name.to_owned(), weight)));
    let one = store.fence(&tenant_id("é")).await.expect("an answer").expect("a fence");
    assert_eq!((one.tenant, one.placement, one.mode), (tenant_id("é"), placement(1), FenceMode::Active));
    assert_eq!(store.fence(&tenant_id("nobody")).await.expect("an answer"), None);
}

async fn commit_numbers_are_read_for_many_shards_at_once(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 3).await;
    let id = running(store, &acme, &leases).await;
    let mine = lease_of(store, &leases, id).shard;
    let all: Vec<Shard> = (0..store.shards() + 1).map(Shard).collect();
    let read = store.commit_seqs(&all).await.expect("a read");
    assert_eq!(read.len(), leases.len(), "a shard that does not exist has none");
    for (lease, (shard, epoch, commits)) in leases.iter().zip(&read) {
        assert_eq!((lease.shard, lease.epoch), (*shard, *epoch));
        assert_eq!(*commits, u64::from(*shard == mine));
    }
    assert_eq!(store.commit_seqs(&[mine]).await.expect("a read"), [(mine, lease_epoch(3), 1)]);
    assert_eq!(store.commit_seqs(&[]).await.expect("a read"), []);
}
