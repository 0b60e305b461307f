use super::*;

#[test]
fn what_is_legal_and_odd_is_told() {
    let a = || json!([noop("a")]);
    for (document, code, path, says) in [
        (
            one("parallel", json!({"branches": [[], a()]})),
            "EMPTY_BRANCH",
            "/blocks/0/branches/0",
            "without blocks",
        ),
        (
            one("router", json!({"routes": [{"condition": "true", "blocks": []}]})),
            "EMPTY_ROUTE",
            "/blocks/0/routes/0/blocks",
            "without blocks",
        ),
        (
            one("try_catch", json!({"try_block": a(), "catch_block": []})),
            "EMPTY_CATCH",
            "/blocks/0/catch_block",
            "swallows every error",
        ),
        (
            one("step", json!({"handler": "charge", "timeout": 2, "deadline": 1})),
            "TIMEOUT_OVER_DEADLINE",
            "/blocks/0/timeout",
            "deadline of 1 ms",
        ),
        (
            one("step", json!({"handler": "charge", "deadline": 1, "wait_for_input": {"timeout": 5}})),
            "TIMEOUT_OVER_DEADLINE",
            "/blocks/0/wait_for_input",
            "deadline of 1 ms",
        ),
        (
            sequence(json!([
                noop("a"),
                block("step", "f", json!({"handler": "fail"})),
                noop("c"),
                noop("d")
            ])),
            "UNREACHABLE_BLOCKS",
            "/blocks/2",
            "\"f\"",
        ),
        (
            one("step", json!({"handler": "noop", "merge_output": false})),
            "NO_EFFECT",
            "/blocks/0/merge_output",
            "does nothing for noop",
        ),
        (
            one(
                "step",
                json!({"handler": "noop", "wait_for_input": {"timeout": 1, "escalation_handler": "page"}}),
            ),
            "EXTERNAL_ESCALATION",
            "/blocks/0/wait_for_input/escalation_handler",
            "not called",
        ),
        (
            one("step", json!({"handler": "noop", "wait_for_input": {"escalation_handler": "log"}})),
            "NO_EFFECT",
            "/blocks/0/wait_for_input/escalation_handler",
            "without timeout",
        ),
    ] {
        warned(&document, code, path, says);
    }
}

#[test]
fn a_conditional_fail_leaves_what_follows_reachable() {
    let fail = block("step", "f", json!({"handler": "fail", "when": "data.bad"}));
    clean(&sequence(json!([fail, noop("c")])));
    clean(&sequence(json!([noop("c"), block("step", "f", json!({"handler": "fail"}))])));
}

#[test]
fn a_timeout_as_long_as_the_deadline_is_fine() {
    clean(&one("step", json!({"handler": "charge", "timeout": 5, "deadline": 5})));
}
