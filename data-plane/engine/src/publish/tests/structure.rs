use orch8_model::limits::{BLOCK_NESTING_MAX, BLOCKS_MAX, DOCUMENT_BYTES_MAX, JSON_DEPTH_MAX};

use super::*;
use crate::publish::document;

#[test]
fn c06_every_break_of_structure_is_in_one_answer() {
    let document = sequence(json!([
        noop("a"),
        {"type": "step", "id": "b"},
        {"type": "stepp", "id": "c"},
        noop("a"),
        {"type": "loop", "id": "l", "condition": "true", "body": []},
    ]));
    let found = problems(&document);
    let found: Vec<_> = found.iter().map(|p| (p.code, p.path.as_str())).collect();
    assert_eq!(
        found,
        [
            ("INVALID_FIELD", "/blocks/2/type"),
            ("INVALID_FIELD", "/blocks/3/id"),
            ("INVALID_FIELD", "/blocks/4/body"),
            ("INVALID_FIELD", "/blocks/1/handler"),
        ]
    );
}

#[test]
fn the_document_has_required_and_typed_fields() {
    let blocks = json!([noop("a")]);
    for (document, path, says) in [
        (json!([]), "", "must be an object"),
        (json!({"blocks": blocks}), "/name", "name is required"),
        (json!({"name": "", "blocks": blocks}), "/name", "must not be empty"),
        (json!({"name": null, "blocks": blocks}), "/name", "must be text, not null"),
        (json!({"name": "n"}), "/blocks", "blocks is required"),
        (json!({"name": "n", "blocks": []}), "/blocks", "at least one block"),
        (json!({"name": "n", "blocks": null}), "/blocks", "must be an array"),
        (json!({"name": "n", "blocks": {}}), "/blocks", "must be an array"),
        (json!({"name": "n", "blocks": [7]}), "/blocks/0", "must be an object, not a number"),
        (json!({"name": "n", "blocks": blocks, "id": "x"}), "/id", "must be a UUID"),
        (json!({"name": "n", "blocks": blocks, "namespace": " "}), "/namespace", "only spaces"),
        (json!({"name": "n", "blocks": blocks, "tenant_id": "a\u{85}"}), "/tenant_id", "control character"),
        (json!({"name": "n", "blocks": blocks, "version": 0}), "/version", "version must be > 0"),
        (json!({"name": "n", "blocks": blocks, "version": 1u64 << 31}), "/version", "2147483647"),
        (json!({"name": "n", "blocks": blocks, "version": 1.0}), "/version", "must be an integer"),
        (json!({"name": "n", "blocks": blocks, "deprecated": 1}), "/deprecated", "true or false"),
        (json!({"name": "n", "blocks": blocks, "status": "live"}), "/status", "production"),
        (json!({"name": "n", "blocks": blocks, "created_at": "today"}), "/created_at", "RFC 3339"),
    ] {
        refused(&document, "INVALID_FIELD", path, says);
    }
}

#[test]
fn what_the_document_says_of_itself_is_answered() {
    let document = json!({
        "id": "00000000-0000-7000-8000-000000000001", "tenant_id": "acme", "namespace": "eu", "name": "orders",
        "version": 7, "deprecated": true, "status": "staging", "created_at": "2026-01-02T03:04:05Z",
        "blocks": [noop("a")],
    });
    let said = clean(&document);
    assert_eq!(said.id.unwrap().to_string(), "00000000-0000-7000-8000-000000000001");
    assert_eq!(said.tenant_id.as_deref(), Some("acme"));
    assert_eq!((said.namespace.as_str(), said.name.as_str()), ("eu", "orders"));
    assert_eq!((said.version, said.deprecated, said.label.as_str()), (Some(7), true, "staging"));
    assert_eq!(said.created_at.unwrap().to_string(), "2026-01-02T03:04:05.000Z");

    let said = clean(&sequence(json!([noop("a")])));
    assert_eq!((said.id, said.tenant_id, said.version), (None, None, None));
    assert_eq!(
        (said.namespace.as_str(), said.deprecated, said.label.as_str()),
        ("default", false, "production")
    );

    let mut document = sequence(json!([noop("a")]));
    document["status"] = json!("unpublished");
    assert!(clean(&document).deprecated);
    for absent in ["id", "tenant_id", "version", "created_at", "interceptors", "sla", "on_failure"] {
        document[absent] = Value::Null;
    }
    clean(&document);
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for (document, code, path) in [
        (r#"{"name": "n", "blocks": ["#, "INVALID_JSON", "/blocks/0"),
        (r#"{"name": "n", "name": "m"}"#, "JSON_DUPLICATE_KEY", "/name"),
        (r#"{"name": "a\u0000"}"#, "JSON_NUL", "/name"),
        (r#"{"name": 1e400}"#, "JSON_NUMBER", "/name"),
        (r#"{"name": 18446744073709551616}"#, "JSON_NUMBER", "/name"),
    ] {
        let found = check(document.as_bytes()).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].code, found[0].path.as_str()), (code, path), "{found:?}");
    }
    assert_eq!(check(b"\xff").unwrap_err()[0].code, "INVALID_JSON");
    assert_eq!(check(b"").unwrap_err()[0].code, "INVALID_JSON");
}

#[test]
fn a_document_over_one_mebibyte_is_refused_before_it_is_read() {
    let found = check(&vec![b'['; DOCUMENT_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(found[0].code, "TOO_LARGE");
    assert!(found[0].message.contains("1048577 bytes, at most 1048576"), "{found:?}");
    // Just as deep and within the size: refused as deep, without a stack overflow.
    for open in ["[", "{\"a\":"] {
        assert_eq!(check(open.repeat(10_000).as_bytes()).unwrap_err()[0].code, "JSON_DEPTH");
    }
}

#[test]
fn c05_h35_ids_have_a_limit_in_bytes_and_no_control_characters() {
    let with = |id: &str| sequence(json!([{"type": "step", "id": id, "handler": "noop"}]));
    for id in [
        "a".repeat(256),
        "型".repeat(85) + "a",
        "😀".repeat(64),
        "é".into(),
        "e\u{301}".into(),
        "\u{200f}".into(),
        "\u{200b}".into(),
        "../x".into(),
        "%2f".into(),
    ] {
        clean(&with(&id));
    }
    for (id, says) in [
        ("a".repeat(257), "257 bytes long, at most 256"),
        ("型".repeat(86), "258 bytes long, at most 256"),
        ("😀".repeat(1_000), "4000 bytes long"),
        ("\n".into(), "control character"),
        ("a\u{7f}".into(), "control character"),
        ("a\u{9f}".into(), "control character"),
        (" ".into(), "only spaces"),
        (String::new(), "must not be empty"),
        ("_interceptor:before:a".into(), "must not begin with _interceptor:"),
        ("_sla:a".into(), "must not begin with _sla:"),
        ("_cache:a".into(), "must not begin with _cache:"),
    ] {
        refused(&with(&id), "INVALID_FIELD", "/blocks/0/id", says);
    }
    // Not normalised: the composed and the decomposed é are two ids.
    clean(&sequence(json!([noop("é"), noop("e\u{301}")])));
}

#[test]
fn an_id_is_used_once_in_the_whole_tree() {
    let document = sequence(json!([
        noop("a"),
        block(
            "loop",
            "l",
            json!({"condition": "true", "body": [
                block("parallel", "p", json!({"branches": [[noop("x")], [noop("a")]]})),
            ]})
        ),
    ]));
    refused(&document, "INVALID_FIELD", "/blocks/1/body/0/branches/1/0/id", "block at /blocks/0");
}

#[test]
fn a_composite_has_its_bodies() {
    let a = || json!([noop("a")]);
    let branches = |n: usize| Value::Array(vec![json!([]); n]);
    for (kind, fields, path, says) in [
        ("parallel", json!({}), "/branches", "branches is required"),
        ("parallel", json!({"branches": []}), "/branches", "1 to 256"),
        ("parallel", json!({"branches": [7]}), "/branches/0", "an array of blocks, not a number"),
        (
            "parallel",
            json!({"branches": [{"blocks": []}]}),
            "/branches/0",
            "an array of blocks, not an object",
        ),
        ("router", json!({}), "/routes", "or default must be given"),
        ("router", json!({"routes": []}), "/routes", "or default must be given"),
        ("router", json!({"routes": [{"condition": "true"}]}), "/routes/0/blocks", "required in a route"),
        ("router", json!({"routes": [[]]}), "/routes/0", "route must be an object"),
        ("router", json!({"default": 1}), "/default", "must be an array of blocks"),
        ("try_catch", json!({"catch_block": a()}), "/try_block", "try_block is required"),
        ("try_catch", json!({"try_block": [], "catch_block": a()}), "/try_block", "at least one block"),
        ("try_catch", json!({"try_block": a()}), "/catch_block", "catch_block is required"),
        ("try_catch", json!({"try_block": a(), "catch_block": null}), "/catch_block", "must be an array"),
        ("loop", json!({"condition": "true"}), "/body", "body is required"),
        ("loop", json!({"condition": "true", "body": []}), "/body", "at least one block"),
        ("loop", json!({"body": a()}), "/condition", "condition is required"),
        ("loop", json!({"condition": " ", "body": a()}), "/condition", "must not be blank"),
        ("loop", json!({"condition": true, "body": a()}), "/condition", "must be text, not a boolean"),
        ("for_each", json!({"collection": "items"}), "/body", "body is required"),
        ("for_each", json!({"body": a()}), "/collection", "collection is required"),
        ("for_each", json!({"collection": "\t", "body": a()}), "/collection", "must not be blank"),
        ("for_each", json!({"collection": [1], "body": a()}), "/collection", "must be text, not an array"),
    ] {
        refused(&one(kind, fields), "INVALID_FIELD", &format!("/blocks/0{path}"), says);
    }
    published(&one("parallel", json!({"branches": branches(256)})));
    let many = one("parallel", json!({"branches": branches(257)}));
    let problem = problems(&many).remove(0);
    assert_eq!((problem.code, problem.path.as_str()), ("TOO_LARGE", "/blocks/0/branches"));
    assert!(problem.message.contains("257") && problem.message.contains("256"), "{problem:?}");
}

#[test]
fn routes_are_limited_like_branches() {
    let routes = |n: usize| Value::Array(vec![json!({"condition": "true", "blocks": []}); n]);
    published(&one("router", json!({"routes": routes(256)})));
    refused(&one("router", json!({"routes": routes(257)})), "TOO_LARGE", "/blocks/0/routes", "at most 256");
}

#[test]
fn five_thousand_blocks_are_accepted_and_one_more_is_not() {
    let document = |n: usize| sequence((0..n).map(|i| noop(&format!("s{i}"))).collect());
    assert_eq!(clean(&document(BLOCKS_MAX)).program.blocks.len(), BLOCKS_MAX);
    refused(&document(BLOCKS_MAX + 1), "TOO_LARGE", "/blocks", "5001 blocks in all, at most 5000");
}

/// `depth` blocks, each inside the one before.
fn nested(depth: usize, wrap: impl Fn(String, Value) -> Value) -> Value {
    (1..depth).fold(noop("inner"), |inside, i| wrap(format!("b{i}"), inside))
}

#[test]
fn c06_blocks_nest_to_sixty_four_and_no_deeper() {
    let deepest_params = (0..JSON_DEPTH_MAX).fold(json!(1), |inside, _| json!([inside]));
    let wraps: [fn(String, Value) -> Value; 3] = [
        |id, inside| block("loop", &id, json!({"condition": "true", "body": [inside]})),
        |id, inside| block("parallel", &id, json!({"branches": [[inside]]})),
        |id, inside| block("router", &id, json!({"routes": [{"condition": "true", "blocks": [inside]}]})),
    ];
    for wrap in wraps {
        let mut inner = nested(BLOCK_NESTING_MAX, wrap);
        clean(&sequence(json!([inner])));
        inner = nested(BLOCK_NESTING_MAX + 1, wrap);
        let found = problems(&sequence(json!([inner])));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, "TOO_LARGE");
        assert!(found[0].message.contains("64"), "{found:?}");
        // Reached in memory, where no text bounded the depth first.
        let problems = document::check(&sequence(json!([nested(90, wrap)]))).unwrap_err();
        assert_eq!(problems[0].code, "TOO_LARGE");
    }
    let step = block("step", "inner", json!({"handler": "charge", "params": deepest_params}));
    let wrapped = (1..BLOCK_NESTING_MAX).fold(step, |inside, i| wraps[2](format!("b{i}"), inside));
    clean(&sequence(json!([wrapped])));
}

#[test]
fn h10_each_field_of_a_block_counts_its_depth_from_its_own_root() {
    let nest = |depth: usize| (0..depth).fold(json!(1), |inside, _| json!([inside]));
    let with = |key: &str, depth: usize| one("step", json!({"handler": "charge", key: nest(depth)}));
    for depth in [127, 128] {
        clean(&with("params", depth));
    }
    let problem = problems(&with("params", 129)).remove(0);
    assert_eq!(problem.code, "JSON_DEPTH");
    assert!(problem.path.starts_with("/blocks/0/params/0/0"), "{problem:?}");
    assert!(problem.message.contains("128"), "{problem:?}");
    assert_eq!(problems(&with("note", 129)).remove(0).code, "JSON_DEPTH");
    assert_eq!(problems(&with("params", 1_000)).remove(0).code, "JSON_DEPTH");
}

#[test]
fn an_answer_has_at_most_a_hundred_problems() {
    let document = sequence(Value::Array(vec![json!(0); 400_000]));
    assert_eq!(problems(&document).len(), 100);
}
