//! loop and for_each.

use orch8_engine::Status::*;
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, fail, log, noop, with, work};

fn repeat(max: u32, body: Value) -> Value {
    json!({"type": "loop", "id": "l", "condition": "true", "max_iterations": max, "body": body})
}

fn each(collection: &str, body: Value) -> Value {
    json!({"type": "for_each", "id": "e", "collection": collection, "body": body})
}

#[test]
fn a_loop_runs_while_its_condition_holds_and_stops_at_its_cap() {
    for (condition, max, rows, capped) in
        [("false", 5, 0, false), ("true", 1, 1, true), ("true", 3, 3, true), ("true", 4, 4, true)]
    {
        let block = with(repeat(max, json!([noop("a")])), json!({ "condition": condition }));
        let run = Stage::of(json!([block]), json!({})).run();
        assert_eq!((run.status(), run.rows("a").len()), (Completed, rows));
        let row = &run.rows("l")[0];
        assert_eq!((&row["_iterations"], &row["capped"]), (&json!(rows), &json!(capped)));
    }
    let inner = with(repeat(4, json!([noop("a")])), json!({"id": "inner"}));
    let run = Stage::of(json!([repeat(3, json!([inner]))]), json!({})).run();
    assert_eq!(run.rows("a").len(), 12);
}

#[test]
fn a_failing_body_ends_the_loop_unless_it_is_told_or_caught() {
    let run = Stage::of(json!([repeat(3, json!([fail("f")]))]), json!({})).run();
    assert_eq!((run.status(), run.nodes("f").len()), (Failed, 1));

    let caught =
        json!([{"type": "try_catch", "id": "t", "try_block": [fail("f")], "catch_block": [noop("c")]}]);
    let run = Stage::of(json!([repeat(3, caught)]), json!({})).run();
    assert_eq!((run.status(), run.rows("c").len()), (Completed, 3));

    for block in
        [repeat(2, json!([log("a", "x"), fail("f")])), each("items", json!([log("a", "x"), fail("f")]))]
    {
        let block = with(block, json!({"continue_on_error": true}));
        let id = block["id"].as_str().expect("an id").to_owned();
        let run = Stage::of(json!([block]), json!({"items": [1, 2]})).run();
        let row = &run.rows(&id)[0];
        assert_eq!((run.status(), run.rows("a").len()), (Completed, 2));
        assert_eq!(row["results"], json!([null, null]));
        assert_eq!(row["errors"], json!([{"index": 0, "code": "FORCED"}, {"index": 1, "code": "FORCED"}]));
    }
}

#[test]
fn a_permanent_failure_in_iteration_three_of_five_is_the_end() {
    let run = Stage::of(json!([repeat(5, json!([work("w")]))]), json!({}))
        .workers(|task| if task.iteration == "2" { Reply::Fail("BROKEN") } else { Reply::Ok(json!({})) })
        .run();
    assert_eq!((run.status(), run.sent.len(), run.waiting.len()), (Failed, 3, 0));
    assert_eq!(run.error().code, "BROKEN");
}

#[test]
fn a_condition_sees_the_outputs_of_the_iterations_before() {
    for (condition, rows) in [("!(outputs.check.n >= 3)", 3), ("outputs.check.n < 3", 0)] {
        let mut n = 0;
        let block = with(repeat(10, json!([work("check")])), json!({ "condition": condition }));
        let run = Stage::of(json!([block]), json!({}))
            .workers(move |_| {
                n += 1;
                Reply::Ok(json!({ "n": n }))
            })
            .run();
        assert_eq!((run.status(), run.rows("check").len()), (Completed, rows), "{condition}");
    }
}

#[test]
fn tries_are_counted_per_iteration() {
    let body =
        json!([with(work("w"), json!({"retry": {"max_attempts": 3, "initial_backoff": 1, "jitter": 0}}))]);
    let run = Stage::of(json!([repeat(4, body)]), json!({}))
        .workers(|task| if task.attempt < 2 { Reply::FailRetryable } else { Reply::Ok(json!({})) })
        .run();
    assert_eq!((run.status(), run.rows("w").len(), run.sent.len()), (Completed, 4, 12));
}

#[test]
fn a_thousand_iterations_end_without_a_stop_and_without_growing_records() {
    let run = Stage::of(json!([repeat(1000, json!([work("w")]))]), json!({})).run();
    assert_eq!((run.status(), run.rows("w").len()), (Completed, 1000));
    // The last record holds the loop's own row of a thousand results; the others are small.
    assert!(run.turns < 1_100, "{} turns", run.turns);
    assert_eq!(run.elapsed(), 0, "no wait for a poll");

    let block = with(repeat(1000, json!([noop("a")])), json!({"on_max_iterations": "fail"}));
    let run = Stage::of(json!([block]), json!({})).run();
    assert_eq!((run.status(), run.error().code.as_str()), (Failed, "MAX_ITERATIONS"));
}

#[test]
fn a_collection_may_be_written_in_four_ways() {
    for collection in ["items", "data.items", "context.data.items", "{{outputs.x.list}}"] {
        let run = Stage::of(
            json!([work("x"), each(collection, json!([log("a", "{{item}}")]))]),
            json!({"items": [1, 2, 3]}),
        )
        .workers(|_| Reply::Ok(json!({"list": [1, 2, 3]})))
        .run();
        let messages: Vec<Value> = run.rows("a").into_iter().map(|row| row["message"].clone()).collect();
        assert_eq!(messages, [json!(1), json!(2), json!(3)], "{collection}");
    }
}

#[test]
fn nothing_to_iterate_completes_and_a_number_fails() {
    for data in [json!({}), json!({"items": null}), json!({"items": []})] {
        let run = Stage::of(json!([each("items", json!([noop("a")]))]), data.clone()).run();
        assert_eq!((run.status(), &run.rows("e")[0]["results"]), (Completed, &json!([])), "{data}");
    }
    let run = Stage::of(json!([each("items", json!([noop("a")]))]), json!({"items": 7})).run();
    assert_eq!((run.status(), run.error().code.as_str()), (Failed, "NOT_AN_ARRAY"));
}

#[test]
fn the_items_are_those_of_the_beginning() {
    let run = Stage::of(json!([each("items", json!([work("w")]))]), json!({"items": [1, 2, 3]}))
        .workers(|_| Reply::Ok(json!({"items": [1, 2, 3, 4]})))
        .run();
    assert_eq!((run.status(), run.sent.len()), (Completed, 3));
}

#[test]
fn the_item_is_seen_everywhere_in_its_body_and_nowhere_else() {
    let seen = json!([
        log("a", "{{t.n}} {{data.t.n}} {{context.data.t.n}}"),
        with(noop("b"), json!({"when": "t.n == 1"})),
        work("w")
    ]);
    let block = with(each("items", seen), json!({"item_var": "t"}));
    let mut run = Stage::of(json!([block]), json!({"items": [{"n": 1}, {"n": 2}]})).run();
    assert_eq!(run.rows("a"), [json!({"message": "1 1 1"}), json!({"message": "2 2 2"})]);
    assert_eq!(run.rows("b").len(), 1);
    assert_eq!(run.sent[1].0.context["data"]["t"], json!({"n": 2}));
    assert_eq!(run.data("t"), Value::Null);
    run.go_on();
}

#[test]
fn six_thousand_items_ten_at_a_time_keep_their_order() {
    let block = with(
        each("items", json!([with(work("w"), json!({"params": "{{item}}", "merge_output": false}))])),
        json!({"max_iterations": 6000, "concurrency": 10}),
    );
    let items: Vec<u32> = (0..6000).collect();
    let run = Stage::of(json!([block]), json!({ "items": items }))
        .workers(|task| Reply::Ok(task.params.clone()))
        .run();
    assert_eq!(run.status(), Completed);
    assert_eq!(run.rows("e")[0]["results"], json!(items));
    assert!(run.most_waiting <= 10, "{} at once", run.most_waiting);
}

#[test]
fn two_loops_with_one_variable_do_not_talk_to_each_other() {
    let one = |id: &str, items: &str, log_id: &str| {
        with(each(items, json!([work(&format!("w{id}")), log(log_id, "{{item}}")])), json!({ "id": id }))
    };
    let block =
        json!({"type": "parallel", "id": "p", "branches": [[one("e1", "xs", "a")], [one("e2", "ys", "b")]]});
    let run = Stage::of(json!([block]), json!({"xs": [1, 2], "ys": [8, 9]})).run();
    assert_eq!(run.rows("a"), [json!({"message": 1}), json!({"message": 2})]);
    assert_eq!(run.rows("b"), [json!({"message": 8}), json!({"message": 9})]);
}

#[test]
fn a_later_loop_sees_the_last_row_of_an_earlier_one() {
    let first = with(each("xs", json!([log("x", "{{item}}")])), json!({"id": "e1"}));
    let second = with(each("ys", json!([log("y", "{{outputs.x.message}}")])), json!({"id": "e2"}));
    let run = Stage::of(json!([first, second]), json!({"xs": [1, 2, 3], "ys": [1, 2]})).run();
    assert_eq!(run.rows("y"), [json!({"message": 3}), json!({"message": 3})]);
}
