//! Bodies, parallel, router, try_catch.

use orch8_engine::{Status::*, timeline::NodeState};
use serde_json::json;

use crate::stage::{Reply, Stage, fail, log, noop, sleep, with, work};

#[test]
fn parallel_branches_all_run_and_empty_ones_are_done() {
    // (branches, blocks that have one row each)
    for (branches, rows) in [
        (json!([[]]), vec![]),
        (json!([[], [noop("a")]]), vec!["a"]),
        (json!([[noop("a")]]), vec!["a"]),
        (
            json!([[noop("a"), noop("b")], [noop("c")], [noop("d")], [noop("e")], [noop("f")], [noop("g")]]),
            vec!["a", "b", "c", "d", "e", "f", "g"],
        ),
    ] {
        let run = Stage::of(json!([{"type": "parallel", "id": "p", "branches": branches}]), json!({})).run();
        assert_eq!(run.status(), Completed, "{branches}");
        assert_eq!(run.outputs.iter().map(|row| row.block_id.as_str()).collect::<Vec<_>>(), rows);
    }
}

#[test]
fn parallel_sleeps_pass_at_the_same_time() {
    let run = Stage::of(
        json!([{"type": "parallel", "id": "p", "branches": [[sleep("a", 1000)], [sleep("b", 1000)]]}]),
        json!({}),
    )
    .run();
    assert_eq!((run.status(), run.elapsed()), (Completed, 1000));
}

#[test]
fn a_failed_branch_waits_for_the_others_unless_told_to_fail_fast() {
    // Told to fail fast, the second branch is over before its first block was activated.
    for (fail_fast, elapsed, state) in [(false, 500, Some(NodeState::Completed)), (true, 0, None)] {
        let run = Stage::of(
            json!([{"type": "parallel", "id": "p", "fail_fast": fail_fast,
                    "branches": [[fail("f")], [sleep("s", 500)]]}]),
            json!({}),
        )
        .run();
        assert_eq!((run.status(), run.elapsed(), run.state("s")), (Failed, elapsed, state));
    }
}

#[test]
fn a_branch_that_fails_later_cancels_the_sleep_beside_it() {
    let block = json!({"type": "parallel", "id": "p", "fail_fast": true, "branches": [[work("w")], [sleep("s", 500)]]});
    let run = Stage::of(json!([block]), json!({})).workers(|_| Reply::Fail("BROKEN")).run();
    assert_eq!((run.status(), run.elapsed(), run.state("s")), (Failed, 0, Some(NodeState::Cancelled)));
}

#[test]
fn a_back_off_in_one_branch_does_not_hold_another() {
    let mut run = Stage::of(
        json!([{"type": "parallel", "id": "p", "branches": [
            [with(fail("f"), json!({"params": {"retryable": true}, "retry": {"max_attempts": 2, "initial_backoff": 10000, "jitter": 0}}))],
            [noop("a"), noop("b")]
        ]}]),
        json!({}),
    );
    run.start();
    assert_eq!(run.rows("b").len(), 1);
    assert_eq!(run.elapsed(), 0);
    run.go_on();
    assert_eq!((run.status(), run.elapsed()), (Failed, 10_000));
}

#[test]
fn the_cause_of_several_failures_is_the_lowest_branch() {
    let branch = |n: u32| {
        let handler = if n.is_multiple_of(2) { "noop" } else { "fail" };
        json!([{"type": "step", "id": format!("b{n}"), "handler": handler, "params": {"message": format!("m{n}")}}])
    };
    let branches: Vec<_> = (0..8).map(branch).collect();
    let run = Stage::of(json!([{"type": "parallel", "id": "p", "branches": branches}]), json!({})).run();
    assert_eq!((run.status(), run.closed), (Failed, 1));
    assert_eq!((run.error().block_id.as_str(), run.error().message.as_str()), ("b1", "m1"));
}

#[test]
fn what_follows_a_failure_in_its_body_is_skipped_and_never_sent() {
    let body = json!([noop("a"), fail("f"), work("c")]);
    for blocks in [
        body.clone(),
        json!([{"type": "try_catch", "id": "t", "try_block": body, "catch_block": []}]),
        json!([{"type": "loop", "id": "l", "condition": "true", "max_iterations": 1, "body": body}]),
    ] {
        let run = Stage::of(blocks.clone(), json!({})).run();
        assert_eq!((run.rows("a").len(), run.rows("c").len(), run.tasks("c")), (1, 0, 0), "{blocks}");
        assert!(matches!(run.state("c"), Some(NodeState::Skipped) | None), "{blocks}");
    }
}

#[test]
fn a_router_takes_the_first_true_route_and_no_other() {
    let route = |condition: &str, id: &str| json!({"condition": condition, "blocks": [noop(id)]});
    // (routes, has a default, data, the block that runs)
    for (routes, default, data, taken) in [
        (json!([route("true", "a"), route("true", "b")]), true, json!({}), "a"),
        (json!([route("false", "a"), route("false", "b")]), true, json!({}), "d"),
        (json!([route("false", "a")]), false, json!({}), ""),
        (json!([route("count * 2 > threshold", "a")]), true, json!({"count": 5, "threshold": 8}), "a"),
        (json!([route("maybe == \"x\"", "a")]), true, json!({}), "d"),
        (json!([route("mode == nonexistent", "a")]), true, json!({"mode": "fast"}), "d"),
        (json!([route("mode == fast", "a")]), true, json!({"mode": "fast"}), "a"),
        (json!([route("plan == enterprise", "a")]), true, json!({}), "d"),
        (json!([route("maybe == \"maybe\"", "a")]), true, json!({}), "d"),
        (json!([route("\"5\" == 5", "a"), route("missing == null", "b")]), true, json!({}), "b"),
        (json!([route("1 == 1.0", "a")]), true, json!({}), "a"),
        (json!([route("1/0", "a")]), true, json!({}), "d"),
        (json!([route("o", "a")]), true, json!({"o": {}}), "a"),
        (json!([route("o", "a")]), true, json!({"o": []}), "d"),
    ] {
        let mut router = json!({"type": "router", "id": "r", "routes": routes});
        if default {
            router = with(router, json!({"default": [noop("d")]}));
        }
        let run = Stage::of(json!([router]), data.clone()).run();
        let ran: Vec<&str> = run.outputs.iter().map(|row| row.block_id.as_str()).collect();
        assert_eq!((run.status(), ran.join(",").as_str()), (Completed, taken), "{routes} on {data}");
    }
}

#[test]
fn a_route_is_chosen_once_whatever_becomes_of_the_data() {
    let run = Stage::of(
        json!([
            {"type": "router", "id": "r",
             "routes": [{"condition": "mode == 1", "blocks": [work("first"), noop("second")]}], "default": [noop("other")]}
        ]),
        json!({"mode": 1}),
    )
    .workers(|_| Reply::Ok(json!({"mode": 2})))
    .run();
    assert_eq!((run.status(), run.data("mode")), (Completed, json!(2)));
    assert_eq!((run.rows("second").len(), run.rows("other").len()), (1, 0));
}

#[test]
fn a_route_sees_what_a_worker_merged() {
    let run = Stage::of(
        json!([
            work("classify"),
            {"type": "router", "id": "r", "routes": [{"condition": "category == \"A\"", "blocks": [noop("a")]}]}
        ]),
        json!({}),
    )
    .workers(|_| Reply::Ok(json!({"category": "A"})))
    .run();
    assert_eq!(run.rows("a").len(), 1);
}

#[test]
fn a_catch_runs_after_a_failure_and_a_finally_always() {
    let block = |try_: serde_json::Value, catch: serde_json::Value, finally: serde_json::Value| json!([{"type": "try_catch", "id": "t", "try_block": try_, "catch_block": catch, "finally_block": finally}]);
    // (document, status, blocks with a row)
    for (blocks, status, rows) in [
        (block(json!([noop("a")]), json!([noop("c")]), json!([noop("z")])), Completed, "a,z"),
        (block(json!([fail("f")]), json!([noop("c")]), json!([noop("z")])), Completed, "c,z"),
        (block(json!([fail("f")]), json!([]), json!([noop("z")])), Completed, "z"),
        (block(json!([fail("f")]), json!([fail("g")]), json!([noop("z")])), Failed, "z"),
        (block(json!([noop("a")]), json!([]), json!([fail("g")])), Failed, "a"),
        (
            block(
                block(json!([fail("f")]), json!([fail("g")]), json!([noop("y")]))
                    .as_array()
                    .map(|b| json!([with(b[0].clone(), json!({"id": "inner"}))]))
                    .expect("an array"),
                json!([noop("c")]),
                json!([noop("z")]),
            ),
            Completed,
            "y,c,z",
        ),
        (
            block(json!([noop("t1"), noop("t2"), fail("t3")]), json!([noop("c1"), noop("c2")]), json!([])),
            Completed,
            "t1,t2,c1,c2",
        ),
    ] {
        let run = Stage::of(blocks.clone(), json!({})).run();
        let ran: Vec<&str> = run.outputs.iter().map(|row| row.block_id.as_str()).collect();
        assert_eq!((run.status(), ran.join(",").as_str()), (status, rows), "{blocks}");
    }
}

#[test]
fn a_catch_sees_the_error_and_what_follows_does_not() {
    let run = Stage::of(
        json!([
            {"type": "try_catch", "id": "t", "try_block": [noop("t1"), fail("t3")],
             "catch_block": [log("c", "{{_error.code}} {{_error.failed_blocks.0}} {{_error.source}} {{_error.block_id}}")]},
            log("after", "{{_error}}")
        ]),
        json!({}),
    )
    .run();
    assert_eq!(run.rows("c"), [json!({"message": "FORCED t3 try_catch t"})]);
    assert_eq!(run.rows("after"), [json!({"message": null})]);
}

#[test]
fn every_kind_of_failure_can_be_caught() {
    let catch = |step: serde_json::Value| json!([{"type": "try_catch", "id": "t", "try_block": [step], "catch_block": [log("c", "{{_error.code}}")]}]);
    for (step, code) in [
        (with(sleep("s", 10_000), json!({"timeout": 2000})), "TIMEOUT"),
        (with(work("w"), json!({"deadline": 500})), "DEADLINE"),
        (with(noop("g"), json!({"wait_for_input": {"prompt": "?", "timeout": 200}})), "HUMAN_TIMEOUT"),
        (json!({"type": "step", "id": "x", "handler": "tool_call"}), "HANDLER_NOT_SUPPORTED"),
        (with(noop("x"), json!({"when": "a ==== b"})), "EXPRESSION_SYNTAX"),
        (
            json!({"type": "step", "id": "x", "handler": "log", "params": {"message": "{{foo.bar}}"}}),
            "TEMPLATE_UNKNOWN_ROOT",
        ),
        (
            json!({"type": "step", "id": "x", "handler": "log", "params": {"message": "{{data.q | required()}}"}}),
            "TEMPLATE_MISSING",
        ),
        (
            json!({"type": "step", "id": "x", "handler": "assert", "params": {"condition": "1 > 2"}}),
            "ASSERTION",
        ),
        (json!({"type": "for_each", "id": "x", "collection": "seven", "body": [noop("i")]}), "NOT_AN_ARRAY"),
        (
            json!({"type": "loop", "id": "x", "condition": "true", "max_iterations": 2, "on_max_iterations": "fail", "body": [noop("i")]}),
            "MAX_ITERATIONS",
        ),
    ] {
        let run = Stage::of(catch(step.clone()), json!({"seven": 7})).workers(|_| Reply::Silent).run();
        assert_eq!((run.status(), run.rows("c")), (Completed, vec![json!({ "message": code })]), "{step}");
    }
}

#[test]
fn an_error_keeps_the_place_where_it_arose() {
    let run = Stage::of(
        json!([{"type": "loop", "id": "l", "condition": "true", "max_iterations": 2, "body": [
            {"type": "parallel", "id": "p", "branches": [[noop("a")], [fail("f")]]}
        ]}]),
        json!({}),
    )
    .run();
    let error = run.error();
    assert_eq!(
        (error.source.as_str(), error.block_id.as_str(), error.leaf_block.as_str()),
        ("step", "f", "f")
    );
}

#[test]
fn a_handler_of_another_version_fails_without_a_task() {
    let run = Stage::of(json!([{"type": "step", "id": "x", "handler": "tool_call"}]), json!({})).run();
    assert_eq!(
        (run.status(), run.error().code.as_str(), run.sent.len()),
        (Failed, "HANDLER_NOT_SUPPORTED", 0)
    );
}
