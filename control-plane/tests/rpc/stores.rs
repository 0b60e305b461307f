//! RegisterStore, ListStores.

use orch8_model::Reason;
use orch8_proto::v1::{ListStoresRequest, RegisterStoreRequest, StoreKind};

use super::rig::{ADMIN, OPERATOR, Rig, field, refused};

fn register(name: &str, kind: i32) -> RegisterStoreRequest {
    RegisterStoreRequest { name: name.to_owned(), kind }
}

#[tokio::test]
async fn a_store_is_registered_once_and_its_kind_stands() {
    let rig = Rig::start().await;
    let made = rig.register_store("east", StoreKind::Postgres).await;
    assert_eq!((made.name.as_str(), made.kind(), made.shard_count), ("east", StoreKind::Postgres, 0));
    let rig = rig.restart().await;
    assert_eq!(rig.register_store("east", StoreKind::Postgres).await, made, "repeatable");
    let other = register("east", StoreKind::Sqlite.into());
    let failure = refused(rig.placements(ADMIN).register_store(other).await);
    assert_eq!(failure.known(), Some(Reason::AlreadyExists));
    assert_eq!(failure.metadata["kind"], "postgres");
}

#[tokio::test]
async fn sixteen_at_once_register_one_store() {
    let rig = Rig::start().await;
    let calls = (0..16).map(|_| rig.register_store("race", StoreKind::Sqlite));
    let seen: Vec<_> = futures::future::join_all(calls).await;
    assert!(seen.iter().all(|store| *store == seen[0]));
}

#[tokio::test]
async fn a_hostile_field_is_named() {
    let rig = Rig::start().await;
    let mut client = rig.placements(ADMIN);
    for (bad, at) in [
        (register("", 1), "name"),
        (register("a b", 1), "name"),
        (register("postgres://user:secret@host/db", 1), "name"),
        (register("a\0", 1), "name"),
        (register(&"s".repeat(129), 1), "name"),
        (register("east", 0), "kind"),
        (register("east", 3), "kind"),
        (register("east", -1), "kind"),
    ] {
        assert_eq!(field(client.register_store(bad.clone()).await).1, at, "{bad:?}");
    }
}

#[tokio::test]
async fn stores_are_listed_by_name_page_by_page() {
    let rig = Rig::start().await;
    for n in 0..20 {
        rig.register_store(&format!("s-{n:02}"), StoreKind::Sqlite).await;
    }
    let mut client = rig.placements(OPERATOR);
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListStoresRequest { page_size: 7, page_token };
        let page = client.list_stores(request).await.expect("a page").into_inner();
        assert!(page.stores.len() <= 7);
        seen.extend(page.stores.into_iter().map(|store| store.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 21, "with the first one");
    assert!(seen.is_sorted());
    for (page_size, page_token, at) in [(-1, "", "page_size"), (1, "garbage", "page_token")] {
        let request = ListStoresRequest { page_size, page_token: page_token.into() };
        assert_eq!(field(client.list_stores(request).await).1, at);
    }
}
