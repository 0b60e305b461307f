//! Deliveries: lost leases, late reports, keys.

use orch8_engine::{HowLost, Outcome, Status::*, Verdict, timeline::Wait};
use serde_json::json;

use crate::stage::{Reply, Stage, with, work};

#[test]
fn a_redelivery_is_the_same_try_with_a_higher_claim_epoch() {
    let mut run = Stage::of(json!([work("w")]), json!({}));
    run.start();
    let first = run.waiting.pop_front().expect("a task");
    run.lost(&first, HowLost::LeaseEnded);
    let second = run.waiting.pop_front().expect("again");
    assert_eq!(
        (second.task, second.attempt, &second.idempotency_key),
        (first.task, first.attempt, &first.idempotency_key)
    );
    assert!(second.claim_epoch > first.claim_epoch);
    assert_eq!(run.report(&first, Outcome::Completed(json!({"v": 1}))), Some(Verdict::StaleLease));
    assert_eq!(run.report(&second, Outcome::Completed(json!({"v": 2}))), Some(Verdict::Committed));
    assert_eq!((run.status(), run.data("v")), (Completed, json!(2)));
}

#[test]
fn what_never_started_burns_no_attempt() {
    let mut run = Stage::of(json!([with(work("w"), json!({"retry": {"max_attempts": 2}}))]), json!({}));
    run.start();
    for round in 1..=50_u64 {
        let task = run.waiting.pop_front().expect("a task");
        assert_eq!((task.attempt, task.claim_epoch.get()), (0, run.sent[0].0.claim_epoch.get() + round - 1));
        run.lost(&task, HowLost::NeverStarted);
    }
    run.go_on();
    assert_eq!(run.status(), Completed);
}

#[test]
fn leases_that_always_end_are_given_up() {
    let lost = |_: &orch8_engine::Dispatch| Reply::Lost;
    let run = Stage::of(json!([work("w")]), json!({})).workers(lost).run();
    assert_eq!((run.status(), run.error().code.as_str()), (Failed, "WORKER_LOST"));
    assert_eq!(run.sent.iter().map(|(t, _)| t.attempt).collect::<Vec<_>>(), [0; 6]);

    let run = Stage::of(
        json!([with(work("w"), json!({"retry": {"max_attempts": 2, "initial_backoff": 1}}))]),
        json!({}),
    )
    .workers(lost)
    .run();
    assert_eq!((run.status(), run.error().code.as_str()), (Failed, "WORKER_LOST"));
    assert_eq!(run.sent.iter().map(|(t, _)| t.attempt).collect::<Vec<_>>(), [0, 1]);

    let run = Stage::of(
        json!([with(work("w"), json!({"delivery": "at_most_once", "retry": {"max_attempts": 5}}))]),
        json!({}),
    )
    .workers(lost)
    .run();
    assert_eq!((run.status(), run.sent.len()), (Waiting, 1));
    assert!(
        matches!(run.nodes("w")[0].wait, Some(Wait::UnknownEffect { .. })),
        "{:?}",
        run.nodes("w")[0].wait
    );
}

#[test]
fn a_success_that_comes_after_its_timeout_counts_until_the_next_try_is_sent() {
    let step = with(
        work("w"),
        json!({"timeout": 100, "retry": {"max_attempts": 2, "initial_backoff": 1000, "jitter": 0}}),
    );
    let mut run = Stage::of(json!([step.clone()]), json!({}));
    run.start();
    let task = run.waiting.pop_front().expect("a task");
    run.lost(&task, HowLost::StartToClose);
    assert_eq!(run.report(&task, Outcome::Completed(json!({"v": 1}))), Some(Verdict::Committed));
    run.go_on();
    assert_eq!((run.status(), run.sent.len(), run.data("v")), (Completed, 1, json!(1)));

    let mut run = Stage::of(json!([step]), json!({}));
    run.start();
    let task = run.waiting.pop_front().expect("a task");
    run.lost(&task, HowLost::StartToClose);
    assert!(run.wake());
    assert_eq!(run.report(&task, Outcome::Completed(json!({"v": 1}))), Some(Verdict::StaleLease));
    run.go_on();
    assert_eq!((run.status(), run.sent.len()), (Completed, 2));
}

#[test]
fn a_report_is_taken_once() {
    let mut run = Stage::of(json!([work("a"), work("b")]), json!({}));
    run.start();
    let task = run.waiting.pop_front().expect("a task");
    assert_eq!(run.report(&task, Outcome::Completed(json!({}))), Some(Verdict::Committed));
    assert_eq!(run.report(&task, Outcome::Completed(json!({}))), Some(Verdict::StaleLease));
    assert_eq!(run.rows("a").len(), 1);
}

#[test]
fn an_idempotency_key_is_what_the_specification_computed() {
    let block = json!({"type": "for_each", "id": "items", "collection": "xs", "body": [work("pay")]});
    let run = Stage::of(json!([block]), json!({"xs": [1, 2, 3]})).run();
    let third = &run.sent[2].0;
    let effect = orch8_seal::effect_key(orch8_seal::EffectPath {
        tree: "main",
        path: &["items", "pay"],
        iteration: &[2],
        ordinal: 0,
    });
    assert_eq!(effect.hex(), "2f51b5653f109c9185a50d15fb0bdd1b5a26dadd62797ac74c8bb8265934159a");
    let birth = run.instance.birth();
    assert_eq!(
        third.idempotency_key,
        orch8_seal::idempotency_key(&birth.tenant, birth.continuity, &effect).hex()
    );
    assert_eq!(third.block_path, ["items", "pay"]);
}
