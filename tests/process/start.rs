//! What a server does not start with.

use std::fs;

use serde_json::Value;

use crate::server::{orch8, run};

#[test]
fn everything_that_is_wrong_is_said_before_a_port_is_opened() {
    let output = run(&[
        "--output",
        "json",
        "data-plane",
        "--listen",
        "0.0.0.0:0",
        "--drain",
        "soon",
        "--set",
        "nod=x",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let said: Value = serde_json::from_slice(&output.stderr).expect("one line of JSON");
    let keys: Vec<&str> = said["error"]["fields"]
        .as_array()
        .expect("fields")
        .iter()
        .filter_map(|f| f["field"].as_str())
        .collect();
    let expected =
        ["--set nod", "node", "--drain", "--listen", "advertise", "control_plane", "key", "stores"];
    assert_eq!(keys, expected);
    assert_eq!(said["error"]["reason"], "CONFIG");
}

#[test]
fn plain_text_off_loopback_is_refused_with_one_clear_line() {
    let output = run(&["control-plane", "--listen", "0.0.0.0:0", "--set", "database=sqlite:unused.db"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("0.0.0.0:0")).collect();
    let [line] = lines.as_slice() else { panic!("{said}") };
    for word in ["--listen", "tls.certificate", "--plaintext"] {
        assert!(line.contains(word), "{line}");
    }
    assert!(!fs::exists("unused.db").expect("a folder"), "no database was made");
}

#[test]
fn a_port_that_is_taken_is_told_as_such() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("database=sqlite:{}", folder.path().join("c.db").display());
    let output = run(&["control-plane", "--listen", &listen, "--set", &database]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("cannot listen on {listen}")));
}

#[test]
fn check_and_print_open_nothing_and_show_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("control.toml");
    fs::write(&file, "database = 'postgres://u:hunter2@db.example/orch8'\ndrain = 5.5\n").expect("writes");
    let file = file.to_str().expect("UTF-8");
    let print = orch8(&["config", "print", "control-plane", "--config", file])
        .env("ORCH8_LISTEN", "127.0.0.1:9")
        .output()
        .expect("runs");
    let shown = String::from_utf8_lossy(&print.stdout).into_owned();
    for line in [
        "database = \"postgres://db.example/orch8\"  # database",
        "listen = \"127.0.0.1:9\"  # ORCH8_LISTEN",
        "drain = 5.5  # drain",
        "connection_age = \"30m\"  # default",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
    // What was printed says the same when it is read.
    let again = folder.path().join("printed.toml");
    fs::write(&again, &shown).expect("writes");
    let again = again.to_str().expect("UTF-8");
    assert!(run(&["config", "check", "control-plane", "--config", again]).status.success());
    assert_eq!(run(&["config", "check", "data-plane", "--config", file]).status.code(), Some(2));
}

#[test]
fn the_first_operator_key_is_made_once_and_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("database=sqlite:{}", folder.path().join("c.db").display());
    assert!(run(&["control-plane", "migrate", "--set", &database]).status.success());
    let made = run(&["--output", "json", "control-plane", "init", "--set", &database]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).expect("one line of JSON");
    let secret = made["secret"].as_str().expect("a secret");
    assert!(secret.starts_with("o8_") && secret.len() == 67, "{secret}");
    let again = run(&["--output", "json", "control-plane", "init", "--set", &database]);
    assert_eq!(again.status.code(), Some(4));
    let said: Value = serde_json::from_slice(&again.stderr).expect("one line of JSON");
    assert_eq!(said["error"]["reason"], "ALREADY_EXISTS");
    assert!(again.stdout.is_empty());
}
