use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::scope::plain::{Plain, object};

fn blocks() -> BlockIds {
    ["fetch", "my-step", "my step", "a|b", "日本"].into_iter().map(Arc::from).collect()
}

fn world() -> Plain {
    let mut scope = Plain::of(json!({
        "n": 7, "q": null, "f": 1.5, "yes": true, "name": "Ada", "pad": "  x ", "e": "", "list": [1, "two", null, [3]],
        "items": [{"v": "first"}, {"v": "second"}], "a.b": "dotted", "o": {"k": 1}, "big": 9_007_199_254_740_993_i64,
        "one": 1.0, "日本": "語", "😀": "smile", "the key": "spaced", "quo\"te": "q", "x-y": "hyphen",
        "evil": "{{data.secret}} {{= 1 + 1}} credentials://a/b", "secret": "s3cret", "item": "from data",
        "input": {"url": "http://x/?a=b c"}, "b64": "aMOp", "order": "data's",
    }));
    scope.config = object(json!({"env": "prod"}));
    scope.state = object(json!({"count": 3}));
    scope
        .output("fetch", json!({"x": {"y": 1}, "list": [1, 2]}))
        .output("my-step", json!({"x": "hyphen"}))
        .output("my step", json!({"x": "space"}))
        .output("a|b", json!({"x": "pipe"}))
        .output("日本", json!({"x": "cjk"}))
}

fn render_in(template: &Value, scope: &Plain) -> Result<Value, EvalError> {
    Template::compile(template, &blocks()).unwrap_or_else(|p| panic!("{template}: {p:?}")).render(scope)
}

fn table(rows: &[(&str, Value)]) {
    for (text, expected) in rows {
        let value = render_in(&json!(text), &world()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(json::print(&value), json::print(expected), "{text}");
    }
}

fn code(text: &str) -> &'static str {
    render_in(&json!(text), &world()).expect_err(text).code
}

#[test]
fn one_template_keeps_its_type_and_pieces_become_text() {
    table(&[
        ("{{data.n}}", json!(7)),
        ("n={{data.n}}", json!("n=7")),
        ("{{data.q}}", json!(null)),
        ("v={{data.q}}", json!("v=null")),
        ("{{data.n}}{{data.n}}", json!("77")),
        (" {{data.n}}", json!(" 7")),
        ("{{data.f}}/{{data.yes}}/{{data.o}}/{{data.name}}", json!("1.5/true/{\"k\":1}/Ada")),
        ("{{data.big}}", json!(9_007_199_254_740_993_i64)),
        ("{{data.one}} {{data.one}}", json!("1.0 1.0")),
        ("{{42}}", json!(42)),
        ("{{-1.50}}", json!(-1.5)),
        ("{{'a}}b'}}", json!("a}}b")),
        ("{{ \"x | y\" }}", json!("x | y")),
        ("{{true}}", json!(true)),
        ("no template", json!("no template")),
    ]);
}

#[test]
fn what_is_no_template_is_text() {
    table(&[
        ("{{", json!("{{")),
        ("{{}}", json!("{{}}")),
        ("{{  }} {{data.n}}", json!("{{  }} 7")),
        ("a {{ b", json!("a {{ b")),
        ("{{ {{data.n}}", json!("{{ 7")),
        ("{{{{data.n}}}}", json!("{{7}}")),
        ("{\"a\":{\"b\":{{data.n}}}}", json!("{\"a\":{\"b\":7}}")),
        ("}} {{data.n}} }}", json!("}} 7 }}")),
        ("{{ it's {{data.n}}", json!("{{ it's {{data.n}}")),
        ("{ {data.n} }", json!("{ {data.n} }")),
    ]);
}

#[test]
fn a_value_is_taken_only_while_there_is_none() {
    table(&[
        ("{{data.q|data.n}}", json!(7)),
        ("{{data.q|a|b}}", json!("a")),
        ("{{data.q|'x|y'|upper}}", json!("X|Y")),
        ("{{data.q|default(3)}}", json!(3)),
        ("{{data.n|data.name}}", json!(7)),
        ("{{data.q | nothing.here}}", json!("nothing.here")),
        ("{{data.q | two words }}", json!("two words")),
        ("{{data.q | 2024-01-01}}", json!("2024-01-01")),
        ("{{data.q | null | 5}}", json!(5)),
        ("{{data.q | len(data.list)}}", json!(4)),
        ("{{data.q | loop.index | 1}}", json!(1)),
        ("{{data.n | uper}}", json!(7)),
        ("{{data.q | config.env}}", json!("prod")),
        // Not looked at, so it cannot fail.
        ("{{data.n | context.nothing}}", json!(7)),
    ]);
}

#[test]
fn paths_reach_every_name() {
    table(&[
        ("{{data.items.0.v}}", json!("first")),
        ("{{data.items[1].v}}", json!("second")),
        ("{{data.items[ 1 ]['v']}}", json!("second")),
        ("{{data[\"a.b\"]}}", json!("dotted")),
        ("{{data.`a.b`}}", json!("dotted")),
        ("{{data['quo\"te']}}", json!("q")),
        ("{{data.日本}}{{data.😀}}", json!("語smile")),
        ("{{data.the key}}", json!("spaced")),
        ("{{ data.x-y }}", json!("hyphen")),
        ("{{outputs.my-step.x}}", json!("hyphen")),
        ("{{outputs.my step.x}}", json!("space")),
        ("{{outputs.a|b.x}}", json!("pipe")),
        ("{{steps.日本.x | upper}}", json!("CJK")),
        ("{{outputs.fetch.x}}", json!({"y": 1})),
        ("{{outputs.fetch | json(data.n)}}", json!({"x": {"y": 1}, "list": [1, 2]})),
        ("{{outputs.gone.x}}", json!(null)),
        ("{{context.data.n}}{{context.config.env}}{{context.runtime.attempt}}", json!("7prod2")),
        ("{{context.audit}}", json!(null)),
        ("{{input.url}}", json!("http://x/?a=b c")),
        ("{{state.count}}", json!(3)),
        ("{{config}}", json!({"env": "prod"})),
        ("{{instance_id}}", json!("0195f0a0-0000-7000-8000-000000000001")),
        ("{{loop.index}}", json!(null)),
        ("{{item}}", json!(null)),
        ("{{_error.code}}", json!(null)),
        ("{{errors.fetch.code}}", json!(null)),
        ("{{data.n.deeper.still}}", json!(null)),
        ("{{data.items.7.v}}", json!(null)),
        ("{{data.items[99999999999999999999]}}", json!(null)),
        ("{{data.__proto__}}", json!(null)),
        ("{{data.o.constructor}}", json!(null)),
    ]);
}

#[test]
fn an_unknown_root_fails_and_names_the_path() {
    for text in [
        "{{foo.bar}}",
        "{{env.HOME}}",
        "{{secrets}}",
        "{{context}}",
        "{{context.secrets.x}}",
        "{{__proto__.x}}",
    ] {
        let error = render_in(&json!(text), &world()).expect_err(text);
        assert_eq!(error.code, "TEMPLATE_UNKNOWN_ROOT", "{text}");
        assert!(error.message.contains(text.trim_matches(['{', '}'])), "{error}");
    }
    assert_eq!(code("{{data.q | context.x}}"), "TEMPLATE_UNKNOWN_ROOT");
}

#[test]
fn scoped_variables_are_roots_in_their_place() {
    let scope = world()
        .scoped("order", json!({"id": 1}))
        .scoped("loop", json!({"index": 4}))
        .scoped("item", json!("i"))
        .scoped("_error", json!({"code": "E"}));
    for (text, expected) in [
        ("{{order.id}}", json!(1)),
        ("{{data.order.id}}", json!(1)),
        ("{{data.q | order.id}}", json!(1)),
        ("{{item}}", json!("i")),
        ("{{loop.index}}", json!(4)),
        ("{{error.code}}", json!("E")),
        ("{{_error.code}}", json!("E")),
        ("{{data.q | error}}", json!("error")),
    ] {
        assert_eq!(render_in(&json!(text), &scope), Ok(expected), "{text}");
    }
    assert_eq!(code("{{order.id}}"), "TEMPLATE_UNKNOWN_ROOT");
}

#[test]
fn filters_answer_as_documented() {
    table(&[
        ("{{data.name | upper}}", json!("ADA")),
        ("{{data.name|lower()}}", json!("ada")),
        ("{{data.pad | trim}}", json!("x")),
        ("{{data.n | upper}}", json!("")),
        ("{{-3 | abs}}", json!(3)),
        ("{{-9223372036854775808 | abs}}", json!(9_223_372_036_854_775_808_u64)),
        ("{{-1.5 | abs}}", json!(1.5)),
        ("{{data.name | abs}}", json!(0)),
        ("{{input.url | url_encode}}", json!("http%3A%2F%2Fx%2F%3Fa%3Db%20c")),
        ("{{'a-._~é' | url_encode}}", json!("a-._~%C3%A9")),
        ("{{'hé' | base64}}", json!("aMOp")),
        ("{{data.b64 | base64_decode}}", json!("hé")),
        ("{{data.name | replace('a', \"'\")}}", json!("Ad'")),
        ("{{data.list | replace('two', '2')}}", json!("[1,\"2\",null,[3]]")),
        ("{{data.q | replace('null', 'x')}}", json!("x")),
        ("{{data.e | default('d')}}", json!("d")),
        ("{{data.n | default('d')}}", json!(7)),
        ("{{data.gone.x | default(false)}}", json!(false)),
        ("{{data.n | required}}", json!(7)),
        ("{{data.e | required()}}", json!("")),
        ("{{'a😀cd' | truncate(2)}}", json!("a😀")),
        ("{{'abcd' | truncate(2, '…')}}", json!("ab…")),
        ("{{'ab' | truncate(2, '…')}}", json!("ab")),
        ("{{data.list | join(', ')}}", json!("1, two, null, [3]")),
        ("{{data.n | join(',')}}", json!("")),
        ("{{'a,b,' | split(',')}}", json!(["a", "b", ""])),
        ("{{data.q | split(',')}}", json!([""])),
        (
            "{{'' | hash('sha256')}}",
            json!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ),
        ("{{2.5 | round(0)}}", json!(3.0)),
        ("{{-2.5 | round(0)}}", json!(-3.0)),
        ("{{1.005 | round(2)}}", json!(1.01)),
        ("{{0.04 | round(1)}}", json!(0.0)),
        ("{{9.99 | round(1)}}", json!(10.0)),
        ("{{0.5 | round(0)}}", json!(1.0)),
        ("{{1e300 | round(2)}}", json!(1e300)),
        ("{{1e-300 | round(2)}}", json!(0.0)),
        ("{{-0.4 | round(0)}}", json!(0.0)),
        ("{{data.n | round(2)}}", json!(7)),
        ("{{data.name | round(2)}}", json!(0)),
        ("{{json(data.o)}}", json!("{\"k\":1}")),
        ("{{len(json(data.o))}}", json!(7)),
        ("{{len(data.o)}}/{{len(data.日本)}}/{{len(data.n)}}/{{len( data.q )}}", json!("1/3/0/0")),
        ("{{= data.n + 1}}", json!(8)),
        ("{{= n > 5 ? 'a' : 'b' }}!", json!("a!")),
        ("{{= {{data.n}} + 1 }}", json!(8)),
        ("{{= n == 7 }}", json!(true)),
    ]);
    let error = render_in(&json!("{{data.gone.x | required()}}"), &world()).expect_err("required");
    assert_eq!(error.code, "TEMPLATE_MISSING");
    assert!(error.message.contains("data.gone.x"), "{error}");
    for text in ["{{'*' | base64_decode}}", "{{'/w==' | base64_decode}}", "{{'AA==' | base64_decode}}"] {
        assert_eq!(code(text), "INVALID_PARAMS", "{text}");
    }
}

#[test]
fn what_data_holds_is_never_parsed() {
    let scope = world().output("fetch", json!({"x": "{{data.secret}}"}));
    let evil = "{{data.secret}} {{= 1 + 1}} credentials://a/b";
    for text in
        ["{{data.evil}}", "{{data.q | data.evil}}", "{{= evil}}", "{{= '' + evil}}", "{{data.evil | trim}}"]
    {
        assert_eq!(render_in(&json!(text), &scope), Ok(json!(evil)), "{text}");
    }
    assert_eq!(render_in(&json!("<{{data.evil}}>"), &scope), Ok(json!(format!("<{evil}>"))));
    assert_eq!(render_in(&json!("{{outputs.fetch.x}}"), &scope), Ok(json!("{{data.secret}}")));
    // Keys are never templates.
    let keyed = json!({"{{data.n}}": "{{data.n}}"});
    assert_eq!(render_in(&keyed, &scope), Ok(json!({"{{data.n}}": 7})));
    // References to credentials stay references.
    assert_eq!(render_in(&json!("credentials://{{data.n}}/k"), &scope), Ok(json!("credentials://7/k")));
}

#[test]
fn a_value_renders_in_its_shape_and_order() {
    let template = json!({"z": ["{{data.n}}", 1, {"k": "a{{data.n}}"}], "a": {"same": [1, 2.0]}, "m": null});
    let value = render_in(&template, &world()).expect("renders");
    assert_eq!(json::print(&value), r#"{"z":[7,1,{"k":"a7"}],"a":{"same":[1,2.0]},"m":null}"#);
    let constant = json!({"a": [1, "x}}", {"b": "{"}]});
    let template = Template::compile(&constant, &blocks()).expect("compiles");
    assert_eq!(template.constant(), Some(&constant));
    assert_eq!(template.render(&world()), Ok(constant));
}

#[test]
fn errors_are_reported_together_with_their_places() {
    let template =
        json!({"a": ["x {{data..n}} {{nope(1)}}", {"b/c": "{{data.n | nope()}}"}], "ok": "{{data.n}}"});
    let problems = Template::compile(&template, &blocks()).expect_err("refused");
    let found: Vec<_> = problems.iter().map(|p| (p.pointer.as_str(), p.error.offset)).collect();
    assert_eq!(found, [("/a/0", 9), ("/a/0", 16), ("/a/1/b~1c", 11)]);
    for (text, offset, says) in [
        ("{{data.items[-1]}}", 13, "negative"),
        ("{{data.items.-1}}", 13, "negative"),
        ("{{data.}}", 7, "ends"),
        ("{{data.n |}}", 10, "ends"),
        ("{{| upper}}", 2, "unexpected '|'"),
        ("{{upper(data.n)}}", 2, "needs a value"),
        ("{{data.name | replace('a')}}", 14, "replace takes"),
        ("{{data.name | replace}}", 14, "replace takes"),
        ("{{data.name | replace('', 'x')}}", 14, "not empty"),
        ("{{data.name | upper('x')}}", 14, "no arguments"),
        ("{{data.name | truncate('x')}}", 14, "truncate takes"),
        ("{{data.name | truncate(-1)}}", 14, "truncate takes"),
        ("{{data.name | hash('md5')}}", 14, "'sha256'"),
        ("{{data.name | round(21)}}", 14, "0 to 20"),
        ("{{data.name | default(data.n)}}", 22, "need quotes"),
        ("{{data.name | default('x'}}", 25, "')'"),
        ("{{data.name | default('x', 'y')}}", 14, "one literal"),
        ("{{len()}}", 6, "unexpected"),
        ("{{len(data.n, 1)}}", 2, "one argument"),
        ("{{1e400}}", 2, "out of range"),
        ("{{18446744073709551616}}", 2, "out of range"),
        ("{{data.q | 01}}", 11, "not a number"),
        ("{{{data.n}}}", 2, "unexpected '{'"),
        ("{{= 1 +}}", 7, "ends"),
        ("{{= a = b}}", 6, "'=='"),
        ("{{data.a\n.b.(}}", 12, "unexpected '('"),
    ] {
        let problems = Template::compile(&json!(text), &blocks()).expect_err(text);
        let error = &problems[0].error;
        assert!(error.message.contains(says), "{text}: {error}");
        assert_eq!(error.offset, offset, "{text}: {error}");
    }
}

#[test]
fn a_collection_is_one_path_resolved_as_in_expressions() {
    let scope = world().scoped("rows", json!([9]));
    for (text, expected) in [
        ("items", json!([{"v": "first"}, {"v": "second"}])),
        ("data.list", json!([1, "two", null, [3]])),
        ("context.data.list", json!([1, "two", null, [3]])),
        ("outputs.fetch.list", json!([1, 2])),
        (" items.0.v ", json!("first")),
        ("x-y", json!("hyphen")),
        ("rows", json!([9])),
        ("missing.deep", json!(null)),
        ("context", json!(null)),
        ("item", json!("from data")),
        ("{{data.list}}", json!([1, "two", null, [3]])),
        ("{{data.q | data.items}}", json!([{"v": "first"}, {"v": "second"}])),
    ] {
        let template = Template::collection(text, &blocks()).expect(text);
        assert_eq!(template.render(&scope), Ok(expected), "{text}");
    }
    for text in ["", "a..b", "a | b", "f(x)", "a b]", "items[-1]", "{{data..x}}"] {
        assert!(Template::collection(text, &blocks()).is_err(), "{text}");
    }
}

#[test]
fn warnings_name_what_will_not_work() {
    let template = json!({
        "a": "{{foo.x}} {{data.n | uper}}", "b": ["{{}}", "{{ x", "{{outputs.gone.x}}"],
        "c": "{{row.id}} {{data.q | row}} {{error.code}}", "d": "{{= data.mode == fast}}", "ok": "{{data.n | upper | 'x'}}",
    });
    let template = Template::compile(&template, &blocks()).expect("compiles");
    let found: Vec<_> = template
        .warnings_within(&blocks(), &["row"])
        .into_iter()
        .map(|(code, pointer, _)| (code, pointer))
        .collect();
    let expected = [
        ("UNKNOWN_ROOT", "/a"),
        ("UNKNOWN_FILTER", "/a"),
        ("EMPTY_TEMPLATE", "/b/0"),
        ("UNCLOSED_TEMPLATE", "/b/1"),
        ("UNKNOWN_BLOCK", "/b/2"),
        ("SPELLING", "/c"),
        ("BARE_WORD", "/d"),
    ];
    assert_eq!(found, expected.map(|(code, pointer)| (code, pointer.to_owned())));
    assert_eq!(template.warnings(&blocks()).len(), found.len() + 2);
}

#[test]
fn size_and_work_are_bounded() {
    let scope = Plain::of(json!({ "s": "x".repeat(200_000), "l": vec![1; 60_000], "n": 7 }));
    let limit = |template: Value| {
        let began = Instant::now();
        let error = render_in(&template, &scope).expect_err("a limit");
        assert_eq!(error.code, "EXPRESSION_LIMIT");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    };
    limit(json!("{{data.s}}".repeat(20)));
    limit(json!(vec!["{{data.s}}"; 20]));
    limit(json!(vec!["{{data.l}}"; 100]));
    limit(json!(format!("{{{{'x'{}}}}}", " | replace('x', 'xx')".repeat(2000))));
    limit(json!(format!("{{{{data.s | replace('x', '{}')}}}}", "y".repeat(60_000))));
    limit(json!(format!("{{{{data.s{}}}}}", " | upper".repeat(8000))));
    limit(json!(vec!["{{= sum(l)}}"; 50_000]));
    limit(json!(vec!["{{= data.l == data.l ? 1 : 2}}"; 50_000]));
    assert!(render_in(&json!(vec!["{{data.n}}"; 100_000]), &scope).is_ok());
    let problem = Template::compile(&json!("{{data.n}}".repeat(6554)), &blocks()).expect_err("too long");
    assert!(problem[0].error.message.contains("at most 65536"));
    // Without a template in it a string may be as long as the document.
    assert!(Template::compile(&json!("x".repeat(100_000)), &blocks()).is_ok());
}

#[test]
fn compiling_takes_linear_time() {
    let pieces =
        ["{{", "{{= ", "{{'", "{{ x ", "{{data.n}}", "}}{{", "{{= {{", "{{outputs.fetch.x}}", "{{a|b|c"];
    for piece in pieces {
        let text = piece.repeat((64 << 10) / piece.len());
        let document = json!(vec![text; 16]);
        let began = Instant::now();
        let _ = Template::compile(&document, &blocks());
        assert!(began.elapsed() < Duration::from_secs(10), "{piece}: {:?}", began.elapsed());
    }
}

#[test]
fn compiling_a_deep_constant_costs_its_size_once() {
    let mut deep = json!("x".repeat(900_000));
    (0..128).for_each(|i| deep = if i % 2 == 0 { json!([deep.take()]) } else { json!({ "k": deep.take() }) });
    let began = Instant::now();
    let template = Template::compile(&deep, &blocks()).expect("compiles");
    assert_eq!(template.constant(), Some(&deep));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn numbers_pass_through_with_their_digits_and_their_kind() {
    let numbers = "[9007199254740993,-9223372036854775808,18446744073709551615,1,1.0,-0.0,1e-7,1e+21]";
    let scope = Plain::of(json!({ "n": json::parse(numbers.as_bytes()).expect("accepted") }));
    for text in ["{{data.n}}", "{{= n}}", "{{json(data.n)}}", "{{data.n | required}}"] {
        let value = render_in(&json!(text), &scope).expect(text);
        let printed = value.as_str().map_or_else(|| json::print(&value), str::to_owned);
        assert_eq!(printed, numbers, "{text}");
    }
    assert_eq!(
        render_in(&json!("{{data.n.3}} {{data.n.4}} {{data.n.0}}"), &scope),
        Ok(json!("1 1.0 9007199254740993"))
    );
}

#[test]
fn what_renders_too_deep_is_refused() {
    let mut deepest = json!([]);
    (0..127).for_each(|_| deepest = json!([deepest.take()]));
    let scope = Plain::of(json!({ "d": deepest }));
    assert!(render_in(&json!("{{data.d}}"), &scope).is_ok());
    assert_eq!(render_in(&json!(["{{data.d}}"]), &scope).map_err(|e| e.code), Err("INVALID_PARAMS"));
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(text in any::<String>()) {
        let template = json!(text);
        if let Ok(compiled) = Template::compile(&template, &blocks()) {
            let rendered = compiled.render(&world());
            if !text.contains("{{") {
                prop_assert_eq!(rendered, Ok(template));
            }
        }
    }

    #[test]
    fn noise_made_of_the_grammar_never_panics(pieces in prop::collection::vec(prop::sample::select(vec![
        "{{", "}}", "{", "}", "=", "data", ".n", ".", "[0]", "['x']", "|", " ", "'", "\"", "`", "upper", "replace(", "default(",
        "'x'", ",", ")", "(", "json(", "len(", "outputs.", "my-step", "my step", "日本", "-1", "5", "null", "+", "context.",
    ]), 0..24)) {
        let text = pieces.concat();
        match Template::compile(&json!(text), &blocks()) {
            Ok(template) => {
                let _ = (template.render(&world()), template.warnings(&blocks()));
            }
            Err(problems) => prop_assert!(problems.iter().all(|p| p.error.offset <= text.len())),
        }
        let _ = Template::collection(&text, &blocks());
    }

    #[test]
    fn data_arrives_unchanged(text in any::<String>().prop_map(|s| s.replace('\0', ""))) {
        let scope = Plain::of(json!({ "s": text, "o": { "k": text } }));
        prop_assert_eq!(render_in(&json!("{{data.s}}"), &scope), Ok(json!(text)));
        prop_assert_eq!(render_in(&json!(["<{{data.s}}>"]), &scope), Ok(json!([format!("<{text}>")])));
        prop_assert_eq!(render_in(&json!("{{data.o}}"), &scope), Ok(json!({ "k": text })));
    }

    #[test]
    fn base64_and_rounding_agree_with_plain_rules(text in "[^\0]{0,40}", n in -1_000_000i64..1_000_000, places in 0u32..4) {
        let scope = Plain::of(json!({ "s": text, "f": n as f64 / 1000.0 }));
        prop_assert_eq!(render_in(&json!("{{data.s | base64 | base64_decode}}"), &scope), Ok(json!(text)));
        let rounded = render_in(&json!(format!("{{{{data.f | round({places})}}}}")), &scope).expect("rounds");
        let unit = 10_i64.pow(3 - places);
        let exact = (n.abs() + unit / 2) / unit * unit * n.signum();
        prop_assert!((rounded.as_f64().expect("a number") - exact as f64 / 1000.0).abs() < 1e-9);
    }
}
