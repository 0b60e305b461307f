//! Published versions.

use orch8_data_plane::store::{FenceMode, NewSequence, SequencePublished, SequenceRow, Store, TenantHandle};
use orch8_model::{Namespace, SequenceId, SequenceName};
use orch8_seal::sha256;
use uuid::Uuid;

use crate::ground::*;

crate::on_every_store! {
    versions_are_numbered_and_an_unchanged_one_is_told,
    what_is_taken_stays_taken,
    the_last_version_number_is_the_last,
    concurrent_publishers_get_different_versions,
    a_document_is_read_back_byte_for_byte,
    the_newest_that_is_not_deprecated_answers_for_a_name,
    sequences_are_listed_in_pages_by_name_and_version,
    a_tenant_without_an_open_fence_publishes_nothing,
}

fn namespace(text: &str) -> Namespace {
    Namespace::parse(text).expect("a namespace")
}

fn name(text: &str) -> SequenceName {
    SequenceName::parse(text).expect("a name")
}

fn new(name_: &str, version: Option<i32>, document: &str) -> NewSequence {
    NewSequence {
        id: None,
        fresh_id: SequenceId(fresh_id().0),
        namespace: Namespace::default_namespace(),
        name: name(name_),
        version,
        deprecated: false,
        sha256: sha256(document.as_bytes()),
        document: document.as_bytes().to_vec(),
        created_at: NOW,
    }
}

async fn publish(store: &Store, tenant: &TenantHandle, new: NewSequence) -> SequencePublished {
    store.publish(tenant, new).await.expect("a publish").expect("an open fence")
}

async fn versions_are_numbered_and_an_unchanged_one_is_told(store: &Store) {
    let acme = tenant(store, "acme").await;
    let first = new("order", None, "a");
    let id = first.fresh_id;
    assert_eq!(publish(store, &acme, first).await, SequencePublished::New { id, version: 1 });
    let same = publish(store, &acme, new("order", None, "a")).await;
    assert_eq!(same, SequencePublished::Unchanged { id, version: 1 });
    let second = new("order", None, "b");
    let id = second.fresh_id;
    assert_eq!(publish(store, &acme, second).await, SequencePublished::New { id, version: 2 });
    let old_again = publish(store, &acme, new("order", None, "a")).await;
    assert!(matches!(old_again, SequencePublished::New { version: 3, .. }), "only the newest counts");
    let far = publish(store, &acme, new("order", Some(9), "c")).await;
    assert!(matches!(far, SequencePublished::New { version: 9, .. }));
    let next = publish(store, &acme, new("order", None, "d")).await;
    assert!(matches!(next, SequencePublished::New { version: 10, .. }));
    let other =
        publish(store, &acme, NewSequence { namespace: namespace("ops"), ..new("order", None, "d") }).await;
    assert!(matches!(other, SequencePublished::New { version: 1, .. }));
}

async fn what_is_taken_stays_taken(store: &Store) {
    let (acme, other) = (tenant(store, "acme").await, tenant(store, "other").await);
    let chosen = SequenceId(Uuid::from_u128(77));
    let first = NewSequence { id: Some(chosen), ..new("order", Some(1), "a") };
    assert_eq!(publish(store, &acme, first.clone()).await, SequencePublished::New { id: chosen, version: 1 });
    for (document, identical) in [("a", true), ("b", false)] {
        let same_version = publish(store, &acme, new("order", Some(1), document)).await;
        assert_eq!(same_version, SequencePublished::Taken { id: chosen, identical });
        let same_id = NewSequence { id: Some(chosen), ..new("elsewhere", Some(5), document) };
        assert_eq!(publish(store, &acme, same_id).await, SequencePublished::Taken { id: chosen, identical });
    }
    // Another tenant neither sees nor meets it.
    assert!(store.sequence(&other, chosen).await.expect("a read").is_none());
    assert_eq!(publish(store, &other, first).await, SequencePublished::New { id: chosen, version: 1 });
}

async fn the_last_version_number_is_the_last(store: &Store) {
    let acme = tenant(store, "acme").await;
    let last = publish(store, &acme, new("order", Some(i32::MAX), "a")).await;
    assert!(matches!(last, SequencePublished::New { version: i32::MAX, .. }));
    assert_eq!(publish(store, &acme, new("order", None, "b")).await, SequencePublished::NoVersionLeft);
}

async fn concurrent_publishers_get_different_versions(store: &Store) {
    let acme = tenant(store, "acme").await;
    let tasks: Vec<_> = (0..32)
        .map(|n| {
            let (store, acme) = (store.clone(), acme.clone());
            tokio::spawn(async move { publish(&store, &acme, new("order", None, &n.to_string())).await })
        })
        .collect();
    let mut versions = Vec::new();
    for task in tasks {
        match task.await.expect("no panic") {
            SequencePublished::New { version, .. } => versions.push(version),
            other => panic!("{other:?}"),
        }
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=32).collect::<Vec<_>>());
}

async fn a_document_is_read_back_byte_for_byte(store: &Store) {
    let acme = tenant(store, "acme").await;
    let document = b"{ \"name\" : \"\xc3\xa9\",\r\n\t\"x\":1.0,\"nul\":\"\\u0000\" }\n\0".to_vec();
    let published = NewSequence { document: document.clone(), ..new("order", None, "x") };
    let SequencePublished::New { id, version } = publish(store, &acme, published.clone()).await else {
        panic!("it is new");
    };
    let row = store.sequence(&acme, id).await.expect("a read").expect("a sequence");
    let expected = SequenceRow {
        id,
        namespace: published.namespace,
        name: published.name,
        version,
        deprecated: false,
        sha256: published.sha256,
        document,
        created_at: NOW,
    };
    assert_eq!(row, expected);
    let named = store.sequence_named(&acme, &row.namespace, &row.name, Some(1)).await.expect("a read");
    assert_eq!(named, Some(row));
}

async fn the_newest_that_is_not_deprecated_answers_for_a_name(store: &Store) {
    let acme = tenant(store, "acme").await;
    let ask = async |version| {
        let row = store.sequence_named(&acme, &namespace("default"), &name("order"), version).await;
        row.expect("a read").map(|row| row.version)
    };
    assert_eq!(ask(None).await, None);
    for (version, deprecated) in [(1, false), (2, false), (3, true)] {
        publish(store, &acme, NewSequence { deprecated, ..new("order", Some(version), "x") }).await;
    }
    assert_eq!((ask(None).await, ask(Some(3)).await, ask(Some(4)).await), (Some(2), Some(3), None));
}

async fn sequences_are_listed_in_pages_by_name_and_version(store: &Store) {
    let (acme, other) = (tenant(store, "acme").await, tenant(store, "other").await);
    publish(store, &other, new("a", None, "x")).await;
    let mut expected = Vec::new();
    for space in ["a", "b", "é"] {
        for text in ["e\u{301}", "x", "é"] {
            for version in [3, 2, 1] {
                let deprecated = text == "x" && version == 2;
                let entry = NewSequence {
                    namespace: namespace(space),
                    deprecated,
                    ..new(text, Some(version), &format!("{space}{text}{version}"))
                };
                publish(store, &acme, entry).await;
                if !deprecated {
                    expected.push((space.to_owned(), text.to_owned(), version));
                }
            }
        }
    }
    for limit in [1, 2, 5, 99] {
        for only in [None, Some("a"), Some("b"), Some("é"), Some("none")] {
            let want: Vec<_> =
                expected.iter().filter(|e| only.is_none_or(|only| e.0 == only)).cloned().collect();
            let only = only.map(namespace);
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = store.list_sequences(&acme, only.as_ref(), after, limit).await.expect("a list");
                assert!(page.len() <= limit as usize && page.iter().all(|row| row.document.is_empty()));
                let Some(last) = page.last() else { break };
                after = Some((last.namespace.clone(), last.name.clone(), last.version));
                seen.extend(page.iter().map(|r| (r.namespace.to_string(), r.name.to_string(), r.version)));
            }
            assert_eq!(seen, want, "pages of {limit}, {only:?}");
        }
    }
    // A cursor from another namespace is only a place in the order.
    for (cursor, want) in [("a", 8), ("é", 0)] {
        let after = Some((namespace(cursor), name("zz"), 1));
        let page = store.list_sequences(&acme, Some(&namespace("b")), after, 99).await.expect("a list");
        assert_eq!(page.len(), want, "{cursor}");
    }
}

async fn a_tenant_without_an_open_fence_publishes_nothing(store: &Store) {
    let acme = tenant(store, "acme").await;
    fence(store, "acme", 1, FenceMode::Draining).await;
    assert_eq!(store.publish(&acme, new("order", None, "x")).await.expect("an answer"), None);
    let found = store.list_sequences(&acme, None, None, 9).await.expect("a list");
    assert_eq!(found, []);
}
