//! How deep a value is, where it is about to be put inside another one.

use serde_json::Value;

/// A scalar has 0, `[]` has 1. Values of an instance were bounded when they came in, so that the recursion is, too.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
    }
}
