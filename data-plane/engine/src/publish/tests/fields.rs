use super::*;
use crate::program::{Jitter, Kind, Step};

fn step_with(field: &str, value: Value) -> Value {
    one("step", json!({"handler": "charge", field: value}))
}

fn step(document: &Value) -> Step {
    let mut program = published(document).program;
    match program.blocks.remove(0).kind {
        Kind::Step(step) => *step,
        other => panic!("{other:?}"),
    }
}

/// Accepted, or refused at `path` below the field with a message that says so.
fn table(field: &str, accepted: &[Value], refusals: &[(Value, &str, &str)]) {
    for value in accepted {
        published(&step_with(field, value.clone()));
    }
    for (value, path, says) in refusals {
        let document = step_with(field, value.clone());
        refused(&document, "INVALID_FIELD", &format!("/blocks/0/{field}{path}"), says);
    }
}

#[test]
fn c04_h06_durations_are_milliseconds_or_seconds_within_ten_years() {
    for (value, expected) in [
        (json!(0), 0),
        (json!(1), 1),
        (json!(300), 300),
        (json!(0.2), 200),
        (json!(3000.0), 3_000_000),
        (json!(1u64 << 31), 1 << 31),
        (json!(1u64 << 36), 1 << 36),
        (json!(315_360_000_000_i64), 315_360_000_000),
    ] {
        let read = step(&step_with("timeout", value));
        assert_eq!(read.timeout_ms, Some(expected));
    }
    let refusals = [
        (json!(-1), "must not be negative"),
        (json!(-0.5), "must not be negative"),
        (json!(315_360_000_001_i64), "at most 315360000000 ms"),
        (json!(1u64 << 53), "at most 315360000000 ms"),
        (json!(i64::MAX), "at most 315360000000 ms"),
        (json!(u64::MAX), "at most 315360000000 ms"),
        (json!(99_999_999_999.0), "at most 315360000000 ms"),
        (json!("300"), "must be a number"),
        (json!([1]), "must be a number"),
    ];
    for (value, says) in refusals {
        for field in ["timeout", "schedule_to_start_timeout", "deadline"] {
            refused(&step_with(field, value.clone()), "INVALID_FIELD", &format!("/blocks/0/{field}"), says);
        }
        let delay = json!({"duration": value, });
        refused(&step_with("delay", delay), "INVALID_FIELD", "/blocks/0/delay/duration", says);
    }
    warned(&step_with("timeout", json!(3000.0)), "FLOAT_DURATION", "/blocks/0/timeout", "3000000 ms");
    clean(&step_with("timeout", json!(999.5)));
    clean(&step_with("timeout", json!(null)));
}

#[test]
fn c57_h07_retry_is_bounded() {
    table(
        "retry",
        &[
            json!(null),
            json!({"max_attempts": 1}),
            json!({"max_attempts": 100_000, "backoff_multiplier": 1, "jitter": 0}),
            json!({"max_attempts": 3, "initial_backoff": 1.0, "max_backoff": 600_000, "backoff_multiplier": 1e308}),
            json!({"max_attempts": 3, "initial_backoff": 60_000}),
            json!({"max_attempts": 3, "initial_backoff": 5, "max_backoff": 5, "jitter": 1.0}),
            json!({"max_attempts": 3, "jitter": "full", "retry_if": "_error.code == 'X'", "non_retryable_codes": []}),
        ],
        &[
            (json!(3), "", "must be an object"),
            (json!({}), "/max_attempts", "required"),
            (json!({"max_attempts": 0}), "/max_attempts", "must be > 0 and at most 100000"),
            (json!({"max_attempts": -1}), "/max_attempts", "must be > 0"),
            (json!({"max_attempts": 100_001}), "/max_attempts", "from 1 to 100000"),
            (json!({"max_attempts": 2.0}), "/max_attempts", "an integer"),
            (json!({"max_attempts": "3"}), "/max_attempts", "an integer"),
            (json!({"max_attempts": 3, "backoff_multiplier": 0}), "/backoff_multiplier", "finite number ≥ 1"),
            (json!({"max_attempts": 3, "backoff_multiplier": 0.5}), "/backoff_multiplier", "≥ 1"),
            (json!({"max_attempts": 3, "backoff_multiplier": -1}), "/backoff_multiplier", "≥ 1"),
            (json!({"max_attempts": 3, "backoff_multiplier": "NaN"}), "/backoff_multiplier", "finite"),
            (json!({"max_attempts": 3, "backoff_multiplier": null}), "/backoff_multiplier", "finite"),
            (json!({"max_attempts": 3, "jitter": 1.5}), "/jitter", "from 0 to 1"),
            (json!({"max_attempts": 3, "jitter": -0.1}), "/jitter", "from 0 to 1"),
            (json!({"max_attempts": 3, "jitter": "none"}), "/jitter", "full"),
            (json!({"max_attempts": 3, "initial_backoff": -1}), "/initial_backoff", "negative"),
            (
                json!({"max_attempts": 3, "initial_backoff": 60_001}),
                "/initial_backoff",
                "60000 ms, its default",
            ),
            (json!({"max_attempts": 3, "max_backoff": 999}), "/max_backoff", "1000 ms, its default"),
            (
                json!({"max_attempts": 3, "initial_backoff": 10, "max_backoff": 9}),
                "/initial_backoff",
                "must be ≤ max_backoff (9 ms)",
            ),
            (
                json!({"max_attempts": 3, "initial_backoff": 99_000, "max_backoff": "x"}),
                "/max_backoff",
                "number",
            ),
            (json!({"max_attempts": 3, "retry_if": " "}), "/retry_if", "must not be blank"),
            (json!({"max_attempts": 3, "non_retryable_codes": "X"}), "/non_retryable_codes", "an array"),
            (
                json!({"max_attempts": 3, "non_retryable_codes": ["X", " "]}),
                "/non_retryable_codes/1",
                "blank",
            ),
            (json!({"max_attempts": 3, "non_retryable_codes": [7]}), "/non_retryable_codes/0", "text"),
        ],
    );
    let retry = step(&step_with("retry", json!({"max_attempts": 4}))).retry.unwrap();
    assert_eq!((retry.max_attempts, retry.initial_ms, retry.max_ms), (4, 1_000, 60_000));
    assert_eq!((retry.multiplier, retry.jitter), (2.0, Jitter::Fraction(0.1)));
    // Infinity and NaN are no JSON; a multiplier that overflows is refused as a number.
    let text = r#"{"name":"n","blocks":[{"type":"step","id":"a","handler":"x","retry":{"max_attempts":1,"backoff_multiplier":1e999}}]}"#;
    assert_eq!(check(text.as_bytes()).unwrap_err()[0].code, "JSON_NUMBER");
}

#[test]
fn a_delay_has_a_duration_and_dates_that_exist() {
    table(
        "delay",
        &[
            json!({"duration": 0}),
            json!({"duration": 5, "jitter": 0.5, "business_days_only": true, "holidays": ["2024-02-29"]}),
            json!({"duration": 5, "holidays": null, "jitter": null}),
        ],
        &[
            (json!(5), "", "must be an object"),
            (json!({}), "/duration", "required"),
            (json!({"duration": null}), "/duration", "required"),
            (json!({"duration": 1, "jitter": -1}), "/jitter", "negative"),
            (json!({"duration": 1, "business_days_only": "yes"}), "/business_days_only", "true or false"),
            (json!({"duration": 1, "holidays": "2024-01-01"}), "/holidays", "an array"),
            (json!({"duration": 1, "holidays": ["2024-01-01", "2023-02-29"]}), "/holidays/1", "YYYY-MM-DD"),
            (json!({"duration": 1, "holidays": ["2024-1-1"]}), "/holidays/0", "YYYY-MM-DD"),
            (json!({"duration": 1, "holidays": ["+999999-01-01"]}), "/holidays/0", "YYYY-MM-DD"),
            (json!({"duration": 1, "holidays": [20240101]}), "/holidays/0", "YYYY-MM-DD"),
            (json!({"duration": 1, "fire_at_local": 5}), "/fire_at_local", "must be text"),
        ],
    );
}

#[test]
fn a_local_time_that_cannot_be_used_is_told_and_ignored() {
    let local = "2027-03-14T02:30:00";
    let good = step(&step_with(
        "delay",
        json!({"duration": 1, "fire_at_local": local, "timezone": "America/New_York"}),
    ));
    let delay = good.delay.unwrap();
    assert_eq!(delay.fire_at_local.unwrap().to_string(), "2027-03-14 02:30:00");
    assert_eq!(delay.timezone, Some(chrono_tz::America::New_York));
    for (fields, code, path) in [
        (json!({"fire_at_local": "soon"}), "INVALID_LOCAL_TIME", "fire_at_local"),
        (json!({"fire_at_local": "2027-03-14"}), "INVALID_LOCAL_TIME", "fire_at_local"),
        (json!({"fire_at_local": "2027-03-14T02:30:60"}), "INVALID_LOCAL_TIME", "fire_at_local"),
        (json!({"fire_at_local": "2027-02-30T00:00:00"}), "INVALID_LOCAL_TIME", "fire_at_local"),
        (json!({"fire_at_local": "soon", "timezone": "UTC"}), "INVALID_LOCAL_TIME", "fire_at_local"),
        (json!({"fire_at_local": local, "timezone": "Mars/Base"}), "INVALID_TIMEZONE", "timezone"),
        (json!({"timezone": "UTC"}), "NO_EFFECT", "timezone"),
    ] {
        let mut fields = fields;
        fields["duration"] = json!(1);
        let document = step_with("delay", fields);
        warned(&document, code, &format!("/blocks/0/delay/{path}"), path);
        let delay = step(&document).delay.unwrap();
        assert_eq!((delay.fire_at_local, delay.timezone), (None, None));
    }
}

#[test]
fn c64_a_gate_has_distinct_choices() {
    table(
        "wait_for_input",
        &[
            json!({}),
            json!({"prompt": "Ship?", "timeout": 0.2, "escalation_handler": "log", "store_as": "d", "allow_comment": true}),
            json!({"choices": [{"label": "A", "value": 1}, {"label": "A", "value": 1.0}, {"label": "B", "value": null}]}),
        ],
        &[
            (json!(true), "", "must be an object"),
            (json!({"choices": []}), "/choices", "at least one choice"),
            (json!({"choices": {}}), "/choices", "an array"),
            (json!({"choices": ["yes"]}), "/choices/0", "choice must be an object"),
            (json!({"choices": [{"value": 1}]}), "/choices/0/label", "required"),
            (json!({"choices": [{"label": "A"}]}), "/choices/0/value", "required"),
            (
                json!({"choices": [{"label": "A", "value": {"a": 1, "b": 2}}, {"label": "B", "value": {"b": 2, "a": 1}}]}),
                "/choices/1/value",
                "unique",
            ),
            (json!({"store_as": ""}), "/store_as", "must not be empty"),
            (json!({"store_as": " "}), "/store_as", "only spaces"),
            (json!({"prompt": 7}), "/prompt", "must be text"),
            (json!({"timeout": -1}), "/timeout", "negative"),
            (json!({"timeout": 1, "escalation_handler": ""}), "/escalation_handler", "must not be empty"),
            (json!({"allow_comment": "no"}), "/allow_comment", "true or false"),
        ],
    );
    let gate = step(&step_with("wait_for_input", json!({}))).gate.unwrap();
    assert_eq!(gate.choices, [("Yes".to_owned(), json!("yes")), ("No".to_owned(), json!("no"))]);
    assert_eq!((gate.prompt.as_str(), gate.store_as, gate.allow_comment), ("", None, false));
}

#[test]
fn the_remaining_step_fields_are_typed() {
    for (field, value, says) in [
        ("cancellable", json!("no"), "true or false"),
        ("merge_output", json!(0), "true or false"),
        ("delivery", json!("exactly_once"), "at_least_once, at_most_once"),
        ("when", json!(true), "must be text"),
    ] {
        refused(&step_with(field, value), "INVALID_FIELD", &format!("/blocks/0/{field}"), says);
    }
    let plain = step(&one("step", json!({"handler": "charge"})));
    assert!(plain.cancellable && plain.merge_output && !plain.at_most_once);
    assert!(plain.when.is_none() && plain.retry.is_none() && plain.gate.is_none() && plain.delay.is_none());
    let fields =
        json!({"handler": "charge", "cancellable": false, "merge_output": false, "delivery": "at_most_once"});
    let set = step(&one("step", fields));
    assert!(!set.cancellable && !set.merge_output && set.at_most_once);
}

#[test]
fn c07_loops_are_bounded() {
    let body = || json!([noop("a")]);
    for (kind, needed) in [("loop", ("condition", "true")), ("for_each", ("collection", "items"))] {
        let with =
            |field: &str, value: Value| one(kind, json!({needed.0: needed.1, "body": body(), field: value}));
        for (field, accepted) in [("max_iterations", json!(100_000)), ("retain_iterations", json!(0))] {
            clean(&with(field, accepted));
        }
        for (field, value, says) in [
            ("max_iterations", json!(0), "max_iterations must be > 0"),
            ("max_iterations", json!(-5), "max_iterations must be > 0"),
            ("max_iterations", json!(100_001), "from 1 to 100000"),
            ("max_iterations", json!(1.5), "an integer"),
            ("max_iterations", json!(u64::MAX), "an integer"),
            ("retain_iterations", json!(-1), "an integer from 0"),
            ("continue_on_error", json!(1), "true or false"),
            ("on_max_iterations", json!("stop"), "complete, fail"),
        ] {
            refused(&with(field, value), "INVALID_FIELD", &format!("/blocks/0/{field}"), says);
        }
    }
}

#[test]
fn fields_of_a_loop_are_read() {
    let fields = json!({"condition": "true", "body": [noop("a")], "break_on": "data.x", "poll_interval": 5,
        "max_iterations": 7, "continue_on_error": true, "retain_iterations": 3, "on_max_iterations": "fail"});
    let program = clean(&one("loop", fields)).program;
    let Kind::Loop(read) = &program.blocks[0].kind else { panic!() };
    assert_eq!((read.max_iterations, read.poll_ms, read.retain_iterations), (7, Some(5_000), 3));
    assert!(read.break_on.is_some() && read.continue_on_error && read.fail_on_max);
    let program =
        clean(&one("loop", json!({"condition": "true", "body": [noop("a")], "poll_interval": 0.25}))).program;
    let Kind::Loop(read) = &program.blocks[0].kind else { panic!() };
    assert_eq!((read.max_iterations, read.poll_ms, read.retain_iterations), (1_000, Some(250), 0));
    for (value, says) in
        [(json!("5"), "a number of seconds"), (json!(-1), "negative"), (json!(1e12), "10 years")]
    {
        let fields = json!({"condition": "true", "body": [noop("a")], "poll_interval": value});
        refused(&one("loop", fields), "INVALID_FIELD", "/blocks/0/poll_interval", says);
    }
    let fields = json!({"condition": "true", "body": [noop("a")], "break_on": ""});
    refused(&one("loop", fields), "INVALID_FIELD", "/blocks/0/break_on", "must not be blank");
}

#[test]
fn fields_of_a_for_each_are_read() {
    let with = |field: &str, value: Value| {
        one("for_each", json!({"collection": "items", "body": [noop("a")], field: value}))
    };
    let program = clean(&with("item_var", json!("t"))).program;
    let Kind::ForEach(read) = &program.blocks[0].kind else { panic!() };
    assert_eq!((&*read.item_var, read.concurrency, read.max_iterations), ("t", 1, 1_000));
    let program = clean(&with("concurrency", json!(100))).program;
    let Kind::ForEach(read) = &program.blocks[0].kind else { panic!() };
    assert_eq!((&*read.item_var, read.concurrency), ("item", 100));
    for (field, value, says) in [
        ("concurrency", json!(0), "concurrency must be > 0 and at most 100"),
        ("concurrency", json!(101), "from 1 to 100"),
        ("item_var", json!(" "), "not blank"),
        ("item_var", json!(null), "must be text"),
        ("item_var", json!("a".repeat(257)), "at most 256"),
    ] {
        refused(&with(field, value), "INVALID_FIELD", &format!("/blocks/0/{field}"), says);
    }
    warned(&with("item_var", json!("state")), "ROOT_NAME", "/blocks/0/item_var", "data.state");
}
