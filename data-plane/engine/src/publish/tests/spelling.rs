use super::*;
use crate::program::{BodyIx, Kind, Program};

fn shape(program: &Program, body: BodyIx) -> String {
    let blocks = program.body(body).blocks.iter().map(|ix| {
        let block = program.block(*ix);
        let inside: Vec<BodyIx> = match &block.kind {
            Kind::Step(_) => Vec::new(),
            Kind::Parallel { branches, .. } => branches.clone(),
            Kind::Router { routes, default } => {
                routes.iter().map(|(_, body)| *body).chain(*default).collect()
            }
            Kind::TryCatch { try_, catch, finally } => [*try_, *catch].into_iter().chain(*finally).collect(),
            Kind::Loop(l) => vec![l.body],
            Kind::ForEach(f) => vec![f.body],
        };
        let inside: Vec<String> = inside.into_iter().map(|body| shape(program, body)).collect();
        format!("{}:{}{}", block.kind.name(), block.id, inside.join(""))
    });
    format!("[{}]", blocks.collect::<Vec<_>>().join(" "))
}

#[test]
fn c12b_an_accepted_spelling_is_the_canonical_form_with_a_warning() {
    for (spelt, canonical, path) in [
        (
            one("parallel", json!({"blocks": [[noop("x"), noop("y")], [noop("z")]]})),
            one("parallel", json!({"branches": [[noop("x"), noop("y")], [noop("z")]]})),
            "/blocks/0/blocks",
        ),
        (
            one("loop", json!({"condition": "true", "blocks": [noop("x")]})),
            one("loop", json!({"condition": "true", "body": [noop("x")]})),
            "/blocks/0/blocks",
        ),
        (
            one("for_each", json!({"collection": "items", "blocks": [noop("x")]})),
            one("for_each", json!({"collection": "items", "body": [noop("x")]})),
            "/blocks/0/blocks",
        ),
        (
            one("try_catch", json!({"try": [noop("x")], "catch_block": [noop("y")]})),
            one("try_catch", json!({"try_block": [noop("x")], "catch_block": [noop("y")]})),
            "/blocks/0/try",
        ),
        (
            one("try_catch", json!({"try_block": [noop("x")], "catch": [noop("y")]})),
            one("try_catch", json!({"try_block": [noop("x")], "catch_block": [noop("y")]})),
            "/blocks/0/catch",
        ),
        (
            one(
                "try_catch",
                json!({"try_block": [noop("x")], "catch_block": [noop("y")], "finally": [noop("z")]}),
            ),
            one(
                "try_catch",
                json!({"try_block": [noop("x")], "catch_block": [noop("y")], "finally_block": [noop("z")]}),
            ),
            "/blocks/0/finally",
        ),
        (
            one("router", json!({"routes": [], "else": [noop("x")]})),
            one("router", json!({"routes": [], "default": [noop("x")]})),
            "/blocks/0/else",
        ),
        (json!({"name": "n", "steps": [noop("x")]}), json!({"name": "n", "blocks": [noop("x")]}), "/steps"),
        (sequence(json!([{"id": "x", "handler": "noop"}])), sequence(json!([noop("x")])), "/blocks/0/type"),
    ] {
        warned(&spelt, "SPELLING", path, "read as");
        let [spelt, canonical] =
            [published(&spelt), clean(&canonical)].map(|p| shape(&p.program, Program::ROOT));
        assert_eq!(spelt, canonical);
    }
}

#[test]
fn a_block_among_branches_is_a_branch_of_its_own() {
    let found = published(&one("parallel", json!({"blocks": [noop("x"), [noop("y"), noop("z")]]})));
    assert_eq!(shape(&found.program, Program::ROOT), "[parallel:b[step:x][step:y step:z]]");
    let codes: Vec<_> = found.warnings.iter().map(|w| (w.code, w.path.as_str())).collect();
    assert_eq!(codes, [("SPELLING", "/blocks/0/blocks"), ("SPELLING", "/blocks/0/blocks/0")]);
}

#[test]
fn problems_inside_a_spelling_are_at_the_place_as_spelt() {
    let document = json!({"name": "n", "steps": [{"type": "loop", "id": "l", "condition": "true", "blocks": [
        {"id": "x", "type": "step"},
    ]}]});
    refused(&document, "INVALID_FIELD", "/steps/0/blocks/0/handler", "handler is required in a step");
}

#[test]
fn two_spellings_of_one_field_are_refused() {
    for (document, path, says) in [
        (json!({"name": "n", "blocks": [noop("a")], "steps": [noop("b")]}), "/steps", "spelling of blocks"),
        (one("parallel", json!({"branches": [[noop("a")]], "blocks": [[]]})), "/blocks/0/blocks", "branches"),
        (
            one("loop", json!({"condition": "true", "body": [noop("a")], "blocks": []})),
            "/blocks/0/blocks",
            "body",
        ),
        (one("router", json!({"default": [], "else": []})), "/blocks/0/else", "default"),
        (
            one("try_catch", json!({"try_block": [noop("a")], "try": [], "catch_block": [noop("c")]})),
            "/blocks/0/try",
            "try_block",
        ),
    ] {
        refused(&document, "INVALID_FIELD", path, says);
    }
}

#[test]
fn c12c_a_key_that_would_silently_not_run_is_refused_with_a_suggestion() {
    let a = || json!([noop("a")]);
    for (document, path, says) in [
        (
            one("parallel", json!({"branches": [a()], "branchs": []})),
            "/blocks/0/branchs",
            "did you mean branches?",
        ),
        (
            one("loop", json!({"condition": "true", "body": a(), "do": [{"type": "step"}]})),
            "/blocks/0/do",
            "stand in body",
        ),
        (
            one("try_catch", json!({"try_block": a(), "catch_block": a(), "ensure": [{"handler": "x"}]})),
            "/blocks/0/ensure",
            "one of try_block, catch_block, finally_block",
        ),
        (
            one("step", json!({"handler": "noop", "children": [noop("z")]})),
            "/blocks/0/children",
            "a step holds no blocks",
        ),
        (
            one("step", json!({"handler": "noop", "stages": [[noop("z")]]})),
            "/blocks/0/stages",
            "would never run",
        ),
        (one("step", json!({"handler": "noop", "timeOut": 1})), "/blocks/0/timeOut", "did you mean timeout?"),
        (
            one("step", json!({"handler": "noop", "scheduleToStartTimeout": 1})),
            "/blocks/0/scheduleToStartTimeout",
            "schedule_to_start_timeout",
        ),
        (
            one("step", json!({"handler": "noop", "retry": {"max_attempts": 2, "max_attemps": 3}})),
            "/blocks/0/retry/max_attemps",
            "did you mean max_attempts?",
        ),
        (
            one("step", json!({"handler": "noop", "delay": {"duration": 2, "fireAtLocal": ""}})),
            "/blocks/0/delay/fireAtLocal",
            "did you mean fire_at_local?",
        ),
        (
            one("step", json!({"handler": "noop", "wait_for_input": {"choises": []}})),
            "/blocks/0/wait_for_input/choises",
            "did you mean choices?",
        ),
        (
            one("router", json!({"routes": [{"condition": "true", "blocks": [], "conditon": ""}]})),
            "/blocks/0/routes/0/conditon",
            "did you mean condition?",
        ),
        (
            json!({"name": "n", "blocks": a(), "cleanup": [{"type": "step", "id": "z", "handler": "noop"}]}),
            "/cleanup",
            "stand in blocks",
        ),
        (json!({"name": "n", "blocks": a(), "on_failur": null}), "/on_failur", "did you mean on_failure?"),
    ] {
        let found = problems(&document);
        assert!(
            found.iter().any(|p| p.code == "INVALID_FIELD" && p.path == path && p.message.contains(says)),
            "{path} {says}: {found:#?}"
        );
    }
}

#[test]
fn a_key_that_means_nothing_is_kept_and_told() {
    for (document, path) in [
        (json!({"name": "n", "blocks": [noop("a")], "description": "x"}), "/description"),
        (one("step", json!({"handler": "noop", "x-owner": {"type": "team"}})), "/blocks/0/x-owner"),
        (one("step", json!({"handler": "noop", "kind": "x"})), "/blocks/0/kind"),
        (one("step", json!({"handler": "noop", "ids": [1, [2]]})), "/blocks/0/ids"),
        (one("step", json!({"handler": "noop", "a/b": 1})), "/blocks/0/a~1b"),
        (
            one("step", json!({"handler": "noop", "retry": {"max_attempts": 1, "why": ""}})),
            "/blocks/0/retry/why",
        ),
    ] {
        warned(&document, "UNKNOWN_FIELD", path, "is ignored");
    }
}

#[test]
fn c12d_a_step_field_on_a_composite_is_refused_with_the_remedy() {
    let a = || json!([noop("a")]);
    let composites = [
        ("parallel", json!({"branches": [a()]})),
        ("router", json!({"default": a()})),
        ("try_catch", json!({"try_block": a(), "catch_block": [noop("c")]})),
        ("loop", json!({"condition": "true", "body": a()})),
        ("for_each", json!({"collection": "items", "body": a()})),
    ];
    for (kind, fields) in composites {
        for (field, remedy) in [
            ("when", "router"),
            ("retry", "steps inside"),
            ("timeout", "try_catch"),
            ("deadline", "try_catch"),
            ("schedule_to_start_timeout", "try_catch"),
            ("delay", "sleep step before"),
            ("wait_for_input", "step before the block"),
            ("handler", "step with this handler inside"),
            ("params", "step with this handler inside"),
            ("cancellable", "step inside"),
            ("delivery", "step inside"),
            ("merge_output", "step inside"),
            ("queue_name", "step inside"),
            ("send_window", "step before"),
            ("compensation", "try_catch"),
        ] {
            let mut fields = fields.clone();
            fields[field] = json!(1);
            let says = if field == "send_window" { "sleep step before" } else { remedy };
            refused(&one(kind, fields), "INVALID_FIELD", &format!("/blocks/0/{field}"), says);
        }
    }
}

#[test]
fn a_block_without_a_known_type_is_refused() {
    for (block, says) in [
        (json!({"id": "a"}), "type is required in a block: one of step, parallel"),
        (json!({"id": "a", "type": "stap"}), "did you mean step?"),
        (json!({"id": "a", "type": "foreach"}), "did you mean for_each?"),
        (json!({"id": "a", "type": "rase"}), "did you mean race?"),
        (json!({"id": "a", "type": "Step"}), "did you mean step?"),
        (json!({"id": "a", "type": "whatever"}), "is unknown"),
        (json!({"id": "a", "type": 7}), "must be text, not a number"),
        (json!({"id": "a", "type": null, "handler": "noop"}), "must be text, not null"),
    ] {
        refused(&sequence(json!([block])), "INVALID_FIELD", "/blocks/0/type", says);
    }
}
