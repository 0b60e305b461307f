//! Claims about documents nobody wrote.

use orch8_model::limits::PROBLEMS_MAX;
use proptest::prelude::*;

use super::*;

/// Fields of a step, each with a legal value.
fn step() -> impl Strategy<Value = Value> {
    let handler = prop_oneof![
        Just(json!({"handler": "noop"})),
        Just(json!({"handler": "log", "params": {"message": "{{data.x}}", "level": "warn"}})),
        Just(json!({"handler": "charge", "params": {"amount": [1, {"deep": "n={{data.n}}"}]}})),
        Just(json!({"handler": "transform", "params": {"expression": "1 + 1", "target": "a.b"}})),
        Just(json!({"handler": "assert", "params": {"condition": "data.x == 1"}})),
        (0u32..10_000).prop_map(|ms| json!({"handler": "sleep", "params": {"duration_ms": ms}})),
    ];
    let extras = proptest::sample::subsequence(
        vec![
            ("when", json!("data.go")),
            ("retry", json!({"max_attempts": 3, "initial_backoff": 1.5, "jitter": "full"})),
            ("delay", json!({"duration": 0.5, "holidays": ["2026-12-25"]})),
            (
                "wait_for_input",
                json!({"choices": [{"label": "Go", "value": 1}, {"label": "Stop", "value": 0}]}),
            ),
            ("timeout", json!(5_000)),
            ("deadline", json!(60_000)),
            ("cancellable", json!(false)),
        ],
        0..=7,
    );
    (handler, extras).prop_map(|(mut step, extras)| {
        step["type"] = json!("step");
        for (key, value) in extras {
            step[key] = value;
        }
        step
    })
}

/// Blocks without ids.
fn block_tree() -> impl Strategy<Value = Value> {
    step().prop_recursive(5, 60, 4, |inner| {
        let body = || prop::collection::vec(inner.clone(), 1..4);
        let maybe_empty = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            prop::collection::vec(maybe_empty(), 1..4)
                .prop_map(|branches| json!({"type": "parallel", "branches": branches})),
            (prop::collection::vec(maybe_empty(), 1..3), prop::option::of(maybe_empty())).prop_map(
                |(routes, default)| {
                    let route = |blocks: Vec<Value>| json!({"condition": "data.a > 1", "blocks": blocks});
                    let routes: Vec<Value> = routes.into_iter().map(route).collect();
                    json!({"type": "router", "routes": routes, "default": default})
                }
            ),
            (body(), maybe_empty(), prop::option::of(maybe_empty())).prop_map(|(try_, catch, finally)| {
                json!({"type": "try_catch", "try_block": try_, "catch_block": catch, "finally_block": finally})
            }),
            (body(), 1u32..100_000).prop_map(
                |(body, max)| json!({"type": "loop", "condition": "true", "body": body, "max_iterations": max})
            ),
            (body(), 1u32..100).prop_map(
                |(body, c)| json!({"type": "for_each", "collection": "items", "body": body, "concurrency": c})
            ),
        ]
    })
}

fn valid_document() -> impl Strategy<Value = Value> {
    prop::collection::vec(block_tree(), 1..5).prop_map(|blocks| {
        let mut document = sequence(Value::Array(blocks));
        let mut next = 0;
        number(&mut document["blocks"], &mut next);
        document
    })
}

/// Gives every block its id.
fn number(value: &mut Value, next: &mut u32) {
    if value.get("type").is_some_and(Value::is_string) {
        value["id"] = json!(format!("b{next}"));
        *next += 1;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| number(item, next)),
        Value::Object(map) => map.values_mut().for_each(|item| number(item, next)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Pointers of every field that must be there.
fn required(value: &Value, place: &str, found: &mut Vec<String>) {
    let keys: &[&str] = match value.get("type").and_then(Value::as_str) {
        Some("step") => &["id", "handler"],
        Some("parallel") => &["id", "type", "branches"],
        Some("router") => &["id", "type"],
        Some("try_catch") => &["id", "type", "try_block", "catch_block"],
        Some("loop") => &["id", "type", "condition", "body"],
        Some("for_each") => &["id", "type", "collection", "body"],
        _ if place.is_empty() => &["name", "blocks"],
        _ if value.get("condition").is_some() && value.get("blocks").is_some() => &["condition", "blocks"],
        _ if value.get("max_attempts").is_some() => &["max_attempts"],
        _ if place.ends_with("/delay") => &["duration"],
        _ if value.get("label").is_some() => &["label", "value"],
        _ => &[],
    };
    found.extend(keys.iter().map(|key| format!("{place}/{key}")));
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| required(item, &format!("{place}/{i}"), found));
        }
        Value::Object(map) => {
            map.iter().filter(|(key, _)| *key != "params").for_each(|(key, item)| {
                required(item, &format!("{place}/{key}"), found);
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn without(document: &Value, pointer: &str) -> Value {
    let mut document = document.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(key).unwrap();
    document
}

/// Any JSON, made mostly of the words of the language.
fn any_json() -> impl Strategy<Value = Value> {
    let word = || {
        proptest::sample::select(vec![
            "type",
            "id",
            "handler",
            "params",
            "blocks",
            "branches",
            "routes",
            "default",
            "condition",
            "body",
            "when",
            "retry",
            "max_attempts",
            "delay",
            "duration",
            "wait_for_input",
            "choices",
            "label",
            "value",
            "step",
            "loop",
            "for_each",
            "collection",
            "item_var",
            "parallel",
            "router",
            "try_catch",
            "try_block",
            "catch_block",
            "name",
            "noop",
            "transform",
            "assert",
            "expression",
            "target",
            "sleep",
            "duration_ms",
            "race",
            "sla",
            "steps",
            "",
            "{{= (",
            "{{x|}}",
            "credentials://",
            "a[",
            "data.",
            "fire_at_local",
            "timezone",
            "é\u{301}",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 80, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((word(), inner), 0..8).prop_map(|members| Value::Object(
                members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

/// Replaces the value at one place of a document, counted in document order.
fn replace(value: &mut Value, place: &mut usize, new: &Value) {
    if *place == 0 {
        *value = new.clone();
    }
    *place = place.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, place, new)),
        Value::Object(map) => map.values_mut().for_each(|item| replace(item, place, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whatever the text is: an answer within its bounds.
fn answered(text: &[u8]) {
    match check(text) {
        Ok(published) => {
            assert!(!published.program.body(crate::Program::ROOT).blocks.is_empty());
            assert_eq!(published.program.by_id.len(), published.program.blocks.len());
        }
        Err(problems) => {
            assert!((1..=PROBLEMS_MAX).contains(&problems.len()));
            assert!(problems.iter().all(|p| !p.code.is_empty() && !p.message.is_empty()), "{problems:?}");
            assert!(problems.iter().all(|p| p.path.is_empty() || p.path.starts_with('/')), "{problems:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_valid_document_is_accepted(document in valid_document()) {
        let text = document.to_string();
        prop_assert!(check(text.as_bytes()).is_ok(), "{:?}", check(text.as_bytes()).err());
    }

    #[test]
    fn a_required_field_left_out_is_one_problem_at_its_place(
        document in valid_document(),
        pick in any::<prop::sample::Index>(),
    ) {
        let mut fields = Vec::new();
        required(&document, "", &mut fields);
        let field = pick.get(&fields);
        let found = problems(&without(&document, field));
        prop_assert_eq!(found.len(), 1, "{}: {:?}", field, found);
        prop_assert_eq!(&found[0].path, field);
        prop_assert!(found[0].message.contains("required"), "{:?}", found);
    }

    #[test]
    fn any_json_is_answered(value in any_json()) {
        answered(value.to_string().as_bytes());
        answered(sequence(value).to_string().as_bytes());
    }

    #[test]
    fn a_document_with_a_foreign_part_is_answered(
        document in valid_document(),
        place in 0usize..200,
        part in any_json(),
    ) {
        let (mut document, mut place) = (document, place);
        replace(&mut document, &mut place, &part);
        answered(document.to_string().as_bytes());
    }

    #[test]
    fn a_damaged_document_is_answered(
        document in valid_document(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut text = document.to_string().into_bytes();
        for (at, byte) in damage {
            *at.get_mut(&mut text) = byte;
        }
        answered(&text);
    }
}
