//! Opening a Postgres database: once, by whoever comes first, and only if it is ours.

use orch8_data_plane::store::{Store, StoreError};

use crate::ground::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_open_an_empty_database_one_makes_the_store() {
    let url = orch8_test_postgres::database();
    let openers: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { node_of(&url).await })
        })
        .collect();
    let mut ids = Vec::new();
    for opener in openers {
        let Store::Postgres(store) = opener.await.expect("no panic") else { panic!("it is Postgres") };
        ids.push(store.id().to_owned());
        store.close().await;
    }
    assert_eq!(ids[0].len(), 36, "{ids:?}");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let mut conn = behind(&url).await;
    let today = "SELECT count(*) FROM pg_class WHERE relname ~ '^(instances|listed|births|journal|snapshots)_[0-9]+$' AND relispartition";
    assert_eq!(number(&mut conn, today).await, 20, "today and three days ahead");
}

#[tokio::test]
async fn what_is_not_ours_or_newer_than_we_are_is_refused_with_its_reason() {
    for (made_by, statements, expected) in [
        (
            "us, later",
            "UPDATE meta SET value = '99' WHERE key = 'schema'",
            "the store has schema 99, this binary knows up to 1: use a newer orch8",
        ),
        (
            "us, otherwise",
            "UPDATE meta SET value = 'x' WHERE key = 'schema.1.sha256'",
            "schema 1 of the store is not the one this binary knows: use the orch8 that made it",
        ),
        (
            "another room",
            "UPDATE meta SET value = 'control' WHERE key = 'room'",
            "the database cannot be a store: it holds tables of something else, such as \"births\"",
        ),
    ] {
        let (store, url) = postgres().await;
        store.close().await;
        sql(&mut behind(&url).await, statements).await;
        let refused = Store::open(&address(&url)).await.expect_err(made_by);
        assert_eq!(refused.to_string(), expected, "{made_by}");
    }
    for foreign in [
        "CREATE TABLE users (id int)",
        "CREATE TABLE meta (key text, value text)",
        "CREATE TABLE meta (x int)",
    ] {
        let url = orch8_test_postgres::database();
        sql(&mut behind(&url).await, foreign).await;
        let refused = Store::open(&address(&url)).await.expect_err(foreign);
        assert!(matches!(refused, StoreError::Unfit { .. }), "{foreign}: {refused:?}");
        let mut conn = behind(&url).await;
        let tables =
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'";
        assert_eq!(number(&mut conn, tables).await, 1, "it was left as it is");
    }
}

#[tokio::test]
async fn an_encoding_that_cannot_hold_every_text_is_refused() {
    let url = orch8_test_postgres::database();
    let database = format!("{}_ascii", url.rsplit('/').next().expect("a name"));
    let make = format!("CREATE DATABASE {database} ENCODING 'SQL_ASCII' TEMPLATE template0");
    sql(&mut behind(&url).await, &make).await;
    let refused = Store::open(&address(&orch8_test_postgres::shared().url(&database))).await;
    assert_eq!(
        refused.expect_err("ASCII").to_string(),
        "the database cannot be a store: its encoding is not UTF8"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_without_the_password() {
    let refused =
        Store::open(&address("postgres://u:geheim@127.0.0.1:1/x")).await.expect_err("nobody listens");
    assert!(matches!(refused, StoreError::Database { .. }));
    assert!(!format!("{refused} {refused:?}").contains("geheim"));
}

#[tokio::test]
async fn a_corrupt_row_of_postgres_names_table_column_and_key() {
    let (store, url) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let id = born(&store, &acme).await;
    sql(&mut behind(&url).await, "UPDATE instances SET namespace = chr(7)").await;
    let error = store.instance(&acme, id).await.expect_err("corrupt");
    let expected = format!("corrupt row in instances, column namespace, key {}", id.0.simple());
    assert_eq!(error.to_string(), expected);
    store.close().await;
}

#[tokio::test]
async fn texts_with_a_zero_byte_are_stored_where_they_may_occur() {
    use orch8_data_plane::store::Sent;
    use orch8_engine::SignalKind;
    let (store, _) = postgres().await;
    let acme = tenant(&store, "acme").await;
    let id = born(&store, &acme).await;
    let kind = SignalKind::Cancel { reason: "a\0b".to_owned() };
    let sent = store.send(&acme, message(id, "s", kind.clone())).await.expect("a send");
    assert_eq!(sent, Some(Sent::Stored));
    assert_eq!(store.mail_of(id).await.expect("mail")[0].body.kind, kind);
    store.close().await;
}
