use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::scope::plain::{Plain, object};

mod random;

fn ids(names: &[&str]) -> BlockIds {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn blocks() -> BlockIds {
    ids(&["fetch", "my-step", "my", "my-step-2", "a.b", "日本", "0"])
}

fn world() -> Plain {
    let mut scope = Plain::of(json!({
        "n": 7, "q": null, "zero": 0, "text": "5", "mode": "fast", "name": "Ada", "kind": "item",
        "o": {}, "a": [], "items": [{"v": 1}, {"v": 2.5}], "list": [3, 1, 2], "a.b": "dotted", "state": "data wins",
        "big": u64::MAX, "low": i64::MIN, "f": 1.5, "yes": true, "input": {"x": 1}, "words": ["fast", "slow"],
        "order-lines": [1], "loop": "data's loop", "t": "{{data.n}} {{secret}}",
    }));
    scope.config = object(json!({"limit": 10}));
    scope.state = object(json!({"count": 3}));
    scope.errors.insert("fetch".into(), json!({"code": "E"}));
    scope
        .output("fetch", json!({"x": {"y": 1}}))
        .output("my-step", json!({"x": "hyphen"}))
        .output("my", json!(10))
        .output("a.b", json!({"x": "dot"}))
        .output("日本", json!({"x": "cjk"}))
}

fn eval_in(text: &str, scope: &Plain) -> Result<Value, EvalError> {
    Expr::parse(text, &blocks()).unwrap_or_else(|e| panic!("{}: {e}", shorten(text))).eval(scope)
}

fn eval(text: &str) -> Value {
    eval_in(text, &world()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn table(rows: &[(&str, Value)]) {
    for (text, expected) in rows {
        // As text: 1 and 1.0 are different answers.
        assert_eq!(json::print(&eval(text)), json::print(expected), "{text}");
    }
}

fn refused(text: &str) -> SyntaxError {
    match Expr::parse(text, &blocks()) {
        Ok(expr) => panic!("{text} parses as {expr:?}"),
        Err(error) => error,
    }
}

#[test]
fn values_are_equal_by_value_within_their_type() {
    table(&[
        (r#""5" == 5"#, json!(false)),
        ("missing == null", json!(true)),
        ("1 == 1.0", json!(true)),
        ("1/0", json!(null)),
        ("big == 18446744073709551615", json!(true)),
        ("9007199254740993 == 9007199254740992.0", json!(false)),
        ("9007199254740993 > 9007199254740992.0", json!(true)),
        ("low == -9223372036854775808", json!(true)),
        ("18446744073709551615 < 18446744073709551616.0", json!(true)),
        ("o == o", json!(true)),
        ("[1, 2.0, \"x\"] == [1.0, 2, 'x']", json!(true)),
        ("[1] == [1, 2]", json!(false)),
        ("null == false", json!(false)),
        ("q == missing.deep", json!(true)),
        ("n != 7", json!(false)),
    ]);
}

#[test]
fn conditions_are_truthy_or_falsy() {
    for (text, expected) in [
        ("o", true),
        ("a", false),
        ("q", false),
        ("zero", false),
        ("0.0", false),
        ("-0.0", false),
        ("''", false),
        ("'0'", true),
        ("list", true),
        ("1/0", false),
        ("missing", false),
        ("false", false),
    ] {
        let expr = Expr::parse(text, &blocks()).expect(text);
        assert_eq!(expr.holds(&world()), Ok(expected), "{text}");
        assert_eq!(truthy(&expr.eval(&world()).expect(text)), expected, "{text}");
    }
}

#[test]
fn order_is_between_two_numbers_or_two_texts() {
    table(&[
        ("n > 6.5", json!(true)),
        ("'a' < 'b'", json!(true)),
        ("'B' < 'a'", json!(true)),
        ("'10' < 9", json!(false)),
        ("q < 1", json!(false)),
        ("q >= 0", json!(false)),
        ("1 <= 1.0", json!(true)),
        ("a < a", json!(false)),
        ("1 in list", json!(true)),
        ("1.0 in [1]", json!(true)),
        ("'v' in o", json!(false)),
        ("'a' in 'abc'", json!(false)),
        ("1 in [2, 3,]", json!(false)),
    ]);
}

#[test]
fn arithmetic_is_exact_while_it_fits() {
    table(&[
        ("1 + 2 * 3 - 4", json!(3)),
        ("(1 + 2) * 3", json!(9)),
        ("10 - 2 - 3", json!(5)),
        ("8 / 2", json!(4)),
        ("7 / 2", json!(3.5)),
        ("6.0 / 2", json!(3.0)),
        ("1 + 1.0", json!(2.0)),
        ("9007199254740993 + 0", json!(9_007_199_254_740_993_u64)),
        ("big - 1", json!(u64::MAX - 1)),
        ("big + 1", json!(18_446_744_073_709_551_616.0)),
        ("low - 1", json!(-9_223_372_036_854_775_809.0)),
        ("low / -1", json!(9_223_372_036_854_775_808_u64)),
        ("-low", json!(9_223_372_036_854_775_808_u64)),
        ("-big", json!(-18_446_744_073_709_551_615.0)),
        ("big * big", json!(u64::MAX as f64 * u64::MAX as f64)),
        ("1e308 * 10", json!(null)),
        ("1 / 0.0", json!(null)),
        ("--3", json!(3)),
        ("-f", json!(-1.5)),
        ("-text", json!(null)),
        ("!o", json!(false)),
        ("!!n", json!(true)),
    ]);
}

#[test]
fn plus_concatenates_two_texts_and_otherwise_counts() {
    table(&[
        ("'a' + \"b\" + name", json!("abAda")),
        ("'5' + '3'", json!("53")),
        ("text + 3", json!(8)),
        ("3 + text", json!(8)),
        ("text * '2'", json!(10)),
        ("'1.0' + 1", json!(2.0)),
        ("'x' + 1", json!(null)),
        ("' 5' + 1", json!(null)),
        ("'1e999' + 1", json!(null)),
        ("true + 1", json!(2)),
        ("true * 2", json!(null)),
        ("q + 1", json!(null)),
        ("list + 1", json!(null)),
    ]);
}

#[test]
fn and_or_not_and_the_conditional() {
    table(&[
        ("n && name", json!(true)),
        ("q || 0", json!(false)),
        ("q || name", json!(true)),
        ("n > 5 ? 'big' : 'small'", json!("big")),
        ("q ? 1 : zero ? 2 : 3", json!(3)),
        ("1 == 2 || 2 == 2 && !false", json!(true)),
        // What decides first ends it: the rest is not evaluated.
        ("true || {{nowhere.x}}", json!(true)),
        ("false && {{nowhere.x}}", json!(false)),
        ("true ? 1 : {{nowhere.x}}", json!(1)),
    ]);
}

#[test]
fn a_bare_word_is_its_own_spelling_beside_a_path() {
    table(&[
        ("mode == fast", json!(true)),
        ("mode != slow", json!(true)),
        ("fast == mode", json!(true)),
        ("mode in [fast, slow]", json!(true)),
        ("mode in [slow, 'x']", json!(false)),
        ("data.mode == fast", json!(true)),
        ("q == fast", json!(false)),
        ("mode == name", json!(false)),
        ("fast == n", json!(false)),
        ("fast == 'fast'", json!(false)),
        ("fast == fast", json!(false)),
        ("fast", json!(null)),
        ("fast + ''", json!(null)),
        ("fast in words", json!(false)),
    ]);
    let empty = Plain::default();
    for text in ["maybe == \"maybe\"", "plan == enterprise"] {
        assert_eq!(eval_in(text, &empty), Ok(json!(false)), "{text}");
    }
}

#[test]
fn paths_reach_what_the_scope_shows_and_nothing_else() {
    table(&[
        ("items.0.v", json!(1)),
        ("items[1].v", json!(2.5)),
        ("items[ 1 ][\"v\"]", json!(2.5)),
        ("items['0']", json!(null)),
        ("items.2", json!(null)),
        ("items[99999999999999999999999]", json!(null)),
        ("items.00", json!(null)),
        ("data[\"a.b\"]", json!("dotted")),
        ("data.`a.b`", json!("dotted")),
        ("context.data.n", json!(7)),
        ("context.config.limit + config.limit", json!(20)),
        ("context.runtime.attempt", json!(2)),
        ("runtime.dry_run", json!(false)),
        ("context.secrets", json!(null)),
        ("context", json!(null)),
        ("input.x", json!(1)),
        ("input", json!({"x": 1})),
        ("instance_id", json!("0195f0a0-0000-7000-8000-000000000001")),
        ("instance_id.x", json!(null)),
        ("config", json!({"limit": 10})),
        ("state", json!("data wins")),
        ("state.count", json!(null)),
        ("errors.fetch.code", json!("E")),
        ("outputs.fetch.x.y", json!(1)),
        ("steps.fetch.x.y", json!(1)),
        ("outputs.my-step.x", json!("hyphen")),
        ("outputs.my-1", json!(9)),
        ("outputs.my - 1", json!(9)),
        ("outputs.a.b.x", json!("dot")),
        ("outputs.日本.x", json!("cjk")),
        ("outputs[\"my-step\"].x", json!("hyphen")),
        ("outputs.my-step-2 == null", json!(true)),
        ("outputs.nowhere.x", json!(null)),
        ("name.length", json!(null)),
        ("__proto__", json!(null)),
        ("o.constructor", json!(null)),
        ("env.PATH", json!(null)),
        ("secrets", json!(null)),
        ("loop", json!("data's loop")),
        ("item_index", json!(null)),
        ("item", json!(null)),
        ("error.code", json!(null)),
    ]);
    assert_eq!(eval("len(keys(outputs))"), json!(5));
}

#[test]
fn scoped_variables_win_in_their_place_and_lie_over_data() {
    let scope = world()
        .scoped("loop", json!({"index": 3}))
        .scoped("item", json!({"id": "i"}))
        .scoped("n", json!("over"))
        .scoped("config", json!("an item"))
        .scoped("_error", json!({"code": "BAD"}));
    for (text, expected) in [
        ("loop.index", json!(3)),
        ("item.id", json!("i")),
        ("data.item.id", json!("i")),
        ("context.data.item.id", json!("i")),
        ("n", json!("over")),
        ("data.n", json!("over")),
        ("data.mode", json!("fast")),
        ("config.limit", json!(10)),
        ("data.config", json!("an item")),
        ("_error.code", json!("BAD")),
        ("error.code", json!("BAD")),
        ("data._error.code", json!("BAD")),
        ("mode == error", json!(false)),
        ("exists(data.item)", json!(true)),
        ("exists(data.loop.index)", json!(false)),
    ] {
        assert_eq!(eval_in(text, &scope), Ok(expected), "{text}");
    }
    let whole = eval_in("data", &scope).expect("data");
    assert_eq!((whole["n"].clone(), whole["item"]["id"].clone()), (json!("over"), json!("i")));
}

#[test]
fn functions_answer_as_documented() {
    table(&[
        ("abs(-3) + abs(low)", json!(9_223_372_036_854_775_811_u64)),
        ("abs(-1.5)", json!(1.5)),
        ("abs('x')", json!(null)),
        ("len('é')", json!(2)),
        ("chars('é😀')", json!(2)),
        ("len(list)", json!(3)),
        ("len(data) > 3", json!(true)),
        ("len(7)", json!(null)),
        ("json(items)", json!(r#"[{"v":1},{"v":2.5}]"#)),
        ("now()", json!("2027-01-15T08:00:00.123Z")),
        ("chars(uuid())", json!(36)),
        ("uuid() != uuid()", json!(true)),
        ("random() <= 100", json!(true)),
        ("random(5, 5)", json!(5)),
        ("random(2, 1)", json!(null)),
        ("random(0, 1.0) < 1", json!(true)),
        ("random(low, big) <= big", json!(true)),
        ("format_date(0, \"%Y-%m-%d\")", json!("1970-01-01")),
        ("format_date('2027-03-14T07:30:00+01:00', '%H:%M')", json!("06:30")),
        ("format_date(now(), '%Q')", json!(null)),
        ("format_date('x', '%Y')", json!(null)),
        ("format_date(big, '%Y')", json!(null)),
        ("day_of_week('2026-10-05T00:00:00Z')", json!(0)),
        ("day_of_week(q)", json!(null)),
        ("keys(items[1])", json!(["v"])),
        ("values(items[1])", json!([2.5])),
        ("keys(list)", json!(null)),
        ("contains('añb', 'ñ')", json!(true)),
        ("contains(list, 2.0)", json!(true)),
        ("contains(n, 7)", json!(null)),
        ("starts_with('abc', 'ab') && ends_with('abc', 'bc')", json!(true)),
        ("starts_with(q, 'ab')", json!(null)),
        ("sum(list)", json!(6)),
        ("sum(a)", json!(0)),
        ("sum([1, 0.5])", json!(1.5)),
        ("sum(['x'])", json!(null)),
        ("sum(1, 2, 3)", json!(6)),
        ("avg(list)", json!(2)),
        ("avg([1, 2])", json!(1.5)),
        ("avg(a)", json!(null)),
        ("min(list)", json!(1)),
        ("max(list)", json!(3)),
        ("max(1, 2.5)", json!(2.5)),
        ("min(a)", json!(null)),
        ("max(5)", json!(null)),
        ("first(list)", json!(3)),
        ("last(list)", json!(2)),
        ("first(a)", json!(null)),
        ("last([])", json!(null)),
        ("first('abc')", json!(null)),
        ("slice('aéb😀', 1, 3)", json!("éb")),
        ("slice('abc', -2)", json!("bc")),
        ("slice(list, 1)", json!([1, 2])),
        ("slice(list, 0, 99)", json!([3, 1, 2])),
        ("slice(list, 2, 1)", json!([])),
        ("slice(list, 0.5, 1)", json!(null)),
        ("slice(list, q)", json!(null)),
        ("slice(n, 1)", json!(null)),
        ("sort(list)", json!([1, 2, 3])),
        ("sort(list, 'desc')", json!([3, 2, 1])),
        ("sort(list, 'up')", json!(null)),
        (
            "sort([[1], 'b', 2, true, null, o, 'a', 1.5, false])",
            json!([null, false, true, 1.5, 2, "a", "b", [1], {}]),
        ),
        ("unique([1, 1.0, '1', [1], [1.0], 0, -0.0, null])", json!([1, "1", [1], 0, null])),
        ("count([1, 1.0, '1'], 1)", json!(2)),
        ("change_pct(100, 150)", json!(50)),
        ("change_pct(3, 4)", json!(33.333_333_333_333_336)),
        ("change_pct(0, 4)", json!(null)),
        ("clamp(5, 1, 3)", json!(3)),
        ("clamp(0.5, 1, 3)", json!(1)),
        ("clamp(2, 1, 3)", json!(2)),
        ("clamp(2, 3, 1)", json!(null)),
        ("clamp('x', 3, 1)", json!(null)),
        ("exists(q)", json!(true)),
        ("exists(data.q)", json!(true)),
        ("exists(missing)", json!(false)),
        ("exists(items.0.v)", json!(true)),
        ("exists(items.9)", json!(false)),
        ("exists(outputs.fetch)", json!(true)),
        ("exists(outputs.my-step-2)", json!(false)),
        ("len ( 'abc' )", json!(3)),
    ]);
}

#[test]
fn templates_inside_are_operands() {
    table(&[
        ("{{data.n}} > 6", json!(true)),
        ("{{ data.q | default(3) }} + 1", json!(4)),
        ("{{data.n}}", json!(7)),
        ("{{ {{data.n}} == 7 }}", json!(true)),
        ("{{= n + 1 }}", json!(8)),
        ("{{ n + 1 }}", json!(8)),
        ("{{data.n}} == {{data.n}}", json!(true)),
        ("'n={{data.n}}'", json!("n=7")),
        ("'{{data.n}}' == '7'", json!(true)),
        ("'{{data.q}}'", json!("null")),
        ("'{{'", json!("{{")),
        ("[{{= [n] }}, 1]", json!([[7], 1])),
        // What data holds is never parsed.
        ("t", json!("{{data.n}} {{secret}}")),
        ("'{{data.t}}'", json!("{{data.n}} {{secret}}")),
    ]);
    let error = eval_in("{{foo.bar}} == 1", &world()).expect_err("fails");
    assert_eq!(error.code, "TEMPLATE_UNKNOWN_ROOT");
    assert!(error.message.contains("foo.bar"), "{error}");
}

#[test]
fn what_does_not_parse_says_where() {
    for (text, offset, says) in [
        ("", 0, "ends"),
        ("a = b", 2, "'=='"),
        ("a == b == c", 7, "'=='"),
        ("a..b", 2, "empty segment"),
        ("a.", 2, "ends"),
        ("a[-1]", 2, "negative"),
        ("a[x]", 2, "index"),
        ("a[0", 3, "']'"),
        ("\"abc", 0, "never closed"),
        ("1 +", 3, "ends"),
        ("(1", 2, "')'"),
        ("[1", 2, "']'"),
        ("[,]", 1, "','"),
        ("len()", 0, "1 arguments"),
        ("slice(a)", 0, "2 to 3"),
        ("nope(1)", 0, "unknown function 'nope'"),
        ("exists(1)", 7, "one path"),
        ("exists()", 7, "one path"),
        ("18446744073709551616", 0, "out of range"),
        ("1 + 1e400", 4, "out of range"),
        ("01", 0, "not a number"),
        ("1.", 0, "not a number"),
        ("1x", 0, "not a number"),
        ("a ? b", 5, "':'"),
        ("a & b", 2, "'&'"),
        ("a | upper", 2, "filter"),
        ("a b", 2, "'b'"),
        ("in", 0, "'in'"),
        ("{{data.n", 0, "never closed"),
        ("1 + {{data..n}}", 11, "empty segment"),
        ("'{{nope(1)}}'", 3, "unknown function"),
        ("\u{1F600}", 0, "unexpected"),
    ] {
        let error = refused(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
    let error = refused("a &&\n  é = 1");
    assert_eq!((error.offset, error.line, error.column), (7, 2, 3));
}

#[test]
fn nesting_is_bounded_at_64() {
    let deep = |open: &str, close: &str, n: usize| open.repeat(n) + "1" + &close.repeat(n);
    for (open, close) in [("(", ")"), ("[", "]"), ("!", ""), ("-", ""), ("abs(", ")"), ("{{= ", "}}")] {
        let most = if open.starts_with('{') { 32 } else { 64 };
        // On a stack far smaller than a worker thread's.
        let text = deep(open, close, most);
        let runs = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let expr = Expr::parse(&text, &blocks()).expect("parses");
            (expr.eval(&world()).is_ok(), expr.warnings(&blocks()).len())
        });
        assert_eq!(runs.expect("a thread").join().expect("no overflow"), (true, 0), "{open}");
        for n in [66, 1200] {
            assert!(refused(&deep(open, close, n)).message.contains("nested deeper"), "{open} {n}");
        }
    }
    let endless = "(".repeat(8 << 10);
    assert!(refused(&endless).message.contains("nested deeper"));
}

#[test]
fn long_chains_parse_run_and_drop() {
    let chain = |piece: &str, join: &str| vec![piece; (8 << 10) / (piece.len() + join.len())].join(join);
    for join in ["+", "-", "*", "/", "&&", "||"] {
        let began = Instant::now();
        let expr = Expr::parse(&chain("n", join), &blocks()).expect(join);
        expr.eval(&world()).expect(join);
        drop(expr);
        assert!(began.elapsed() < Duration::from_secs(1), "{join}");
    }
    assert_eq!(eval(&chain("1", "+")), json!(4096));
    let choices = "q?1:".repeat(2000) + "2";
    assert_eq!(eval(&choices), json!(2));
    let error = refused(&"1+".repeat((4 << 10) + 1));
    assert!(error.message.contains("at most 8192"), "{error}");
}

#[test]
fn work_and_size_are_bounded() {
    let limit = |text: &str, scope: &Plain| {
        let began = Instant::now();
        let answer = eval_in(text, scope).expect_err(&shorten(text));
        assert_eq!(answer.code, "EXPRESSION_LIMIT", "{text}");
        assert!(began.elapsed() < Duration::from_secs(10), "{}: {:?}", shorten(text), began.elapsed());
    };
    let many = |n: usize| Plain::of(json!({ "l": vec![0; n], "s": "x".repeat(1 << 20) }));
    let scope = many(100_000);
    assert_eq!(eval_in("sum(l)", &scope), Ok(json!(0)));
    assert_eq!(eval_in("len(sort(l))", &scope), Ok(json!(100_000)));
    assert_eq!(eval_in("l == l", &scope), Ok(json!(true)));
    assert_eq!(eval_in("len(unique(l))", &scope), Ok(json!(1)));
    assert_eq!(eval_in("len(s + s)", &scope), Ok(json!(2 << 20)));
    limit("s + s + 'x'", &scope);
    limit("sum(l)", &many(100_001));
    limit("1 in l", &many(100_001));
    let repeated = |piece: &str, n: usize| vec![piece; n].join("+");
    limit(&repeated("sum(l)", 1000), &scope);
    limit(&format!("[{}]", vec!["data"; 1000].join(",")), &scope);
    limit(&repeated("len(sort(l))", 500), &scope);
    limit(&vec!["l==l"; 1300].join("&&"), &scope);
    limit(&format!("[{}]", vec!["s"; 2000].join(",")), &scope);
    limit(&format!("[{}]", vec!["json(l)"; 900].join(",")), &scope);
}

#[test]
fn what_is_too_deep_to_read_back_is_not_made() {
    let mut deepest = json!([]);
    (0..127).for_each(|_| deepest = json!([deepest.take()]));
    let scope = Plain::of(json!({ "d": deepest }));
    assert!(eval_in("d", &scope).is_ok());
    assert_eq!(eval_in("[d]", &scope).map_err(|e| e.code), Err("EXPRESSION_LIMIT"));
}

#[test]
fn bare_words_and_unknown_blocks_draw_warnings() {
    let warned = |text: &str| {
        let expr = Expr::parse(text, &blocks()).expect(text);
        assert_eq!(expr.warnings(&blocks()).len(), expr.notes(&blocks(), &[]).len());
        expr.notes(&blocks(), &["row"]).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    assert_eq!(warned("data.mode == fast"), ["BARE_WORD"]);
    assert_eq!(warned("data.mode in [fast, slow, 'x']"), ["BARE_WORD", "BARE_WORD"]);
    assert_eq!(warned("fast != data.mode"), ["BARE_WORD"]);
    assert_eq!(warned("data.mode == row"), [""; 0]);
    assert_eq!(warned("mode == 'fast' && n > 3 && n + zero"), [""; 0]);
    assert_eq!(warned("outputs.nope.x || errors.fetch || exists(steps.gone)"), ["UNKNOWN_BLOCK"; 2]);
    assert_eq!(warned("{{foo.x}} == 1"), ["UNKNOWN_ROOT"]);
}
