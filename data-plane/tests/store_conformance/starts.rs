//! Starts and their keys.

use std::collections::HashSet;

use orch8_data_plane::store::{FenceMode, Start, Started, Store, TenantHandle, TurnAnswer};
use orch8_model::InstanceId;

use crate::ground::*;

crate::on_every_store! {
    sixty_four_starts_with_one_key_start_once,
    a_key_is_one_tenants_and_outlives_its_instance,
    a_batch_with_another_body_stores_nothing,
    the_second_use_of_a_key_in_one_batch_meets_the_first,
    keys_are_compared_byte_for_byte,
    a_start_waits_until_its_turn_is_written,
    a_tenant_without_an_open_fence_starts_nothing,
    a_large_batch_is_answered_in_order,
}

fn keyed(id: InstanceId, name: &str, text: &str) -> Start {
    Start { birth: birth(id), once: Some((key(name), body(text))) }
}

async fn start_one(store: &Store, tenant: &TenantHandle, start: Start) -> Started {
    let mut started = store.start(tenant, vec![start]).await.expect("a start").expect("an open fence");
    started.pop().expect("one answer")
}

async fn exists(store: &Store, tenant: &TenantHandle, id: InstanceId) -> bool {
    store.instance(tenant, id).await.expect("a read").is_some()
}

async fn sixty_four_starts_with_one_key_start_once(store: &Store) {
    let acme = tenant(store, "acme").await;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (store, acme) = (store.clone(), acme.clone());
            let start = keyed(fresh_id(), "order-1", "same");
            tokio::spawn(async move { start_one(&store, &acme, start).await })
        })
        .collect();
    let (mut new, mut seen) = (0, HashSet::new());
    for task in tasks {
        match task.await.expect("no panic") {
            Started::New(id) => {
                new += 1;
                seen.insert(id);
            }
            Started::Deduplicated(id) => {
                seen.insert(id);
            }
            Started::Mismatch(id) => panic!("{id} has the same body"),
        }
    }
    assert_eq!((new, seen.len()), (1, 1));
    assert_eq!(store.list_instances(&acme, &Default::default(), None, 99).await.expect("a list").len(), 1);
}

async fn a_key_is_one_tenants_and_outlives_its_instance(store: &Store) {
    let (acme, other) = (tenant(store, "acme").await, tenant(store, "other").await);
    let leases = leases(store, 1).await;
    let id = fresh_id();
    assert_eq!(start_one(store, &acme, keyed(id, "k", "a")).await, Started::New(id));
    assert_eq!(start_one(store, &acme, keyed(fresh_id(), "k", "b")).await, Started::Mismatch(id));
    let theirs = fresh_id();
    assert_eq!(start_one(store, &other, keyed(theirs, "k", "b")).await, Started::New(theirs));
    assert_eq!(commit(store, &leases, vec![closing(store, &acme, id, 0)]).await, [TurnAnswer::Done]);
    assert_eq!(start_one(store, &acme, keyed(fresh_id(), "k", "a")).await, Started::Deduplicated(id));
}

async fn a_batch_with_another_body_stores_nothing(store: &Store) {
    let acme = tenant(store, "acme").await;
    let old = fresh_id();
    start_one(store, &acme, keyed(old, "k", "a")).await;
    let (a, b, c) = (fresh_id(), fresh_id(), fresh_id());
    let batch = vec![keyed(a, "n", "x"), keyed(b, "k", "other"), keyed(c, "k", "a")];
    let answers = store.start(&acme, batch).await.expect("a start");
    assert_eq!(answers, Some(vec![Started::New(a), Started::Mismatch(old), Started::Deduplicated(old)]));
    assert!(!exists(store, &acme, a).await, "all or nothing");
    assert_eq!(start_one(store, &acme, keyed(b, "n", "y")).await, Started::New(b), "its key is free");
}

async fn the_second_use_of_a_key_in_one_batch_meets_the_first(store: &Store) {
    let acme = tenant(store, "acme").await;
    let (a, b) = (fresh_id(), fresh_id());
    let answers = store.start(&acme, vec![keyed(a, "k", "x"), keyed(b, "k", "x")]).await.expect("a start");
    assert_eq!(answers, Some(vec![Started::New(a), Started::Deduplicated(a)]));
    assert!(exists(store, &acme, a).await && !exists(store, &acme, b).await);
    let (c, d) = (fresh_id(), fresh_id());
    let answers = store.start(&acme, vec![keyed(c, "l", "x"), keyed(d, "l", "y")]).await.expect("a start");
    assert_eq!(answers, Some(vec![Started::New(c), Started::Mismatch(c)]));
    assert!(!exists(store, &acme, c).await);
}

async fn keys_are_compared_byte_for_byte(store: &Store) {
    let long: String = "𝒳".repeat(64);
    assert_eq!(long.len(), 256);
    let names =
        ["é", "e\u{301}", "a", "A", "a ", "\u{202e}a", "a\u{200b}", "../a", "a%2f", "東京", long.as_str()];
    // The same texts as tenants and as keys, each on its own.
    for tenant_name in names {
        let handle = tenant(store, tenant_name).await;
        let mut ids = HashSet::new();
        for name in names {
            let id = fresh_id();
            assert_eq!(start_one(store, &handle, keyed(id, name, "x")).await, Started::New(id), "{name:?}");
            ids.insert(id);
        }
        assert_eq!(ids.len(), names.len());
        let first = start_one(store, &handle, keyed(fresh_id(), "é", "x")).await;
        assert!(matches!(first, Started::Deduplicated(id) if ids.contains(&id)));
    }
}

async fn a_start_waits_until_its_turn_is_written(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = born(store, &acme).await;
    let lease = lease_of(store, &leases, id);
    for _ in 0..2 {
        let ready = store.claim(lease, NOW, 9, 9, &[], &[]).await.expect("a claim");
        assert_eq!(ready.iter().map(|r| (r.instance, &r.tenant)).collect::<Vec<_>>(), [(id, acme.tenant())]);
    }
    let row = store.instance(&acme, id).await.expect("a read").expect("an instance");
    assert_eq!(row.birth, birth(id));
    assert_eq!((row.status, row.closed_at, row.error), (orch8_engine::Status::Scheduled, None, None));
}

async fn a_tenant_without_an_open_fence_starts_nothing(store: &Store) {
    let unknown = handle("nobody", 1);
    assert_eq!(store.start(&unknown, vec![keyed(fresh_id(), "k", "x")]).await.expect("an answer"), None);
    let acme = tenant(store, "acme").await;
    for mode in [FenceMode::Draining, FenceMode::Sealed] {
        fence(store, "acme", 1, mode).await;
        let id = fresh_id();
        assert_eq!(store.start(&acme, vec![keyed(id, "k", "x")]).await.expect("an answer"), None);
        assert!(!exists(store, &acme, id).await);
    }
}

async fn a_large_batch_is_answered_in_order(store: &Store) {
    let acme = tenant(store, "acme").await;
    let ids: Vec<InstanceId> = (0..1_000).map(|_| fresh_id()).collect();
    let batch = || ids.iter().map(|id| keyed(*id, &id.to_string(), "x")).collect::<Vec<_>>();
    let first = store.start(&acme, batch()).await.expect("a start").expect("open");
    assert_eq!(first, ids.iter().map(|id| Started::New(*id)).collect::<Vec<_>>());
    let again = store.start(&acme, batch()).await.expect("a start").expect("open");
    assert_eq!(again, ids.iter().map(|id| Started::Deduplicated(*id)).collect::<Vec<_>>());
}
