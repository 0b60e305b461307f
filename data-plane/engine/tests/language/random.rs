//! Any program under any weather: it ends, once, and its journal is its state.

use std::collections::HashSet;

use orch8_engine::Status;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::stage::{Reply, Stage};

/// Numbers that name blocks and decide the weather.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// At most `budget` blocks, nested at most `depth` deep.
fn body(dice: &mut Dice, names: &mut u32, depth: u32, least: u64) -> Value {
    let count = least + dice.roll(3);
    Value::Array((0..count).map(|_| block(dice, names, depth)).collect())
}

fn block(dice: &mut Dice, names: &mut u32, depth: u32) -> Value {
    *names += 1;
    let id = format!("b{names}");
    let kind = if depth == 0 { dice.roll(5) } else { dice.roll(10) };
    match kind {
        0 => json!({"type": "step", "id": id, "handler": "noop"}),
        1 => {
            json!({"type": "step", "id": id, "handler": "sleep", "params": {"duration_ms": dice.roll(2_000)}})
        }
        2 => json!({"type": "step", "id": id, "handler": "fail"}),
        3 => {
            json!({"type": "step", "id": id, "handler": "work", "when": "data.never != 1", "cancellable": dice.roll(2) == 0,
                    "retry": {"max_attempts": 1 + dice.roll(3), "initial_backoff": 100}})
        }
        4 => {
            json!({"type": "step", "id": id, "handler": "work", "params": {"n": "{{data.n}}"}, "timeout": 500})
        }
        5 => {
            let branches: Vec<Value> =
                (0..1 + dice.roll(3)).map(|_| body(dice, names, depth - 1, 0)).collect();
            json!({"type": "parallel", "id": id, "branches": branches, "fail_fast": dice.roll(2) == 0})
        }
        6 => json!({"type": "router", "id": id,
                    "routes": [{"condition": if dice.roll(2) == 0 { "true" } else { "n == 2" }, "blocks": body(dice, names, depth - 1, 0)}],
                    "default": body(dice, names, depth - 1, 0)}),
        7 => json!({"type": "try_catch", "id": id, "try_block": body(dice, names, depth - 1, 1),
                    "catch_block": body(dice, names, depth - 1, 0), "finally_block": body(dice, names, depth - 1, 0)}),
        8 => json!({"type": "loop", "id": id, "condition": "true", "max_iterations": 1 + dice.roll(3),
                    "continue_on_error": dice.roll(2) == 0, "body": body(dice, names, depth - 1, 1)}),
        _ => json!({"type": "for_each", "id": id, "collection": "items", "concurrency": 1 + dice.roll(3),
                    "continue_on_error": dice.roll(2) == 0, "body": body(dice, names, depth - 1, 1)}),
    }
}

fn stage(seed: u64) -> Stage {
    let mut dice = Dice(seed);
    let blocks = body(&mut dice, &mut 0, 3, 1);
    let mut weather = Dice(seed ^ 0xabcd);
    Stage::of(blocks, json!({"items": [1, 2, 3], "n": 2})).workers(move |_| match weather.roll(6) {
        0 => Reply::Fail("BROKEN"),
        1 => Reply::FailRetryable,
        2 => Reply::Lost,
        _ => Reply::Ok(json!({"n": weather.roll(4)})),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_program_ends_once_and_writes_each_output_once(seed: u64) {
        let run = stage(seed).run();
        prop_assert!(run.status().is_terminal(), "{:?}", run.status());
        prop_assert_eq!(run.closed, 1);
        prop_assert!(run.waiting.is_empty(), "no task is left open");
        let seqs: Vec<u64> = run.outputs.iter().map(|row| row.seq).collect();
        prop_assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "numbers rise");
        let nodes: HashSet<_> = run.outputs.iter().map(|row| row.node).collect();
        prop_assert_eq!(nodes.len(), run.outputs.len(), "one row per activation");
    }

    #[test]
    fn a_cancel_at_any_moment_ends_cancelled(seed: u64, moment in 0u32..40) {
        let mut run = stage(seed);
        run.start();
        for _ in 0..moment {
            if run.status().is_terminal() || !(run.work() || run.wake()) {
                break;
            }
        }
        let ended_before = run.status().is_terminal();
        let before = run.status();
        if !ended_before {
            run.cancel();
            run.go_on();
        }
        let expected = if ended_before { before } else { Status::Cancelled };
        prop_assert_eq!(run.status(), expected);
        prop_assert_eq!(run.closed, 1);
    }
}
