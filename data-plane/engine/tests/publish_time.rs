//! How long publishing takes. Outside of the crate, because the crate itself reads no clock.

use std::time::{Duration, Instant};

use orch8_engine::publish::check;
use orch8_model::limits::BLOCKS_MAX;
use serde_json::{Value, json};

fn sequence(blocks: Value) -> Value {
    json!({"name": "orders", "blocks": blocks})
}

/// The shortest of three: other work on the machine only ever adds.
fn time(work: impl Fn()) -> Duration {
    let run = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    (0..3).map(run).min().unwrap_or_default()
}

#[test]
fn publishing_is_linear_in_the_number_of_blocks() {
    let document = |n: usize| {
        let step = |i: usize| {
            json!({"type": "step", "id": format!("s{i}"), "handler": "charge", "when": "data.x > 1",
            "params": {"x": "{{outputs.s0.x}}"}, "noted": i})
        };
        sequence((0..n).map(step).collect()).to_string()
    };
    let (few, many) = (document(BLOCKS_MAX / 8), document(BLOCKS_MAX));
    let few = time(|| drop(check(few.as_bytes()).unwrap()));
    let many = time(|| drop(check(many.as_bytes()).unwrap()));
    assert!(many < few * 8 * 3, "{few:?} for an eighth of the blocks, {many:?} for all");
}

#[test]
fn long_keys_above_many_mistakes_do_not_multiply() {
    let key = "k".repeat(400_000);
    let step = |value: &str| {
        let many = Value::Array(vec![json!(value); 20_000]);
        let params = json!({key.as_str(): many});
        sequence(json!([{"type": "step", "id": "s", "handler": "charge", "params": params}])).to_string()
    };
    for value in ["credentials://x", "{{= (}}", "{{x.y}}", "{{a | b}}"] {
        let text = step(value);
        let begun = Instant::now();
        let told = match check(text.as_bytes()) {
            Ok(published) => published.warnings.iter().map(|w| w.path.len() + w.message.len()).sum::<usize>(),
            Err(problems) => problems.iter().map(|p| p.path.len() + p.message.len()).sum(),
        };
        assert!(begun.elapsed() < Duration::from_secs(10), "{value}: {:?}", begun.elapsed());
        assert!((1..8 << 20).contains(&told), "{value}: {told} bytes");
    }
}
