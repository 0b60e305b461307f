//! What waits for its first turn is dealt out per tenant.

use orch8_data_plane::store::{BirthRow, FenceMode, Lease, Store, TenantHandle};
use orch8_model::{InstanceId, TenantId};

use crate::ground::*;

crate::on_every_store! {
    each_tenant_gets_its_share_in_the_order_given,
    a_tenant_with_many_rows_does_not_hide_one_with_a_single_row,
    what_is_skipped_does_not_count,
    rows_that_are_not_due_never_stand_in_front,
    the_highest_priority_goes_first_then_the_earliest,
    a_tenant_that_may_not_be_written_is_not_claimed,
    one_shard_never_sees_anothers_rows,
}

async fn rows(store: &Store, tenant: &TenantHandle, lease: Lease, n: usize) -> Vec<InstanceId> {
    let ids: Vec<InstanceId> = (0..n).map(|_| id_in(store, lease.shard)).collect();
    start(store, tenant, ids.iter().copied().map(birth).collect()).await;
    ids
}

async fn claim(
    store: &Store,
    lease: Lease,
    (limit, per_tenant): (u32, u32),
    skip: &[InstanceId],
    tenants: &[TenantId],
) -> Vec<InstanceId> {
    let ready = store.claim(lease, NOW, limit, per_tenant, skip, tenants).await.expect("a claim");
    ready.into_iter().map(|r| r.instance).collect()
}

async fn each_tenant_gets_its_share_in_the_order_given(store: &Store) {
    let lease = leases(store, 1).await[0];
    let (a, b) = (tenant(store, "a").await, tenant(store, "b").await);
    let (of_a, of_b) = (rows(store, &a, lease, 5).await, rows(store, &b, lease, 5).await);
    let both = [b.tenant().clone(), a.tenant().clone()];
    assert_eq!(claim(store, lease, (9, 2), &[], &both).await, [&of_b[..2], &of_a[..2]].concat());
    assert_eq!(claim(store, lease, (3, 2), &[], &both).await, [&of_b[..2], &of_a[..1]].concat());
    assert_eq!(claim(store, lease, (9, 2), &[], &both[1..]).await, of_a[..2]);
    assert_eq!(claim(store, lease, (9, 2), &[], &[]).await, [&of_a[..2], &of_b[..2]].concat(), "all, by id");
    assert_eq!(claim(store, lease, (0, 2), &[], &both).await, []);
    assert_eq!(claim(store, lease, (2, 0), &[], &both).await, []);
    assert_eq!(claim(store, lease, (9, 2), &[], &[tenant_id("nobody")]).await, []);
}

async fn a_tenant_with_many_rows_does_not_hide_one_with_a_single_row(store: &Store) {
    let lease = leases(store, 1).await[0];
    let (big, small) = (tenant(store, "a-big").await, tenant(store, "z-small").await);
    rows(store, &big, lease, 2_000).await;
    let single = rows(store, &small, lease, 1).await;
    assert_eq!(
        store.ready_tenants(lease, NOW).await.expect("tenants"),
        [big.tenant().clone(), small.tenant().clone()]
    );
    let claimed = claim(store, lease, (256, 32), &[], &[]).await;
    assert_eq!(claimed.len(), 33);
    assert!(claimed.contains(&single[0]), "in the first claim");
}

async fn what_is_skipped_does_not_count(store: &Store) {
    let lease = leases(store, 1).await[0];
    let a = tenant(store, "a").await;
    let ids = rows(store, &a, lease, 900).await;
    assert_eq!(claim(store, lease, (9, 4), &ids[..700], &[]).await, ids[700..704]);
    assert_eq!(claim(store, lease, (9, 4), &ids[1..], &[]).await, ids[..1]);
    assert_eq!(claim(store, lease, (9, 4), &ids, &[]).await, []);
}

async fn rows_that_are_not_due_never_stand_in_front(store: &Store) {
    let lease = leases(store, 1).await[0];
    let a = tenant(store, "a").await;
    let later = |ms| BirthRow { priority: 3, fire_at: NOW.plus(ms), ..birth(id_in(store, lease.shard)) };
    start(store, &a, (1..500).map(later).collect()).await;
    assert_eq!(store.ready_tenants(lease, NOW).await.expect("tenants"), []);
    assert_eq!(store.next_ready(lease, NOW).await.expect("an instant"), Some(NOW.plus(1)));
    let due = rows(store, &a, lease, 1).await;
    assert_eq!(claim(store, lease, (9, 9), &[], &[]).await, due);
    assert_eq!(store.next_ready(lease, NOW.plus(498)).await.expect("an instant"), Some(NOW.plus(499)));
    assert_eq!(store.next_ready(lease, NOW.plus(499)).await.expect("an instant"), None);
}

async fn the_highest_priority_goes_first_then_the_earliest(store: &Store) {
    let lease = leases(store, 1).await[0];
    let a = tenant(store, "a").await;
    let mut births = Vec::new();
    for (priority, ms) in [(0, -9), (3, -1), (1, -5), (3, -2), (2, 0), (1, -6)] {
        births.push(BirthRow { priority, fire_at: NOW.plus(ms), ..birth(id_in(store, lease.shard)) });
    }
    let id = |n: usize| births[n].instance;
    let expected = [id(3), id(1), id(4), id(5), id(2), id(0)];
    start(store, &a, births.clone()).await;
    assert_eq!(claim(store, lease, (9, 9), &[], &[]).await, expected);
    assert_eq!(claim(store, lease, (3, 9), &[], &[]).await, expected[..3]);
}

async fn a_tenant_that_may_not_be_written_is_not_claimed(store: &Store) {
    let lease = leases(store, 1).await[0];
    let a = tenant(store, "a").await;
    let ids = rows(store, &a, lease, 1).await;
    fence(store, "a", 1, FenceMode::Draining).await;
    assert_eq!(claim(store, lease, (9, 9), &[], &[]).await, []);
    assert_eq!(claim(store, lease, (9, 9), &[], std::slice::from_ref(a.tenant())).await, []);
    assert_eq!(store.ready_tenants(lease, NOW).await.expect("tenants"), []);
    fence(store, "a", 1, FenceMode::Active).await;
    assert_eq!(claim(store, lease, (9, 9), &[], &[]).await, ids);
}

async fn one_shard_never_sees_anothers_rows(store: &Store) {
    let leases = leases(store, 1).await;
    let a = tenant(store, "a").await;
    let mut seen = Vec::new();
    for lease in &leases {
        let ids = rows(store, &a, *lease, 3).await;
        assert_eq!(claim(store, *lease, (9, 9), &[], &[]).await, ids);
        seen.extend(ids);
    }
    assert_eq!(seen.len(), 3 * leases.len());
}
