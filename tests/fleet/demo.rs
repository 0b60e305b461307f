//! The demo on a deployment of processes, as people run it.

use std::process::Command;

use crate::rig::ORCH8;

const LINE: &str = r#"{"completed":2000,"partial":74,"full":4,"lost":0,"double":0}"#;

/// The last line that a demo prints for scripts.
fn last_line(store: &str, more: &[&str]) -> String {
    let output = Command::new(ORCH8)
        .args(["demo", "--output", "json", "--store", store])
        .args(more)
        .output()
        .expect("the demo runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn two_thousand_flights_are_handled_exactly_by_processes_on_postgres() {
    assert_eq!(last_line(&orch8_test_postgres::database(), &[]), LINE);
}

#[test]
fn two_thousand_flights_are_handled_exactly_on_postgres_while_nodes_control_plane_and_worker_are_killed() {
    assert_eq!(last_line(&orch8_test_postgres::database(), &["--kill"]), LINE);
}

#[test]
fn two_thousand_flights_are_handled_exactly_on_sqlite_while_node_control_plane_and_worker_are_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("store.db").display());
    assert_eq!(last_line(&store, &["--kill"]), LINE);
}
