//! What the documents show runs as written.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// The block of a document that begins with this line.
fn block(document: &str, opening: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).expect("a document");
    let block = text.split(&format!("```{opening}\n")).nth(1).expect("the block");
    block.split("```").next().expect("its end").to_owned()
}

/// Runs a script in a new folder beside which the examples lie; whatever it started ends with it.
fn run(script: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    std::os::unix::fs::symlink(examples, folder.path().join("examples")).expect("a link");
    let bin = Path::new(env!("CARGO_BIN_EXE_orch8")).parent().expect("a folder").to_owned();
    Command::new("timeout")
        .args([
            "60",
            "bash",
            "-c",
            &format!("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n{script}"),
        ])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()))
        .output()
        .expect("bash")
}

fn said(output: &Output) -> String {
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{said}\n{complained}")
}

#[test]
fn the_tour_of_the_readme_runs_as_written() {
    // A port of its own, so that the test does not meet an engine of yours; everything else is the tour itself.
    let tour = block("README.md", "sh tour").replace("orch8 dev &", "orch8 dev --listen 127.0.0.1:0 &");
    let output = run(&tour);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no live worker offers"), "{said}");
    assert!(said.contains("completed"), "{said}");
}

#[test]
fn the_deployment_of_the_operating_page_runs_as_written() {
    let [high, low] = ((std::process::id() % 0xffff) as u16).to_be_bytes();
    let own = format!("127.{}.{low}.9:", 2 + high % 60);
    let script = block("docs/operating.md", "sh deployment").replace("127.0.0.1:", &own);
    // The fleet is the operator's to see; the last key of the page is a tenant's.
    let operator = r#"ORCH8_KEY=$(sed 's/.*"secret":"\([^"]*\)".*/\1/' operator.json)"#;
    let output =
        run(&format!("{script}\norch8 instance start hello --data '{{}}'\n{operator} orch8 fleet show"));
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("node-1") && said.contains("hello"), "{said}");
}

#[test]
fn the_settings_of_the_operating_page_are_right() {
    let settings = block("docs/operating.md", "toml data-plane");
    let output = run(&format!(
        "cat > node.toml <<'END'\n{settings}END\norch8 config check data-plane --config node.toml"
    ));
    assert!(output.status.success(), "{}", said(&output));
}
