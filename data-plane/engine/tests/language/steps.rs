//! Steps: when, retry, merge, limits of what a worker may answer.

use orch8_engine::{Outcome, Status::*, Verdict, timeline::NodeState};
use orch8_model::limits::OUTPUT_BYTES_MAX;
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, noop, with, work};

#[test]
fn a_falsy_when_skips_the_step() {
    for (when, data, runs) in [
        ("", json!({}), false),
        ("missing.path", json!({}), false),
        ("data.n > 1", json!({"n": 2}), true),
        ("data.n > 1", json!({"n": 1}), false),
    ] {
        let run = Stage::of(json!([with(noop("a"), json!({ "when": when })), noop("b")]), data).run();
        assert_eq!(
            (run.status(), run.rows("a").len(), run.rows("b").len()),
            (Completed, usize::from(runs), 1),
            "{when:?}"
        );
        if !runs {
            assert_eq!(run.state("a"), Some(NodeState::Skipped));
        }
    }
}

#[test]
fn tries_are_as_many_as_the_policy_says() {
    let retry = json!({"retry": {"max_attempts": 3, "initial_backoff": 1, "jitter": 0}});
    // (step, reply, tasks)
    for (step, retryable, tasks) in
        [(with(work("w"), retry.clone()), true, 3), (work("w"), true, 1), (with(work("w"), retry), false, 1)]
    {
        let run = Stage::of(json!([step]), json!({}))
            .workers(move |_| if retryable { Reply::FailRetryable } else { Reply::Fail("NO") })
            .run();
        assert_eq!((run.status(), run.sent.len()), (Failed, tasks));
        let ids: std::collections::BTreeSet<_> = run.sent.iter().map(|(task, _)| task.task).collect();
        assert_eq!(ids.len(), tasks, "each try has its own id");
        let keys: std::collections::BTreeSet<_> =
            run.sent.iter().map(|(task, _)| &task.idempotency_key).collect();
        assert_eq!(keys.len(), 1, "and all share one idempotency key");
    }
}

#[test]
fn waits_double_up_to_their_maximum() {
    let retry = json!({"retry": {"max_attempts": 6, "initial_backoff": 1000, "backoff_multiplier": 2, "max_backoff": 5000, "jitter": 0}});
    let run = Stage::of(json!([with(work("w"), retry)]), json!({})).workers(|_| Reply::FailRetryable).run();
    let waits: Vec<i64> = run.sent.windows(2).map(|pair| pair[1].1.since(pair[0].1)).collect();
    assert_eq!(waits, [1000, 2000, 4000, 5000, 5000]);
}

#[test]
fn a_worker_may_ask_for_a_longer_wait_of_a_day_at_most() {
    let retry = json!({"retry": {"max_attempts": 2, "initial_backoff": 1000, "max_backoff": 2000}});
    for (asked, waited) in [(7_000, 7_000), (2 * 86_400_000, 86_400_000)] {
        let run = Stage::of(json!([with(work("w"), retry.clone())]), json!({}))
            .workers(move |_| Reply::RetryAfter(asked))
            .run();
        assert_eq!(run.sent[1].1.since(run.sent[0].1), waited);
    }
}

#[test]
fn a_policy_may_say_that_a_failure_is_final() {
    for more in [
        json!({"retry_if": "contains(_error.message, \"x\")"}),
        json!({"retry_if": "_error.details.nothing"}),
        json!({"non_retryable_codes": ["BUSY"]}),
    ] {
        let retry = with(json!({"max_attempts": 3, "initial_backoff": 1}), more);
        let run = Stage::of(json!([with(work("w"), json!({ "retry": retry }))]), json!({}))
            .workers(|_| Reply::FailRetryable)
            .run();
        assert_eq!((run.status(), run.sent.len()), (Failed, 1));
    }
}

#[test]
fn an_object_is_merged_into_data_but_for_private_keys() {
    let script = |_: &orch8_engine::Dispatch| Reply::Ok(json!({"_x": 1, "y": 2}));
    let run = Stage::of(json!([work("w")]), json!({})).workers(script).run();
    assert_eq!((run.data("y"), run.data("_x")), (json!(2), Value::Null));
    let run =
        Stage::of(json!([with(work("w"), json!({"merge_output": false}))]), json!({})).workers(script).run();
    assert_eq!(run.data("y"), Value::Null);
}

#[test]
fn params_keep_their_types_and_are_frozen_for_all_tries() {
    let params = json!({"a": "{{data.n}}", "b": "n={{data.n}}", "c": "{{data.q}}", "d": "v={{data.q}}"});
    let step = with(work("w"), json!({"params": params, "retry": {"max_attempts": 2, "initial_backoff": 1}}));
    let mut run = Stage::of(json!([step]), json!({"n": 7}))
        .workers(|task| if task.attempt == 0 { Reply::FailRetryable } else { Reply::Ok(json!({})) });
    run.start();
    run.work();
    run.signal(orch8_engine::SignalKind::UpdateContext(
        json!({"n": 8}).as_object().cloned().unwrap_or_default(),
    ));
    run.go_on();
    for (task, _) in &run.sent {
        assert_eq!(task.params, json!({"a": 7, "b": "n=7", "c": null, "d": "v=null"}));
    }
}

#[test]
fn data_is_never_evaluated() {
    let run = Stage::of(
        json!([with(work("w"), json!({"params": "{{data.v}}"}))]),
        json!({"v": "{{data.secret}}", "secret": 1}),
    )
    .run();
    assert_eq!(run.sent[0].0.params, json!("{{data.secret}}"));
}

#[test]
fn an_output_that_breaks_the_rules_fails_the_step_once() {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let wide = json!("x".repeat(OUTPUT_BYTES_MAX + 1));
    for (output, verdict, code) in [
        (json!({"a": "x\u{0}"}), Verdict::Invalid, "INVALID_OUTPUT"),
        (deep, Verdict::Invalid, "INVALID_OUTPUT"),
        (wide, Verdict::TooLarge, "OUTPUT_TOO_LARGE"),
    ] {
        let mut run = Stage::of(json!([with(work("w"), json!({"retry": {"max_attempts": 3}}))]), json!({}));
        run.start();
        let task = run.waiting.pop_front().expect("a task");
        assert_eq!(run.report(&task, Outcome::Completed(output)), Some(verdict));
        assert_eq!((run.status(), run.error().code.as_str(), run.sent.len()), (Failed, code, 1));
        if code == "OUTPUT_TOO_LARGE" {
            let message = &run.error().message;
            assert!(
                message.contains(&OUTPUT_BYTES_MAX.to_string())
                    && message.contains(&(OUTPUT_BYTES_MAX + 3).to_string()),
                "{message}"
            );
        }
    }
}

#[test]
fn built_ins_answer_what_they_say() {
    for (handler, params, output) in [
        ("noop", json!({}), json!({})),
        ("log", json!({}), json!({"message": "no message"})),
        ("log", json!({"message": {"a": 1}}), json!({"message": {"a": 1}})),
        ("sleep", json!({"duration_ms": 5}), json!({"slept_ms": 5})),
        (
            "transform",
            json!({"expression": "data.n + 1", "target": "deep.m"}),
            json!({"target": "deep.m", "value": 8}),
        ),
        ("transform", json!({"any": "{{data.n}}"}), json!({"any": 7})),
        ("assert", json!({"condition": "data.n == 7"}), json!({"condition": "data.n == 7", "passed": true})),
    ] {
        let step = json!({"type": "step", "id": "b", "handler": handler, "params": params});
        let run = Stage::of(json!([step]), json!({"n": 7})).run();
        assert_eq!((run.status(), run.rows("b")), (Completed, vec![output]), "{handler} {params}");
        if params["target"].is_string() {
            assert_eq!(run.data("deep"), json!({"m": 8}));
        }
    }
    let step = json!({"type": "step", "id": "b", "handler": "fail", "params": {"message": "why", "code": "MINE", "details": {"a": 1}}});
    let run = Stage::of(json!([step]), json!({})).run();
    let error = run.error();
    assert_eq!(
        (error.code.as_str(), error.message.as_str(), &error.details),
        ("MINE", "why", &json!({"a": 1}))
    );
}

#[test]
fn wrapping_an_output_deeper_and_deeper_ends_at_the_limit() {
    let blocks: Vec<Value> =
        (0..200).map(|n| with(work(&format!("w{n}")), json!({"params": "{{data.v}}"}))).collect();
    let run = Stage::of(json!(blocks), json!({"v": 1}))
        .workers(|task| Reply::Ok(json!({ "v": [task.params] })))
        .run();
    assert_eq!((run.status(), run.error().code.as_str()), (Failed, "INVALID_OUTPUT"));
}
