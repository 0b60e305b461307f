//! What a value must be to be stored: no NUL in any text, bounded nesting. The numbers are right by construction.

use orch8_model::limits::JSON_DEPTH_MAX;
use serde_json::Value;

/// Nesting: a scalar has 0, `[]` has 1. Values of an instance were bounded when they came in, so that recursion is.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
    }
}

/// The first thing that is wrong: JSON pointer, and what.
pub(super) fn problem(value: &Value) -> Option<(String, &'static str)> {
    let mut pointer = String::new();
    look(value, 0, &mut pointer).map(|what| (pointer, what))
}

/// Leaves `pointer` at the place of the problem.
fn look(value: &Value, depth: usize, pointer: &mut String) -> Option<&'static str> {
    let nested = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
        Value::String(text) => return text.contains('\0').then_some("has a NUL character"),
        Value::Array(_) | Value::Object(_) if depth >= JSON_DEPTH_MAX => {
            return Some("is nested deeper than 128");
        }
        Value::Array(items) => {
            let length = pointer.len();
            for (index, item) in items.iter().enumerate() {
                if !matches!(item, Value::Array(_) | Value::Object(_) | Value::String(_)) {
                    continue;
                }
                pointer.push('/');
                pointer.push_str(&index.to_string());
                let found = look(item, depth + 1, pointer);
                if found.is_some() {
                    return found;
                }
                pointer.truncate(length);
            }
            return None;
        }
        Value::Object(map) => map,
    };
    let length = pointer.len();
    for (key, item) in nested {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1").replace('\0', "\u{fffd}"));
        let found = match key.contains('\0') {
            true => Some("has a NUL character in its key"),
            false => look(item, depth + 1, pointer),
        };
        if found.is_some() {
            return found;
        }
        pointer.truncate(length);
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn a_problem_is_named_by_its_place() {
        for (value, expected) in [
            (json!({"a": [1, "x"]}), None),
            (json!({"a/b": [1, "x\0"]}), Some(("/a~1b/1".to_owned(), "has a NUL character"))),
            (json!({"k\0": 1}), Some(("/k\u{fffd}".to_owned(), "has a NUL character in its key"))),
        ] {
            assert_eq!(problem(&value), expected);
        }
        assert_eq!(problem(&nested(128)), None);
        assert_eq!(problem(&nested(129)).map(|(_, what)| what), Some("is nested deeper than 128"));
        assert_eq!(depth(&nested(128)), 128);
    }
}
