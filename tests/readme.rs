//! The README's tour runs as written.

use std::{fs, path::Path, process::Command};

/// The lines of the block that begins with "```sh tour".
fn tour() -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("a README");
    let block = readme.split("```sh tour\n").nth(1).expect("a tour");
    block.split("```").next().expect("its end").to_owned()
}

#[test]
fn the_tour_of_the_readme_runs_as_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    std::os::unix::fs::symlink(examples, folder.path().join("examples")).expect("a link");
    let bin = Path::new(env!("CARGO_BIN_EXE_orch8")).parent().expect("a folder").to_owned();
    // A port of its own, so that the test does not meet an engine of yours; everything else is the tour itself.
    let script = tour().replace("orch8 dev &", "orch8 dev --listen 127.0.0.1:0 &");
    let script = format!("set -e\ntrap 'kill $(jobs -p)' EXIT\n{script}");
    let output = Command::new("timeout")
        .args(["60", "bash", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()))
        .env_remove("ORCH8_DIR")
        .output()
        .expect("bash");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("no live worker offers"), "{said}");
    assert!(said.contains("Hello Ada") || said.contains("completed"), "{said}");
}
