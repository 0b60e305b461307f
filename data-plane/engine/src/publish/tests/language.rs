use orch8_model::limits::{EXPRESSION_BYTES_MAX, TEMPLATE_BYTES_MAX};

use super::*;
use crate::program::Kind;

fn body() -> Value {
    json!([noop("a")])
}

#[test]
fn c09_a_syntax_error_is_refused_with_its_position() {
    for (document, path, position) in [
        (
            one("router", json!({"routes": [{"condition": "a = b", "blocks": body()}]})),
            "/blocks/0/routes/0/condition",
            "line 1, column 3",
        ),
        (one("loop", json!({"condition": "(x", "body": body()})), "/blocks/0/condition", "line 1, column 3"),
        (
            one("loop", json!({"condition": "true", "break_on": "1 +", "body": body()})),
            "/blocks/0/break_on",
            "line 1",
        ),
        (
            one("step", json!({"handler": "charge", "params": {"a": ["{{data.x|nosuch(1)}}"]}})),
            "/blocks/0/params/a/0",
            "line 1",
        ),
        (one("step", json!({"handler": "charge", "params": "{{= a = b }}"})), "/blocks/0/params", "line 1"),
        (one("for_each", json!({"collection": "a..b", "body": body()})), "/blocks/0/collection", "line 1"),
        (
            one("for_each", json!({"collection": "{{= ( }}", "body": body()})),
            "/blocks/0/collection",
            "line 1",
        ),
        (
            one(
                "step",
                json!({"handler": "charge", "retry": {"max_attempts": 2, "retry_if": "\n nosuch(1)"}}),
            ),
            "/blocks/0/retry/retry_if",
            "line 2",
        ),
        (
            one("step", json!({"handler": "transform", "params": {"expression": "1 1", "target": "x"}})),
            "/blocks/0/params/expression",
            "line 1, column 3",
        ),
        (
            one("step", json!({"handler": "assert", "params": {"condition": "x ==="}})),
            "/blocks/0/params/condition",
            "line 1",
        ),
    ] {
        let found = problems(&document);
        let [problem] = found.as_slice() else { panic!("{document}: {found:#?}") };
        assert_eq!((problem.code, problem.path.as_str()), ("EXPRESSION_SYNTAX", path), "{problem:?}");
        assert!(problem.message.contains(position) && problem.message.contains("byte"), "{problem:?}");
    }
}

#[test]
fn c10_a_syntax_error_in_when_publishes_and_fails_when_reached() {
    let document = one("step", json!({"handler": "noop", "when": "a ==== b"}));
    warned(&document, "WHEN_SYNTAX", "/blocks/0/when", "EXPRESSION_SYNTAX");
    let program = published(&document).program;
    let Kind::Step(step) = &program.blocks[0].kind else { panic!() };
    assert!(matches!(step.when, Some(Err(_))));
}

#[test]
fn c54_a_blank_when_is_an_expression_that_is_false() {
    for when in ["", "  ", "data.missing", "data.n > 1"] {
        let program = clean(&one("step", json!({"handler": "noop", "when": when}))).program;
        let Kind::Step(step) = &program.blocks[0].kind else { panic!() };
        assert!(matches!(step.when, Some(Ok(_))), "{when}");
    }
}

#[test]
fn c11_an_unknown_root_is_told() {
    let document = one("step", json!({"handler": "charge", "params": {"x": "{{foo.bar}}"}}));
    warned(&document, "UNKNOWN_ROOT", "/blocks/0/params/x", "foo");
}

#[test]
fn c27_c28_conditions_of_routers_parse() {
    for condition in ["count * 2 > threshold", "category == \"A\"", "maybe == \"x\"", "!(outputs.b.n >= 3)"] {
        clean(&one("router", json!({"routes": [{"condition": condition, "blocks": body()}]})));
    }
    for condition in ["mode == fast", "plan == enterprise"] {
        let found =
            published(&one("router", json!({"routes": [{"condition": condition, "blocks": body()}]})));
        let path = "/blocks/0/routes/0/condition";
        assert!(found.warnings.iter().all(|w| w.path == path), "{:?}", found.warnings);
        assert!(!found.warnings.is_empty(), "{condition}: a bare word is told");
    }
}

#[test]
fn c41_a_collection_is_a_path_or_a_template() {
    for collection in [
        "items",
        "data.items",
        "context.data.items",
        "{{outputs.first.list}}",
        "outputs.first.list",
        "items.0.rows",
        "order-lines",
    ] {
        let blocks =
            json!([noop("first"), block("for_each", "f", json!({"collection": collection, "body": body()}))]);
        clean(&sequence(blocks));
    }
}

#[test]
fn c44_an_item_variable_is_a_root_inside_its_for_each_only() {
    let uses = |id: &str| {
        block("step", id, json!({"handler": "charge", "params": {"n": "{{t.n}}", "d": "{{data.t.n}}"}}))
    };
    let each =
        |body: Value| block("for_each", "f", json!({"collection": "items", "item_var": "t", "body": body}));
    clean(&sequence(json!([each(json!([uses("x")]))])));
    let nested = block("parallel", "p", json!({"branches": [[uses("x")]]}));
    clean(&sequence(json!([each(json!([nested]))])));
    let outside = sequence(json!([each(json!([noop("x")])), uses("y")]));
    warned(&outside, "UNKNOWN_ROOT", "/blocks/1/params/n", "t");
}

#[test]
fn a_reference_to_a_block_that_does_not_exist_is_told() {
    for (document, path) in [
        (one("step", json!({"handler": "charge", "params": "{{outputs.nosuch.x}}"})), "/blocks/0/params"),
        (one("step", json!({"handler": "noop", "when": "outputs.nosuch.x"})), "/blocks/0/when"),
    ] {
        let found = published(&document).warnings;
        assert!(found.iter().any(|w| w.path == path && w.message.contains("nosuch")), "{found:?}");
    }
    // Blocks further down are known, too.
    let first = block("step", "a", json!({"handler": "charge", "params": "{{outputs.my-step.x}}"}));
    clean(&sequence(json!([first, noop("my-step")])));
}

#[test]
fn texts_of_the_language_have_limits() {
    let long = "1".repeat(EXPRESSION_BYTES_MAX + 1);
    let limit = "8193 bytes, at most 8192";
    for (document, path) in [
        (one("loop", json!({"condition": long, "body": body()})), "/blocks/0/condition"),
        (one("step", json!({"handler": "noop", "when": long})), "/blocks/0/when"),
        (one("for_each", json!({"collection": long, "body": body()})), "/blocks/0/collection"),
    ] {
        refused(&document, "TOO_LARGE", path, limit);
    }
    let with = |text: String| one("step", json!({"handler": "charge", "params": {"t": text}}));
    clean(&with(format!("{}{{{{data.x}}}}", "x".repeat(TEMPLATE_BYTES_MAX - 10))));
    let document = with(format!("{}{{{{data.x}}}}", "x".repeat(TEMPLATE_BYTES_MAX)));
    refused(&document, "TOO_LARGE", "/blocks/0/params/t", "at most 65536");
    // Text without a template is data.
    clean(&with("x".repeat(2 * TEMPLATE_BYTES_MAX)));
}

#[test]
fn every_template_of_a_step_is_reported() {
    let params = json!({"a": "{{= ( }}", "b": {"c": "{{= ) }}"}});
    let found = problems(&one("step", json!({"handler": "charge", "params": params})));
    let paths: Vec<_> = found.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["/blocks/0/params/a", "/blocks/0/params/b/c"]);
}
