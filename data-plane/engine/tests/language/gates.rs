//! People, signals, pause, cancel.

use orch8_engine::{Outcome, SignalKind, Status::*, Verdict, timeline::NodeState};
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, log, noop, sleep, with, work};

fn gate(id: &str, more: Value) -> Value {
    with(noop(id), json!({ "wait_for_input": with(json!({"prompt": "go?"}), more) }))
}

#[test]
fn a_gate_opens_for_one_of_its_choices_only() {
    let mut run = Stage::of(json!([gate("g", json!({})), noop("after")]), json!({}));
    run.start();
    for wrong in [json!({"value": "maybe"}), json!({"approved": true}), json!(7), Value::Null] {
        run.answer("g", wrong);
        assert_eq!(run.status(), Waiting);
    }
    run.answer("g", json!({"value": "yes"}));
    run.go_on();
    assert_eq!((run.status(), run.data("g"), run.rows("after").len()), (Completed, json!("yes"), 1));

    let mut run = Stage::of(
        json!([gate("g", json!({"store_as": "d", "choices": [{"label": "One", "value": 1}]}))]),
        json!({}),
    );
    run.start();
    run.answer("g", json!({"value": 1}));
    assert_eq!((run.status(), run.data("d")), (Completed, json!(1)));
}

#[test]
fn an_answer_that_came_before_its_gate_waits_for_it() {
    let mut run = Stage::of(json!([work("w"), gate("g", json!({}))]), json!({}));
    run.start();
    run.answer("g", json!({"value": "no"}));
    run.go_on();
    assert_eq!((run.status(), run.data("g")), (Completed, json!("no")));
}

#[test]
fn a_gate_nobody_answers_escalates_or_fails() {
    let run = Stage::of(json!([gate("g", json!({"timeout": 0.2}))]), json!({})).run();
    assert_eq!((run.status(), run.error().code.as_str(), run.elapsed()), (Failed, "HUMAN_TIMEOUT", 200));

    let run = Stage::of(
        json!([gate("g", json!({"timeout": 0.2, "escalation_handler": "page"})), noop("after")]),
        json!({}),
    )
    .run();
    assert_eq!((run.status(), run.rows("after").len()), (Completed, 1));
    let row = &run.rows("g")[0];
    assert_eq!(
        (&row["_escalated"], &row["_escalation_handler"], &row["_timeout_ms"]),
        (&json!(true), &json!("page"), &json!(200))
    );
}

#[test]
fn a_cancel_ends_what_waits_at_once() {
    let branches = json!([[sleep("a", 2000)], [sleep("b", 2000)], [sleep("c", 2000)]]);
    for blocks in [
        json!([sleep("s", 5000)]),
        json!([{"type": "parallel", "id": "p", "branches": branches}]),
        json!([gate("g", json!({}))]),
    ] {
        let mut run = Stage::of(blocks, json!({}));
        run.start();
        run.cancel();
        assert_eq!((run.status(), run.closed, run.outputs.len()), (Cancelled, 1, 0));
    }
}

#[test]
fn a_cancel_waits_for_what_is_protected_and_always_ends_cancelled() {
    let guarded = json!([
        {"type": "try_catch", "id": "t", "try_block": [work("try")], "catch_block": [noop("catch")], "finally_block": [work("finally")]},
        noop("next")
    ]);
    let mut run = Stage::of(guarded, json!({}));
    run.start();
    run.cancel();
    assert!(run.instance.cancelling());
    run.go_on();
    assert_eq!((run.status(), run.closed), (Cancelled, 1));
    assert_eq!((run.rows("finally").len(), run.rows("catch").len(), run.rows("next").len()), (1, 0, 0));

    for reply in [true, false] {
        let step = with(work("w"), json!({"cancellable": false}));
        let mut run = Stage::of(json!([step, noop("next")]), json!({}))
            .workers(move |_| if reply { Reply::Ok(json!({})) } else { Reply::Fail("BROKEN") });
        run.start();
        run.cancel();
        assert!(!run.status().is_terminal());
        run.go_on();
        assert_eq!((run.status(), run.rows("next").len()), (Cancelled, 0));
        assert_eq!(run.instance.error().is_some(), !reply, "the error of the protected part is kept");
    }
}

#[test]
fn a_late_report_of_a_cancelled_task_changes_nothing() {
    let block = json!({"type": "parallel", "id": "p", "branches": [[work("w")], [with(work("kept"), json!({"cancellable": false}))]]});
    let mut run = Stage::of(json!([block]), json!({}));
    run.start();
    let task = run.waiting[0].clone();
    run.cancel();
    assert_eq!(run.report(&task, Outcome::Completed(json!({"late": 1}))), Some(Verdict::TaskCancelled));
    run.go_on();
    assert_eq!((run.status(), run.data("late"), run.rows("w").len()), (Cancelled, Value::Null, 0));
}

#[test]
fn a_report_while_paused_is_kept_and_nothing_new_begins() {
    let mut run = Stage::of(json!([work("w"), noop("after")]), json!({}));
    run.start();
    run.signal(SignalKind::Pause);
    assert!(run.work());
    assert_eq!((run.status(), run.rows("w").len(), run.rows("after").len()), (Paused, 1, 0));
    run.signal(SignalKind::Resume);
    run.go_on();
    assert_eq!((run.status(), run.sent.len(), run.rows("after").len()), (Completed, 1, 1));

    let mut run = Stage::of(json!([work("w")]), json!({}));
    run.start();
    run.signal(SignalKind::Pause);
    run.work();
    assert_eq!(run.status(), Paused, "it does not end before resume");
    run.signal(SignalKind::Resume);
    assert_eq!(run.status(), Completed);
}

#[test]
fn a_route_is_chosen_after_resume_by_the_data_of_then() {
    let router = json!({"type": "router", "id": "r", "routes": [{"condition": "data.go == 1", "blocks": [noop("yes")]}], "default": [noop("no")]});
    let mut run = Stage::of(json!([work("w"), router]), json!({"go": 0}));
    run.start();
    run.signal(SignalKind::Pause);
    run.work();
    run.signal(SignalKind::UpdateContext(json!({"go": 1}).as_object().cloned().unwrap_or_default()));
    assert_eq!(run.status(), Paused);
    run.signal(SignalKind::Resume);
    run.go_on();
    assert_eq!((run.rows("yes").len(), run.rows("no").len()), (1, 0));
}

#[test]
fn an_update_merges_and_keeps_the_rest() {
    let mut run = Stage::of(json!([gate("g", json!({}))]), json!({"a": 1}));
    run.start();
    run.signal(SignalKind::UpdateContext(json!({"b": 1}).as_object().cloned().unwrap_or_default()));
    assert_eq!((run.data("a"), run.data("b")), (json!(1), json!(1)));
    assert_eq!(run.state("g"), Some(NodeState::Waiting));
}

#[test]
fn a_cancel_of_a_paused_run_ends_it() {
    let mut run = Stage::of(json!([log("a", "x"), sleep("s", 1000)]), json!({}));
    run.start();
    run.signal(SignalKind::Pause);
    run.cancel();
    assert_eq!(run.status(), Cancelled);
}

#[test]
fn messages_that_come_before_the_first_turn_count() {
    use orch8_engine::Event;
    let update = || SignalKind::UpdateContext(json!({"n": 2}).as_object().cloned().unwrap_or_default());

    let mut run = Stage::of(json!([log("a", "{{data.n}}")]), json!({"n": 1}));
    run.signal(update());
    assert_eq!((run.status(), run.rows("a").len()), (Scheduled, 0), "a message does not start a run");
    run.event(Event::Start);
    assert_eq!((run.status(), run.rows("a")), (Completed, vec![json!({"message": 2})]));

    let mut run = Stage::of(json!([noop("a")]), json!({}));
    run.cancel();
    assert_eq!((run.status(), run.closed, run.rows("a").len()), (Cancelled, 1, 0));

    let mut run = Stage::of(json!([noop("a")]), json!({}));
    run.signal(SignalKind::Pause);
    run.event(Event::Start);
    assert_eq!((run.status(), run.rows("a").len()), (Paused, 0));
    run.signal(SignalKind::Resume);
    run.go_on();
    assert_eq!((run.status(), run.rows("a").len()), (Completed, 1));
}
