//! Random trees, random texts, random numbers.

use proptest::prelude::*;
use serde_json::json;

use super::{blocks, eval_in, world};
use crate::{
    expr::{function::Function, node::*, *},
    scope::plain::Plain,
};

/// Fully parenthesised text of a tree: what it parses to must print the same.
fn show(node: &Node) -> String {
    let list = |nodes: &[Node], join: &str| nodes.iter().map(show).collect::<Vec<_>>().join(join);
    match node {
        Node::Literal(Value::String(text)) => format!("'{text}'"),
        Node::Literal(value) => json::print(value),
        Node::Path(path) => path.text.to_string(),
        Node::Exists(path) => format!("exists({})", path.text),
        Node::Call(function, nodes) => format!("{}({})", function.name(), list(nodes, ", ")),
        Node::Array(nodes) => format!("[{}]", list(nodes, ", ")),
        Node::Not(node) => format!("(!{})", show(node)),
        Node::Negative(node) => format!("(-{})", show(node)),
        Node::Sum(first, rest) => {
            let rest: String =
                rest.iter().map(|(op, node)| format!(" {} {}", sign(*op), show(node))).collect();
            format!("({}{rest})", show(first))
        }
        Node::Compare(op, sides) => format!("({} {} {})", show(&sides.0), relation(*op), show(&sides.1)),
        Node::All(nodes) => format!("({})", list(nodes, " && ")),
        Node::Any(nodes) => format!("({})", list(nodes, " || ")),
        Node::Choose(arms, last) => {
            let arms: String = arms.iter().map(|(c, v)| format!("{} ? {} : ", show(c), show(v))).collect();
            format!("({arms}{})", show(last))
        }
        Node::Text(_) | Node::Template(_) => unreachable!("not generated"),
    }
}

fn sign(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Plus => "+",
        Arithmetic::Minus => "-",
        Arithmetic::Times => "*",
        Arithmetic::Over => "/",
    }
}

fn relation(op: Comparison) -> &'static str {
    match op {
        Comparison::Equal => "==",
        Comparison::Unequal => "!=",
        Comparison::Greater => ">",
        Comparison::AtLeast => ">=",
        Comparison::Less => "<",
        Comparison::AtMost => "<=",
        Comparison::In => "in",
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    let path = prop_oneof![
        Just("n"),
        Just("fast"),
        Just("data.items[0].v"),
        Just("outputs.my-step.x"),
        Just("q"),
        Just("list"),
        Just("data[\"a.b\"]"),
        Just("big"),
        Just("mode")
    ]
    .prop_map(|text| match Expr::parse(text, &blocks()).map(|e| (*e.root).clone()) {
        Ok(Node::Path(path)) => path,
        other => panic!("{other:?}"),
    });
    let leaf = prop_oneof![
        any::<bool>().prop_map(|v| Node::Literal(v.into())),
        Just(Node::Literal(Value::Null)),
        any::<u64>().prop_map(|v| Node::Literal(v.into())),
        (0.0..1e300_f64).prop_map(|v| Node::Literal(v.into())),
        "[a-z %é]{0,4}".prop_map(|v| Node::Literal(v.into())),
        path.clone().prop_map(Node::Path),
        path.prop_map(Node::Exists),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let two = (inner.clone(), inner.clone());
        let some = prop::collection::vec(inner.clone(), 2..4);
        let comparison = prop::sample::select(vec![
            Comparison::Equal,
            Comparison::Unequal,
            Comparison::Greater,
            Comparison::AtLeast,
            Comparison::Less,
            Comparison::AtMost,
            Comparison::In,
        ]);
        let additive = prop::sample::select(vec![Arithmetic::Plus, Arithmetic::Minus]);
        let multiplicative = prop::sample::select(vec![Arithmetic::Times, Arithmetic::Over]);
        let called =
            (prop::sample::select(Function::ALL.to_vec()), prop::collection::vec(inner.clone(), 3..4));
        prop_oneof![
            some.clone().prop_map(Node::Array),
            some.clone().prop_map(Node::All),
            some.prop_map(Node::Any),
            inner.clone().prop_map(|n| Node::Not(Box::new(n))),
            inner.clone().prop_map(|n| Node::Negative(Box::new(n))),
            (comparison, two.clone()).prop_map(|(op, sides)| Node::Compare(op, Box::new(sides))),
            (inner.clone(), prop::collection::vec((additive, inner.clone()), 1..4))
                .prop_map(|(first, rest)| Node::Sum(Box::new(first), rest)),
            (inner.clone(), prop::collection::vec((multiplicative, inner.clone()), 1..4))
                .prop_map(|(first, rest)| Node::Sum(Box::new(first), rest)),
            (prop::collection::vec(two, 1..3), inner)
                .prop_map(|(arms, last)| Node::Choose(arms, Box::new(last))),
            called.prop_map(|(function, mut nodes)| {
                nodes.truncate(function.arity().1.min(3));
                Node::Call(function, nodes)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_printed_tree_parses_to_itself_and_runs(node in any_node()) {
        let text = show(&node);
        prop_assume!(text.len() <= 8 << 10);
        let expr = Expr::parse(&text, &blocks()).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(show(&expr.root), text);
        if let Ok(value) = expr.eval(&world()) {
            prop_assert!(json::check_value(&value).is_ok());
            prop_assert_eq!(expr.holds(&world()), Ok(truthy(&value)));
        }
        let _ = expr.warnings(&blocks());
    }

    #[test]
    fn any_text_parses_or_is_refused(text in any::<String>()) {
        let _ = Expr::parse(&text, &blocks());
    }

    #[test]
    fn noise_made_of_the_grammar_never_panics(pieces in prop::collection::vec(prop::sample::select(vec![
        "a", "n", "data", ".", "[", "]", "(", ")", "0", "1.5", "\"", "'", "`", "{{", "}}", "=", "==", "!=", "<", "in",
        "+", "-", "*", "/", "!", "?", ":", "&&", "||", "|", ",", " ", "outputs.", "my-step", "my", "len(", "exists(",
        "null", "true", "é", "日本", "default(", "json(", "\n",
    ]), 0..24)) {
        let text = pieces.concat();
        match Expr::parse(&text, &blocks()) {
            Ok(expr) => { let _ = expr.eval(&world()); }
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }

    #[test]
    fn the_longest_block_that_fits_is_found(names in prop::collection::btree_set("[ab\\-]{1,4}", 1..20), text in "[ab\\-]{1,6}") {
        let blocks: BlockIds = names.iter().map(|name| Arc::from(name.as_str())).collect();
        let longest = names.iter().filter(|name| {
            text.strip_prefix(name.as_str()).is_some_and(|rest| !rest.starts_with(['a', 'b']))
        }).max_by_key(|name| name.len());
        let mut cursor = Cursor::new("");
        let whole = format!("outputs.{text}");
        cursor = Cursor::new(&whole).part(cursor.at(), whole.len());
        let found = Path::parse(&mut cursor, Grammar::Expression, &blocks).ok();
        if let Some(longest) = longest {
            let found = found.expect("a path");
            prop_assert_eq!(found.block(), Some(longest.as_str()));
        }
    }

    #[test]
    fn integers_are_exact(a in any::<i64>(), b in any::<i64>()) {
        let scope = Plain::of(json!({ "a": a, "b": b }));
        let fits = |int: i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&int);
        for (text, exact) in [
            ("a + b", i128::from(a) + i128::from(b)),
            ("a - b", i128::from(a) - i128::from(b)),
            ("a * b", i128::from(a) * i128::from(b)),
        ] {
            let value = eval_in(text, &scope).expect(text);
            if fits(exact) {
                prop_assert_eq!(value.as_number().and_then(|n| n.as_i128()), Some(exact));
            } else {
                prop_assert!(value.is_f64());
            }
        }
        prop_assert_eq!(eval_in("a < b", &scope), Ok(json!(a < b)));
        prop_assert_eq!(eval_in("a * 1.0 == b * 1.0", &scope), Ok(json!(a as f64 == b as f64)));
    }
}
