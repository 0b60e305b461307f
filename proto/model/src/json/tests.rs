use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn flaw(text: &[u8]) -> (Reason, String, usize) {
    let problem = parse(text).expect_err("refused");
    (problem.reason, problem.pointer, problem.offset)
}

fn same(text: &str) {
    assert_eq!(print(&parse(text.as_bytes()).expect(text)), text);
}

#[test]
fn what_breaks_a_rule_is_refused_with_its_place() {
    use Reason::{InvalidJson, JsonDuplicateKey, JsonNul, JsonNumber};
    for (text, reason, pointer, offset) in [
        (&br#"{"a":"x\u0000"}"#[..], JsonNul, "/a", 7),
        (b"{\"a\":\"x\0\"}", JsonNul, "/a", 7),
        (br#"{"a":{"k\u0000":1}}"#, JsonNul, "/a", 8),
        (br#"{"a":1,"b":2,"a":3}"#, JsonDuplicateKey, "/a", 13),
        (br#"{"x":[{"a":1,"\u0061":3}]}"#, JsonDuplicateKey, "/x/0/a", 13),
        (br#"{"a/b":[0,1e400]}"#, JsonNumber, "/a~1b/1", 10),
        (b"18446744073709551616", JsonNumber, "", 0),
        (b"[-9223372036854775809]", JsonNumber, "/0", 1),
        (br#"["\ud800"]"#, InvalidJson, "/0", 2),
        (br#"["\udc00"]"#, InvalidJson, "/0", 2),
        (br#"["\ud800\ud800"]"#, InvalidJson, "/0", 2),
        (br#"["\ud800x"]"#, InvalidJson, "/0", 2),
        (b"\xef\xbb\xbf{}", InvalidJson, "", 0),
        (b"{\"a\":[\"\xff\"]}", InvalidJson, "/a/0", 7),
        (b"[1]\xff", InvalidJson, "", 3),
        (b"[1] 2", InvalidJson, "", 4),
        (b"", InvalidJson, "", 0),
        (b"  ", InvalidJson, "", 2),
        (b"[1,]", InvalidJson, "/1", 3),
        (b"[1 2]", InvalidJson, "", 3),
        (b"{\"a\" 1}", InvalidJson, "/a", 5),
        (b"{a:1}", InvalidJson, "", 1),
        (b"{\"a\":1]", InvalidJson, "", 6),
        (b"[01]", InvalidJson, "/0", 1),
        (b"[1.]", InvalidJson, "/0", 1),
        (b"[.5]", InvalidJson, "/0", 1),
        (b"[+1]", InvalidJson, "/0", 1),
        (b"[1e]", InvalidJson, "/0", 1),
        (b"[-]", InvalidJson, "/0", 1),
        (b"NaN", InvalidJson, "", 0),
        (b"nul", InvalidJson, "", 0),
        (b"\"a\nb\"", InvalidJson, "", 2),
        (b"\"\\x\"", InvalidJson, "", 1),
        (b"\"\\u12\"", InvalidJson, "", 1),
        (b"\"abc", InvalidJson, "", 4),
        (b"\"\\", InvalidJson, "", 1),
        (b"\0", InvalidJson, "", 0),
    ] {
        let shown = String::from_utf8_lossy(text);
        assert_eq!(flaw(text), (reason, pointer.to_owned(), offset), "{shown}");
    }
}

#[test]
fn numbers_keep_their_digits_and_their_kind() {
    for text in [
        "0",
        "-0.0",
        "1",
        "1.0",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "1e-7",
        "0.000001",
        "1e+21",
        "100000000000000000000.0",
        "5e-324",
        "1.7976931348623157e+308",
        "0.1",
        "123.456",
        "4.35",
        "-1.5e-9",
        "2.5e+25",
    ] {
        same(text);
    }
    for (text, printed) in [
        ("-0", "-0.0"),
        ("1E2", "100.0"),
        ("1e16", "10000000000000000.0"),
        ("-0e3", "-0.0"),
        ("1e-400", "0.0"),
    ] {
        assert_eq!(print(&parse(text.as_bytes()).expect(text)), printed);
    }
}

#[test]
fn a_float_reads_to_the_nearest_double() {
    // A fast but inexact reader is off by one unit here.
    for text in ["51.24817837550540", "-31.245270191439438", "121.48791951161945", "0.46700000000000001"] {
        let float = parse(text.as_bytes()).expect(text).as_f64().expect("a float");
        assert_eq!(float.to_bits(), text.parse::<f64>().expect(text).to_bits());
    }
}

#[test]
fn depth_128_is_accepted_and_129_refused() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    for (depth, text) in [(128, nested(128)), (128, objects(128)), (127, nested(127)), (127, objects(127))] {
        let value = parse(text.as_bytes()).expect("accepted");
        assert_eq!(print(&value), text);
        assert_eq!(check_value(&value), Ok(()));
        let deeper = check_value(&json!([value])).map_err(|p| p.reason);
        let expected = if depth == 127 { Ok(()) } else { Err(Reason::JsonDepth) };
        assert_eq!(deeper, expected);
    }
    for text in [nested(129), objects(129), nested(10_000), objects(10_000)] {
        let problem = parse(text.as_bytes()).expect_err("refused");
        assert_eq!(problem.reason, Reason::JsonDepth);
        assert_eq!(problem.pointer.matches('/').count(), 128);
    }
}

#[test]
fn two_mebibytes_of_brackets_are_refused_at_once() {
    for piece in ["[", "{\"a\":", "[[],", "{\"a\":{},\"b\":"] {
        let text = piece.repeat((2 << 20) / piece.len());
        let began = Instant::now();
        let problem = parse(text.as_bytes()).expect_err("refused");
        assert_eq!(problem.reason, Reason::JsonDepth, "{piece}");
        assert!(began.elapsed() < Duration::from_millis(200), "{piece}: {:?}", began.elapsed());
    }
}

#[test]
fn reading_takes_linear_time() {
    let digits = "1".repeat(2 << 20);
    let fraction = format!("0.{digits}");
    let keys = format!("{{{}\"end\":0}}", (0..150_000).map(|i| format!("\"k{i}\":0,")).collect::<String>());
    let escapes = format!("\"{}\"", "\\u00e9".repeat(300_000));
    for text in [digits, fraction, keys, escapes, "[".to_owned() + &"[],".repeat(600_000) + "0]"] {
        let began = Instant::now();
        let _ = parse(text.as_bytes());
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[test]
fn a_pointer_stays_short() {
    let text = format!("{{\"{}\":tru}}", "é".repeat(100_000));
    let problem = parse(text.as_bytes()).expect_err("refused");
    assert!(problem.pointer.len() < 1100 && problem.pointer.ends_with('…'));
}

#[test]
fn keys_keep_their_order_and_only_the_canonical_text_sorts_them() {
    let text = "{\"b\":1,\"a\":{\"\u{10000}\":1,\"\u{ffff}\":2,\"z\":3},\"\":0}";
    same(text);
    // By UTF-16 units U+10000 (d800 dc00) stands before U+FFFF; by UTF-8 bytes it would stand behind.
    assert_eq!(
        canonical(&parse(text.as_bytes()).expect("accepted")),
        "{\"\":0,\"a\":{\"z\":3,\"\u{10000}\":1,\"\u{ffff}\":2},\"b\":1}"
    );
}

#[test]
fn strings_print_with_the_shortest_escapes() {
    let value = json!("\"\\/\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é😀\u{2028}");
    assert_eq!(print(&value), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}é😀\u{2028}\"");
    assert_eq!(parse(br#""\ud83d\ude00\/\u00E9""#).expect("accepted"), json!("😀/é"));
}

#[test]
fn a_value_made_in_memory_is_checked_for_depth_and_nul() {
    let mut deep = json!(1);
    (0..129).for_each(|_| deep = json!({ "n": deep.take() }));
    let problem = check_value(&deep).expect_err("refused");
    assert_eq!((problem.reason, problem.pointer), (Reason::JsonDepth, "/n".repeat(128)));
    let problem = check_value(&json!({"a": ["x", "y\0"]})).expect_err("refused");
    assert_eq!((problem.reason, problem.pointer.as_str()), (Reason::JsonNul, "/a/1"));
    let problem = check_value(&json!({"a": {"k\0": 1}})).expect_err("refused");
    assert_eq!((problem.reason, problem.pointer.as_str()), (Reason::JsonNul, "/a"));
}

#[test]
fn a_record_around_the_deepest_value_reads_back() {
    let deepest = parse(("[".repeat(128) + &"]".repeat(128)).as_bytes()).expect("accepted");
    let record = json!({ "outputs": [{ "value": deepest }] });
    assert_eq!(decode::<Value>(print(&record).as_bytes()), Ok(record));
    assert_eq!(decode::<Vec<u8>>(b"{}").map_err(|p| p.reason), Err(Reason::InvalidJson));
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-c]{0,2}", any::<String>().prop_map(|s| s.replace('\0', ""))];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        (-400i32..400, any::<u32>()).prop_filter_map("finite", |(e, m)| {
            format!("{m}e{e}").parse::<f64>().ok().filter(|f| f.is_finite()).map(Value::from)
        }),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_the_same(value in any_value()) {
        let text = print(&value);
        let back = parse(text.as_bytes()).expect("accepted");
        prop_assert_eq!(print(&back), text.clone());
        prop_assert_eq!(size(&value), text.len());
        prop_assert_eq!(&back, &value);
        let sorted = canonical(&value);
        prop_assert_eq!(canonical(&parse(sorted.as_bytes()).expect("accepted")), sorted);
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn json_like_noise_is_read_as_strictly_as_serde_does(text in r#"[\[\]{}",:0-9eE.+\-\\u dtrfalsn]{0,24}"#) {
        if let Ok(value) = parse(text.as_bytes()) {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            prop_assert_eq!(parse(print(&value).as_bytes()).expect("reads back"), value);
        }
    }

    #[test]
    fn a_cut_or_changed_text_never_panics(value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = print(&value).into_bytes();
        let at = at.index(bytes.len());
        let _ = parse(&bytes[..at]);
        bytes[at] = byte;
        if let Ok(changed) = parse(&bytes) {
            prop_assert_eq!(print(&parse(print(&changed).as_bytes()).expect("reads back")), print(&changed));
        }
    }
}
