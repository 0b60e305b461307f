//! Claims about publishing. What a table row says is the whole claim; helpers only shorten documents.

mod fields;
mod generated;
mod handlers;
mod language;
mod later;
mod program;
mod spelling;
mod structure;
mod warnings;

use serde_json::{Value, json};

use super::{Problem, Published, Warning, check};

/// A document around root blocks.
fn sequence(blocks: Value) -> Value {
    json!({"name": "orders", "blocks": blocks})
}

/// A document of one block with the given fields beside `type` and `id`.
fn one(kind: &str, fields: Value) -> Value {
    sequence(json!([block(kind, "b", fields)]))
}

fn block(kind: &str, id: &str, fields: Value) -> Value {
    let mut block = json!({"type": kind, "id": id});
    for (key, value) in fields.as_object().unwrap() {
        block[key] = value.clone();
    }
    block
}

fn noop(id: &str) -> Value {
    block("step", id, json!({"handler": "noop"}))
}

fn published(document: &Value) -> Published {
    check(document.to_string().as_bytes()).unwrap_or_else(|problems| panic!("{document}: {problems:#?}"))
}

fn problems(document: &Value) -> Vec<Problem> {
    match check(document.to_string().as_bytes()) {
        Ok(published) => panic!("{document} is accepted: {:?}", published.warnings),
        Err(problems) => problems,
    }
}

/// Exactly one problem: this code, at this place, with this in its message.
#[track_caller]
fn refused(document: &Value, code: &str, path: &str, says: &str) {
    let found = problems(document);
    let [problem] = found.as_slice() else { panic!("{document}: not exactly one of {found:#?}") };
    assert_eq!((problem.code, problem.path.as_str()), (code, path), "{problem:?}");
    assert!(problem.message.contains(says), "{problem:?} does not say {says}");
}

/// Accepted with exactly one warning: this code, at this place, with this in its message.
#[track_caller]
fn warned(document: &Value, code: &str, path: &str, says: &str) {
    let found = published(document).warnings;
    let [warning] = found.as_slice() else { panic!("{document}: not exactly one of {found:#?}") };
    assert_eq!((warning.code, warning.path.as_str()), (code, path), "{warning:?}");
    assert!(warning.message.contains(says), "{warning:?} does not say {says}");
}

/// Accepted without a warning.
#[track_caller]
fn clean(document: &Value) -> Published {
    let published = published(document);
    assert_eq!(published.warnings, Vec::<Warning>::new(), "{document}");
    published
}
