//! The few house rules that the compiler cannot see.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Which of our crates may use which of our crates (tests aside). An arrow that is not here needs a reason and a line.
const ARROWS: &[(&str, &[&str])] = &[
    ("orch8-model", &[]),
    ("orch8-seal", &["orch8-model"]),
    ("orch8-engine", &["orch8-model", "orch8-seal"]),
    ("orch8-authority", &["orch8-model", "orch8-seal"]),
    ("orch8-proto", &["orch8-model", "orch8-seal"]),
    ("orch8-control-plane", &["orch8-model", "orch8-seal", "orch8-proto", "orch8-authority"]),
    ("orch8-data-plane", &["orch8-model", "orch8-seal", "orch8-proto", "orch8-engine"]),
    ("orch8-worker", &["orch8-proto"]),
    ("orch8-test-postgres", &[]),
    (
        "orch8",
        &[
            "orch8-model",
            "orch8-seal",
            "orch8-proto",
            "orch8-control-plane",
            "orch8-data-plane",
            "orch8-worker",
        ],
    ),
];

/// Something that may stand in some places only.
struct Rule {
    what: &'static str,
    patterns: &'static [&'static str],
    /// Folders in which it is forbidden …
    forbidden: &'static [&'static str],
    /// … but for these files and folders.
    allowed: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        what: "a handle of a tenant's rows is made from a placement, or read with the rows",
        patterns: &["TenantHandle {"],
        forbidden: &["data-plane/src"],
        allowed: &["data-plane/src/store"],
    },
    Rule {
        what: "sqlx lives in store rooms, and in the raw loops of the bench",
        patterns: &["sqlx::", "use sqlx"],
        forbidden: &["proto", "control-plane", "data-plane", "worker-sdk", "src"],
        allowed: &[
            "control-plane/src/store",
            "data-plane/src/store",
            "src/bench/raw_sqlite.rs",
            "src/bench/raw_postgres.rs",
        ],
    },
    Rule {
        what: "ring lives in proto/seal, and in main as the provider of rustls",
        patterns: &["ring::"],
        forbidden: &["proto", "control-plane", "data-plane", "worker-sdk", "src"],
        allowed: &["proto/seal/src", "src/main.rs"],
    },
    Rule {
        what: "the pure rooms read no clock, no randomness and no socket",
        patterns: &[
            "Utc::now",
            "SystemTime",
            "Instant::now",
            "now_v7",
            "new_v4",
            "std::net",
            "std::fs",
            "tokio",
        ],
        forbidden: &["data-plane/engine/src", "control-plane/authority/src", "proto/model/src"],
        allowed: &[],
    },
];

/// A tonic status is made in one file; constructors begin with a small letter, variants of our own enums do not.
const STATUS_ROOM: &str = "proto/src/status.rs";

const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
const BANNED: &[&str] = &["openssl-sys", "aws-lc-sys", "cel", "jmespath"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("a readable folder").flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).expect("inside").to_string_lossy().replace('\\', "/");
            (name, fs::read_to_string(&path).expect("a readable file"))
        })
        .collect()
}

/// The part of a file that ships: unit tests stand at the end, behind `#[cfg(test)]`.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn is_test(name: &str) -> bool {
    ["/tests/", "/tests.rs", "/examples/", "/benches/"].iter().any(|part| name.contains(part))
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

#[test]
fn every_rule_of_the_house_holds() {
    let mut broken = Vec::new();
    for Rule { what, patterns, forbidden, allowed } in RULES {
        for (name, text) in forbidden.iter().flat_map(|f| sources(f)) {
            if is_test(&name) || allowed.iter().any(|a| name.starts_with(a)) {
                continue;
            }
            for (number, line) in shipped(&text).lines().enumerate() {
                let line = code(line);
                // `ring::` is also the end of `string::`.
                let hit = |p: &&&str| {
                    line.match_indices(**p)
                        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
                };
                if patterns.iter().find(|p| hit(p)).is_some() {
                    broken.push(format!("{name}:{}: {what}", number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_grpc_status_is_made_in_one_file() {
    let mut broken = Vec::new();
    for (name, text) in
        ["proto", "control-plane", "data-plane", "worker-sdk", "src"].iter().flat_map(|f| sources(f))
    {
        if name == STATUS_ROOM || is_test(&name) {
            continue;
        }
        for (number, line) in shipped(&text).lines().enumerate() {
            // Reading one out of headers makes none.
            let made = code(line).replace("Status::from_header_map", "").match_indices("Status::").any(
                |(at, found)| {
                    let line = code(line).replace("Status::from_header_map", "");
                    let before = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                    let after = line[at + found.len()..].starts_with(|c: char| c.is_ascii_lowercase());
                    !before && after
                },
            );
            if made {
                broken.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "Status made outside {STATUS_ROOM}:\n{}", broken.join("\n"));
}

#[test]
fn nothing_is_left_unfinished_or_unsafe() {
    let unfinished = ["todo!(", "unimplemented!(", "FIXME", "unsafe {"];
    let mut broken = Vec::new();
    for (name, text) in
        ["proto", "control-plane", "data-plane", "worker-sdk", "src"].iter().flat_map(|f| sources(f))
    {
        for (number, line) in text.lines().enumerate() {
            if unfinished.iter().any(|u| line.contains(u)) {
                broken.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_file_names_a_folder_of_somebodys_machine() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let Ok(listed) = listed else { return };
    let homes = ["/home/", "/root/", "/Users/", "/work/"];
    let mut broken = Vec::new();
    for name in
        String::from_utf8_lossy(&listed.stdout).split('\0').filter(|n| !n.is_empty() && *n != "tests/tidy.rs")
    {
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        broken.extend(homes.iter().filter(|h| text.contains(**h)).map(|home| format!("{name}: {home}")));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn our_crates_depend_only_along_the_arrows() {
    let metadata = metadata();
    let arrows: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().expect("members").iter().map(text).collect();
    for package in
        metadata["packages"].as_array().expect("packages").iter().filter(|p| members.contains(text(&p["id"])))
    {
        let name = text(&package["name"]);
        let allowed = arrows.get(name).unwrap_or_else(|| panic!("{name} is not in the table of arrows"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = text(&dependency["name"]);
            if to.starts_with("orch8-") && dependency["kind"].is_null() {
                assert!(allowed.contains(to), "{name} may not use {to}");
            }
        }
    }
}

#[test]
fn every_dependency_has_a_licence_we_accept() {
    let metadata = metadata();
    for package in metadata["packages"].as_array().expect("packages") {
        let (name, licence) = (text(&package["name"]), text(&package["license"]).replace('/', " OR "));
        assert!(!BANNED.contains(&name), "{name} is banned; see deny.toml");
        let acceptable = licence.split(" OR ").any(|choice| {
            choice
                .trim_matches(['(', ')', ' '])
                .split(" AND ")
                .all(|l| LICENCES.contains(&l.trim_matches(['(', ')', ' '])))
        });
        // Expressions of ANDs over ORs are rare; each part must then be acceptable by itself.
        let by_parts = || {
            licence
                .split(" AND ")
                .all(|part| part.split(" OR ").any(|l| LICENCES.contains(&l.trim_matches(['(', ')', ' ']))))
        };
        assert!(acceptable || by_parts(), "{name}: {licence:?} is not on the list");
    }
}
