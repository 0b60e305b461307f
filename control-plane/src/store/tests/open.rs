//! Opening, migrating, and being the only one.

use super::*;

on_both! {
    async fn a_newer_schema_is_refused_with_both_numbers(rig) {
        rig.run("UPDATE meta SET value = '7' WHERE key = 'schema'").await;
        let refused = rig.reopen().await.map(|_| ()).expect_err("newer");
        assert!(matches!(refused, ControlStoreError::NewerSchema { found: 7, known: 2 }));
        assert!(refused.to_string().contains("schema 7") && refused.to_string().contains("up to 2"));
    }

    async fn what_was_written_is_there_after_a_restart(rig) {
        rig.store.create_key(&key("a", 0, None, None)).await.expect("made");
        let before = rig.store.counters().await.expect("answers");
        let rig = rig.reopen().await.expect("opens");
        assert_eq!(rig.store.counters().await.expect("answers"), before);
        assert_eq!(rig.count("SELECT count(*) AS n FROM api_keys").await, 1);
    }

    async fn a_database_of_something_else_is_left_alone(rig) {
        rig.run("DROP TABLE placements").await;
        assert!(matches!(rig.reopen().await.map(|_| ()), Err(ControlStoreError::Foreign)));
    }

    async fn an_older_schema_is_brought_up_and_its_changes_keep_their_numbers(rig) {
        for sql in [
            "DROP TABLE counters", "DROP TABLE stores", "DROP TABLE nodes", "DROP TABLE shard_leases",
            "DROP TABLE confirmations", "DROP TABLE leader", "UPDATE meta SET value = '1' WHERE key = 'schema'",
            "INSERT INTO changes (seq, kind, key) VALUES (41, 'key', 'k')",
        ] {
            rig.run(sql).await;
        }
        let rig = rig.reopen().await.expect("opens");
        assert_eq!(rig.store.newest_change().await.expect("answers"), 41);
        rig.store.create_key(&key("a", 0, None, None)).await.expect("made");
        assert_eq!(rig.store.newest_change().await.expect("answers"), 42);
    }
}

#[tokio::test]
async fn eight_replicas_that_boot_at_once_make_one_schema() {
    let url = DatabaseUrl::parse(&orch8_test_postgres::database()).expect("an address");
    let opened = futures::future::join_all((0..8).map(|_| ControlStore::open(&url))).await;
    for store in opened {
        store.expect("opens").close().await;
    }
}

#[tokio::test]
async fn a_second_process_on_a_file_is_refused_until_the_first_has_closed() {
    let rig = Rig::sqlite().await;
    let refused = ControlStore::open(&rig.url).await.expect_err("in use");
    assert!(matches!(refused, ControlStoreError::InUse { .. }));
    assert!(refused.to_string().contains("control.db"));
    let still_held = rig.store.clone();
    rig.store.close().await;
    let next = ControlStore::open(&rig.url).await.expect("a closed store holds nothing");
    next.close().await;
    drop(still_held);
}

#[tokio::test]
async fn a_place_that_cannot_be_written_or_reached_is_named_without_its_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = DatabaseUrl::Sqlite(folder.path().join("missing").join("control.db"));
    let refused = ControlStore::open(&missing).await.expect_err("no folder");
    assert!(refused.to_string().contains("control.db"));
    let nobody = DatabaseUrl::parse("postgres://user:secret@127.0.0.1:1/orch8").expect("an address");
    let refused = ControlStore::open(&nobody).await.expect_err("nobody listens");
    assert_eq!(refused.to_string(), "postgres://127.0.0.1:1/orch8 cannot be reached");
    assert!(!format!("{refused:?}").contains("secret"));
}
