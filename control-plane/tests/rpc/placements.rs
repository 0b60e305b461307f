//! SetPlacement, GetPlacement, ListPlacements.

use orch8_model::Reason;
use orch8_proto::v1::{GetPlacementRequest, ListPlacementsRequest, Placement, SetPlacementRequest, StoreKind};

use super::rig::{ADMIN, OPERATOR, Rig, field, refused};

fn set(tenant: &str, store: &str, epoch: u64) -> SetPlacementRequest {
    SetPlacementRequest { tenant_id: tenant.to_owned(), store: store.to_owned(), epoch }
}

async fn stored(rig: &Rig, tenant: &str) -> Placement {
    let request = GetPlacementRequest { tenant_id: tenant.to_owned() };
    let found = rig.placements(OPERATOR).get_placement(request).await.expect("placed");
    found.into_inner().placement.expect("a placement")
}

#[tokio::test]
async fn an_epoch_only_rises() {
    let rig = Rig::start().await;
    rig.register_store("east", StoreKind::Postgres).await;
    rig.register_store("west", StoreKind::Postgres).await;
    let mut client = rig.placements(ADMIN);
    client.set_placement(set("acme", "east", 7)).await.expect("higher");
    for epoch in [7, 6, 1] {
        let failure = refused(client.set_placement(set("acme", "west", epoch)).await);
        assert_eq!(failure.known(), Some(Reason::VersionConflict), "{epoch}");
        assert_eq!(failure.metadata["stored_epoch"], "7");
    }
    let rig = rig.restart().await;
    let placement = stored(&rig, "acme").await;
    assert_eq!((placement.store.as_str(), placement.epoch), ("east", 7));
    rig.placements(ADMIN).set_placement(set("acme", "west", i64::MAX as u64)).await.expect("the last one");
}

#[tokio::test]
async fn of_many_writers_at_one_epoch_exactly_one_wins() {
    let rig = Rig::start().await;
    for n in 0..16 {
        rig.register_store(&format!("s{n}"), StoreKind::Sqlite).await;
    }
    let calls = (0..16).map(|n| {
        let mut client = rig.placements(ADMIN);
        async move { client.set_placement(set("acme", &format!("s{n}"), 2)).await }
    });
    let answers = futures::future::join_all(calls).await;
    let winners: Vec<_> = answers.iter().filter_map(|a| a.as_ref().ok()).collect();
    assert_eq!(winners.len(), 1);
    let won = winners[0].get_ref().placement.clone().expect("a placement");
    assert_eq!(stored(&rig, "acme").await, won);
}

#[tokio::test]
async fn a_hostile_field_is_named() {
    let rig = Rig::start().await;
    let mut client = rig.placements(ADMIN);
    for (bad, at) in [
        (set("", "east", 2), "tenant_id"),
        (set("a\0", "east", 2), "tenant_id"),
        (set("acme", "", 2), "store"),
        (set("acme", "postgres://user:secret@host/db", 2), "store"),
        (set("acme", "a\0b", 2), "store"),
        (set("acme", &"s".repeat(129), 2), "store"),
        (set("acme", "east", 0), "epoch"),
        (set("acme", "east", u64::MAX), "epoch"),
    ] {
        assert_eq!(field(client.set_placement(bad.clone()).await).1, at, "{bad:?}");
    }
    let nobody = refused(client.set_placement(set("nobody", "east", 1)).await);
    assert_eq!(nobody.known(), Some(Reason::NotFound));
}

#[tokio::test]
async fn a_store_that_nobody_registered_is_refused_with_what_to_type() {
    let rig = Rig::start().await;
    let failure = refused(rig.placements(ADMIN).set_placement(set("acme", "east", 2)).await);
    assert_eq!(failure.known(), Some(Reason::StoreUnsupported));
    assert_eq!(failure.metadata["store"], "east");
    assert!(failure.message.contains("orch8 store register east"), "{failure}");
    assert_eq!(stored(&rig, "acme").await.store, "main", "nothing was moved");
    rig.register_store("east", StoreKind::Postgres).await;
    rig.placements(ADMIN).set_placement(set("acme", "east", 2)).await.expect("now it is known");
}

#[tokio::test]
async fn a_tenant_without_a_placement_and_no_tenant_answer_the_same_bytes() {
    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    let ask = |id: &str| {
        let mut client = rig.placements(OPERATOR);
        let request = GetPlacementRequest { tenant_id: id.to_owned() };
        async move { client.get_placement(request).await.expect_err("not placed") }
    };
    let (unplaced, missing) = (ask("globex").await, ask("nobody").await);
    assert_eq!(
        (unplaced.code(), unplaced.message(), unplaced.details()),
        (missing.code(), missing.message(), missing.details())
    );
    assert_eq!(refused::<()>(Err(unplaced)).known(), Some(Reason::TenantNotPlaced));
}

#[tokio::test]
async fn placements_are_listed_page_by_page() {
    let rig = Rig::start().await;
    let mut client = rig.placements(ADMIN);
    rig.register_store("east", StoreKind::Postgres).await;
    for n in 0..20 {
        let tenant = format!("t-{n:02}");
        rig.create_tenant(&tenant).await;
        client.set_placement(set(&tenant, "east", 1)).await.expect("placed");
    }
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListPlacementsRequest { page_size: 7, page_token };
        let page = client.list_placements(request).await.expect("a page").into_inner();
        seen.extend(page.placements.into_iter().map(|p| p.tenant_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 21);
    assert!(seen.is_sorted());
    let negative = ListPlacementsRequest { page_size: i32::MIN, page_token: String::new() };
    assert_eq!(field(client.list_placements(negative).await).1, "page_size");
}
