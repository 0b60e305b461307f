//! Lists of instances: newest first, nothing twice, nothing lost.

use std::collections::HashSet;

use orch8_data_plane::store::{
    BirthRow, Closing, InstanceFilter, NewSequence, PageAfter, Store, TenantHandle, TurnAnswer, TurnWrite,
};
use orch8_engine::Status;
use orch8_model::{InstanceId, Namespace, SequenceId, SequenceName};
use orch8_seal::sha256;
use uuid::Uuid;

use crate::ground::*;

crate::on_every_store! {
    a_thousand_instances_of_one_instant_are_paged_while_more_arrive,
    each_status_lists_what_has_it,
    filters_narrow_a_list,
    a_list_never_shows_another_tenants_rows,
}

async fn page(
    store: &Store,
    tenant: &TenantHandle,
    filter: &InstanceFilter,
    after: Option<PageAfter>,
    limit: u32,
) -> Vec<InstanceId> {
    let rows = store.list_instances(tenant, filter, after, limit).await.expect("a list");
    assert!(
        rows.is_sorted_by(
            |a, b| (a.birth.created_at, a.birth.instance) > (b.birth.created_at, b.birth.instance)
        )
    );
    rows.into_iter().map(|row| row.birth.instance).collect()
}

async fn a_thousand_instances_of_one_instant_are_paged_while_more_arrive(store: &Store) {
    let acme = tenant(store, "acme").await;
    let ids: Vec<InstanceId> = (0..1_000).map(|_| fresh_id()).collect();
    start(store, &acme, ids.iter().copied().map(birth).collect()).await;
    for statuses in [vec![], vec![Status::Scheduled], vec![Status::Completed, Status::Scheduled]] {
        let filter = InstanceFilter { statuses, ..InstanceFilter::default() };
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = page(store, &acme, &filter, after, 7).await;
            let Some(last) = page.last() else { break };
            after = Some(PageAfter { created_at: NOW, id: *last });
            seen.extend(page);
            pages += 1;
            if pages % 3 == 0 {
                // At the same instant, and newer in id: before what has been read.
                born(store, &acme).await;
            }
        }
        let unique: HashSet<InstanceId> = seen.iter().copied().collect();
        assert_eq!(unique.len(), seen.len(), "none twice");
        assert!(ids.iter().all(|id| unique.contains(id)), "none lost");
    }
}

async fn each_status_lists_what_has_it(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let all = [
        Status::Scheduled,
        Status::Running,
        Status::Waiting,
        Status::Paused,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];
    let mut expected: Vec<(Status, InstanceId)> = Vec::new();
    for status in all.into_iter().chain(all) {
        let id = born(store, &acme).await;
        let closing = status.is_terminal().then_some(Closing { closed_at: NOW, error: None });
        let turn = TurnWrite { status: Some(status), closing, ready: true, ..turn(store, &acme, id, 0) };
        assert_eq!(commit(store, &leases, vec![turn]).await, [TurnAnswer::Done]);
        expected.insert(0, (status, id));
    }
    // Every set of statuses, in pages of three.
    for set in 0_u32..1 << all.len() {
        let statuses: Vec<Status> =
            all.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1).map(|(_, s)| *s).collect();
        let want: Vec<InstanceId> = expected
            .iter()
            .filter(|(status, _)| statuses.is_empty() || statuses.contains(status))
            .map(|(_, id)| *id)
            .collect();
        let twice = [statuses.clone(), statuses].concat();
        let filter = InstanceFilter { statuses: twice, ..InstanceFilter::default() };
        let first = page(store, &acme, &filter, None, 3).await;
        assert_eq!(first, want[..want.len().min(3)], "{filter:?}");
        if let Some(last) = first.last() {
            let after = Some(PageAfter { created_at: NOW, id: *last });
            assert_eq!(page(store, &acme, &filter, after, 99).await, want[first.len()..], "{filter:?}");
        }
    }
}

async fn filters_narrow_a_list(store: &Store) {
    let acme = tenant(store, "acme").await;
    let name = SequenceName::parse("ordér").expect("a name");
    let mut ids = Vec::new();
    for (n, namespace) in ["default", "ops", "default"].into_iter().enumerate() {
        let sequence = SequenceId(Uuid::from_u128(n as u128));
        let new = NewSequence {
            id: None,
            fresh_id: sequence,
            namespace: Namespace::parse(namespace).expect("a name"),
            name: if n < 2 { name.clone() } else { SequenceName::parse("other").expect("a name") },
            version: None,
            deprecated: false,
            sha256: sha256(b"x"),
            document: b"x".to_vec(),
            created_at: NOW,
        };
        let namespace = new.namespace.clone();
        store.publish(&acme, new).await.expect("a publish").expect("open");
        let id = fresh_id();
        let created_at = NOW.plus(n as i64);
        start(
            store,
            &acme,
            vec![BirthRow { sequence, namespace, created_at, fire_at: created_at, ..birth(id) }],
        )
        .await;
        ids.push(id);
    }
    let any = InstanceFilter::default;
    let table: [(InstanceFilter, &[usize]); 9] = [
        (InstanceFilter { namespace: Namespace::parse("ops").ok(), ..any() }, &[1]),
        (InstanceFilter { namespace: Namespace::parse("none").ok(), ..any() }, &[]),
        (InstanceFilter { sequence: Some(SequenceId(Uuid::from_u128(2))), ..any() }, &[2]),
        (InstanceFilter { sequence_name: Some(name.clone()), ..any() }, &[1, 0]),
        (InstanceFilter { sequence_name: SequenceName::parse("orde\u{301}r").ok(), ..any() }, &[]),
        (InstanceFilter { created_after: Some(NOW), ..any() }, &[2, 1]),
        (InstanceFilter { created_before: Some(NOW.plus(2)), ..any() }, &[1, 0]),
        (InstanceFilter { created_before: Some(NOW), ..any() }, &[]),
        (
            InstanceFilter {
                statuses: vec![Status::Scheduled],
                namespace: Namespace::parse("default").ok(),
                created_after: Some(NOW.plus(-1)),
                ..any()
            },
            &[2, 0],
        ),
    ];
    for (filter, expected) in table {
        let expected: Vec<InstanceId> = expected.iter().map(|n| ids[*n]).collect();
        assert_eq!(page(store, &acme, &filter, None, 9).await, expected, "{filter:?}");
    }
    let (before, after) = (
        InstanceFilter { created_before: Some(NOW.plus(2)), ..any() },
        PageAfter { created_at: NOW.plus(1), id: ids[1] },
    );
    assert_eq!(
        page(store, &acme, &before, Some(after), 9).await,
        ids[..1],
        "the page's end is the nearer one"
    );
}

async fn a_list_never_shows_another_tenants_rows(store: &Store) {
    let (acme, other) = (tenant(store, "acme").await, tenant(store, "other").await);
    let (mine, theirs) = (born(store, &acme).await, born(store, &other).await);
    // A cursor made of a foreign row is only a place in the order.
    for after in [None, Some(PageAfter { created_at: NOW, id: theirs })] {
        let seen = page(store, &acme, &InstanceFilter::default(), after, u32::MAX).await;
        assert_eq!(seen, [mine], "{after:?}");
    }
    assert_eq!(page(store, &acme, &InstanceFilter::default(), None, 0).await, []);
}
