use super::*;
use crate::program::{Handler, Kind, Step};

fn with(handler: &str, params: Value) -> Value {
    one("step", json!({"handler": handler, "params": params}))
}

fn step(document: &Value) -> Step {
    let mut program = published(document).program;
    match program.blocks.remove(0).kind {
        Kind::Step(step) => *step,
        other => panic!("{other:?}"),
    }
}

#[test]
fn params_of_built_ins_are_judged_as_far_as_they_are_literal() {
    for (handler, params) in [
        ("noop", json!([1, "x"])),
        ("log", json!({"message": {"any": 1}, "level": "debug"})),
        ("log", json!({"level": "{{data.level}}"})),
        ("log", json!(null)),
        ("sleep", json!({})),
        ("sleep", json!({"duration_ms": 0})),
        ("sleep", json!({"duration_ms": 315_360_000_000_i64})),
        ("sleep", json!({"duration_ms": "{{data.ms}}"})),
        ("sleep", json!({"duration": 0.5, "duration_ms": null})),
        ("sleep", json!("{{data.params}}")),
        ("fail", json!({"message": "no", "retryable": true, "code": "OUT_OF_STOCK", "details": [1]})),
        ("fail", json!({"retryable": "{{data.again}}", "code": null})),
        ("transform", json!({"expression": "data.a + 1", "target": "data.b"})),
        ("transform", json!({"total": "{{data.a}}"})),
        ("transform", json!([1])),
        ("assert", json!({"condition": "data.a > 1", "message": "{{data.a}} is small"})),
        ("charge", json!({"duration_ms": -1})),
    ] {
        clean(&with(handler, params));
    }
    for (handler, params, path, says) in [
        ("log", json!({"level": "error"}), "/level", "one of debug, info, warn"),
        ("log", json!({"level": 1}), "/level", "one of debug"),
        ("log", json!("hello"), "", "must be an object, not text"),
        ("sleep", json!({"duration_ms": -1}), "/duration_ms", "0 to 315360000000"),
        ("sleep", json!({"duration_ms": 315_360_000_001_i64}), "/duration_ms", "10 years"),
        ("sleep", json!({"duration_ms": u64::MAX}), "/duration_ms", "10 years"),
        ("sleep", json!({"duration_ms": i64::MAX}), "/duration_ms", "10 years"),
        ("sleep", json!({"duration_ms": 1.5}), "/duration_ms", "an integer"),
        ("sleep", json!({"duration_ms": "100"}), "/duration_ms", "an integer"),
        ("sleep", json!({"duration": -1}), "/duration", "must not be negative"),
        ("sleep", json!({"duration": 99_999_999_999.0}), "/duration", "10 years"),
        ("sleep", json!({"duration": "1h"}), "/duration", "must be a number"),
        ("sleep", json!({"duration": 1, "duration_ms": 1}), "/duration", "give one of the two"),
        ("sleep", json!([100]), "", "must be an object, not an array"),
        ("fail", json!({"message": 7}), "/message", "message must be text, not a number"),
        ("fail", json!({"retryable": "yes"}), "/retryable", "true or false"),
        ("fail", json!({"code": " "}), "/code", "only spaces"),
        ("fail", json!({"code": 7}), "/code", "must be text"),
        ("transform", json!({"expression": 1, "target": "a"}), "/expression", "must be text"),
        ("transform", json!({"expression": " ", "target": "a"}), "/expression", "must not be blank"),
        ("transform", json!({"expression": "1", "target": ["a"]}), "/target", "must be text"),
        ("transform", json!({"expression": "1", "target": "a..b"}), "/target", "no path"),
        ("transform", json!({"expression": "1", "target": "_x"}), "/target", "must not begin with _"),
        ("assert", json!({"condition": true}), "/condition", "must be text"),
        ("assert", json!({"condition": ""}), "/condition", "must not be blank"),
        ("assert", json!(7), "", "must be an object"),
    ] {
        let found = problems(&with(handler, params.clone()));
        let [problem] = found.as_slice() else { panic!("{handler} {params}: {found:#?}") };
        assert_eq!(problem.path, format!("/blocks/0/params{path}"), "{problem:?}");
        assert!(problem.message.contains(says), "{problem:?} does not say {says}");
    }
}

#[test]
fn a_target_deeper_than_eight_is_too_large() {
    let document = with("transform", json!({"expression": "1", "target": "a.b.c.d.e.f.g.h.i"}));
    refused(&document, "TOO_LARGE", "/blocks/0/params/target", "9 segments, at most 8");
}

#[test]
fn an_assert_without_condition_publishes_and_fails_when_reached() {
    for params in [json!(null), json!({}), json!({"message": "m"}), json!("{{data.params}}")] {
        let document = with("assert", params);
        warned(&document, "MISSING_PARAMS", "/blocks/0/params", "needs condition");
        assert!(matches!(step(&document).handler, Handler::Invalid { .. }));
    }
}

#[test]
fn transform_evaluates_only_exactly_expression_and_target() {
    let evaluating = step(&with("transform", json!({"expression": "1 + 1", "target": "context.data.a.b"})));
    let Handler::Transform(Some((_, path))) = evaluating.handler else { panic!("{:?}", evaluating.handler) };
    assert_eq!(path.join("/"), "a/b");
    for params in [json!({"expression": "1"}), json!({"expression": "1", "target": "a", "note": 1})] {
        let document = with("transform", params);
        warned(&document, "TRANSFORM_AS_IS", "/blocks/0/params", "the output is the params");
        assert!(matches!(step(&document).handler, Handler::Transform(None)));
    }
    warned(
        &with("transform", json!({"expression": "1", "target": "outputs.a"})),
        "ROOT_NAME",
        "/blocks/0/params/target",
        "writes to context.data",
    );
}

#[test]
fn an_assert_keeps_its_text_for_the_output() {
    let read = step(&with("assert", json!({"condition": "1 == 1", "message": "m"})));
    let Handler::Assert { text, .. } = read.handler else { panic!("{:?}", read.handler) };
    assert_eq!(&*text, "1 == 1");
}

#[test]
fn a_param_no_built_in_reads_is_told() {
    let document = with("sleep", json!({"durations_ms": 5}));
    warned(&document, "UNKNOWN_FIELD", "/blocks/0/params/durations_ms", "did you mean duration_ms?");
}

#[test]
fn a_handler_near_a_built_in_is_told() {
    for (handler, meant) in
        [("slep", "sleep"), ("Noop", "noop"), ("http_reqest", "http_request"), ("asert", "assert")]
    {
        let document = one("step", json!({"handler": handler}));
        warned(&document, "UNKNOWN_HANDLER", "/blocks/0/handler", meant);
        assert!(matches!(step(&document).handler, Handler::Worker(_)));
    }
    clean(&one("step", json!({"handler": "charge-card"})));
}

#[test]
fn a_handler_is_a_name() {
    for (handler, says) in [
        (json!(""), "must not be empty"),
        (json!("  "), "only spaces"),
        (json!("a".repeat(257)), "at most 256"),
        (json!("a\nb"), "control character"),
        (json!(7), "must be text"),
        (json!(null), "must be text, not null"),
    ] {
        refused(&one("step", json!({"handler": handler})), "INVALID_FIELD", "/blocks/0/handler", says);
    }
    refused(&one("step", json!({})), "INVALID_FIELD", "/blocks/0/handler", "handler is required in a step");
}
