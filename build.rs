//! Tells the command which commit it was built from. Without git, or outside a checkout, it has a version and no commit.

use std::{path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ORCH8_COMMIT");
    let commit = std::env::var("ORCH8_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    // The reflog changes with every commit and checkout; a missing file would force a rebuild each time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let version = env!("CARGO_PKG_VERSION");
    match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => {
            println!("cargo:rustc-env=ORCH8_BUILT_FROM={commit}");
            println!("cargo:rustc-env=ORCH8_VERSION={version} ({commit})");
        }
        None => println!("cargo:rustc-env=ORCH8_VERSION={version}"),
    }
}

/// Trimmed output of a git command, if there is git, a checkout and an answer.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
