//! Timeouts, deadlines, delays, sleeps.

use orch8_engine::{HowLost, Status::*};
use orch8_model::Millis;
use serde_json::json;

use crate::stage::{Reply, Stage, log, noop, sleep, with, work};

#[test]
fn a_timeout_ends_a_sleep_and_a_deadline_ends_an_activation() {
    let run = Stage::of(json!([with(sleep("s", 10_000), json!({"timeout": 2000}))]), json!({})).run();
    assert_eq!((run.status(), run.error().code.as_str(), run.elapsed()), (Failed, "TIMEOUT", 2000));

    let run = Stage::of(json!([with(work("w"), json!({"deadline": 500}))]), json!({}))
        .workers(|_| Reply::Silent)
        .run();
    assert_eq!((run.status(), run.error().code.as_str(), run.elapsed()), (Failed, "DEADLINE", 500));
    let row = &run.rows("w")[0];
    assert_eq!((&row["_error"], &row["_deadline_ms"]), (&json!("sla_deadline_breached"), &json!(500)));
}

#[test]
fn a_task_nobody_takes_in_time_is_final() {
    let mut run = Stage::of(
        json!([with(work("w"), json!({"schedule_to_start_timeout": 300, "retry": {"max_attempts": 3}}))]),
        json!({}),
    );
    run.start();
    let task = run.waiting.pop_front().expect("a task");
    assert_eq!(task.schedule_to_start_ms, Some(300));
    run.lost(&task, HowLost::ScheduleToStart);
    assert_eq!(
        (run.status(), run.error().code.as_str(), run.sent.len()),
        (Failed, "SCHEDULE_TO_START_TIMEOUT", 1)
    );
}

#[test]
fn a_delay_holds_its_step_and_nothing_else() {
    let delayed = with(noop("d"), json!({"delay": {"duration": 3_600_000, "jitter": 30_000}}));
    let mut run = Stage::of(
        json!([{"type": "parallel", "id": "p", "branches": [[delayed], [noop("a"), work("w")]]}]),
        json!({}),
    );
    run.start();
    let due = run.instance.next_wake().expect("a timer");
    assert!((3_570_000..=3_630_000).contains(&due.since(crate::stage::BEGIN)), "{due}");
    run.work();
    run.now = run.now.plus(1000);
    run.answer("nobody", json!({"value": "yes"}));
    assert_eq!(run.instance.next_wake(), Some(due), "a signal moves no timer");
    run.go_on();
    assert_eq!((run.status(), run.now), (Completed, due));
}

#[test]
fn a_local_time_in_the_hour_that_does_not_exist_moves_forward() {
    let delay = json!({"delay": {"duration": 0, "fire_at_local": "2027-03-14T02:30:00", "timezone": "America/New_York"}});
    let mut run = Stage::of(json!([with(noop("d"), delay)]), json!({}));
    run.start();
    assert_eq!(
        run.instance.next_wake().map(|at| at.to_string()).as_deref(),
        Some("2027-03-14T07:30:00.000Z")
    );
}

#[test]
fn sleeps_are_exact_up_to_ten_years() {
    for ms in [0_u64, 1, 1 << 31, 1 << 36, 315_360_000_000] {
        let run = Stage::of(json!([sleep("s", ms)]), json!({})).run();
        assert_eq!((run.status(), run.elapsed()), (Completed, ms as i64));
        assert_eq!(run.rows("s"), [json!({"slept_ms": ms})]);
    }
    let run = Stage::of(json!([with(sleep("s", 0), json!({"params": {"duration": 0.2}}))]), json!({})).run();
    assert_eq!(run.elapsed(), 200);
}

#[test]
fn a_pause_holds_timers_and_a_resume_acts_on_what_fell_due() {
    use orch8_engine::SignalKind::{Pause, Resume};
    let mut run = Stage::of(json!([sleep("s", 1000), log("a", "x")]), json!({}));
    run.start();
    run.signal(Pause);
    assert_eq!((run.status(), run.instance.next_wake()), (Paused, None));
    run.now = run.now.plus(5000);
    run.signal(Resume);
    run.go_on();
    assert_eq!((run.status(), run.now), (Completed, Millis(crate::stage::BEGIN.0 + 5000)));

    let mut run = Stage::of(json!([sleep("s", 1000)]), json!({}));
    run.start();
    for kind in [Pause, Resume, Pause, Resume] {
        run.signal(kind);
    }
    assert_ne!(run.status(), Paused);
}
