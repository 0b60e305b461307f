//! The target of `transform`: a path in `context.data` that is written to.

use std::sync::Arc;

use super::{
    code,
    report::{Report, quote},
};

/// Objects that a write may have to create on its way.
const SEGMENTS_MAX: usize = 8;

/// Roots of the language: as the first name of a target or as an item variable they mean data, which surprises.
pub(super) const ROOTS: &[&str] = &[
    "context",
    "data",
    "config",
    "outputs",
    "steps",
    "errors",
    "input",
    "instance_id",
    "state",
    "runtime",
    "loop",
    "item_index",
    "_error",
];

/// Reads a target. A leading `data` or `context.data` is dropped; keys that begin with `_` are the engine's.
pub(super) fn read(text: &str, place: &str, report: &mut Report) -> Option<Vec<Arc<str>>> {
    let mut path = match segments(text) {
        Ok(path) => path,
        Err(problem) => {
            report.invalid(place, format!("target {} is no path: {problem}", quote(text)));
            return None;
        }
    };
    let dropped = match path.iter().map(AsRef::as_ref).collect::<Vec<&str>>().as_slice() {
        ["context", "data", _, ..] => 2,
        ["data", _, ..] => 1,
        _ => 0,
    };
    path.drain(..dropped);
    if path.len() > SEGMENTS_MAX {
        report.too_large(place, "target", path.len(), SEGMENTS_MAX, "segments");
        return None;
    }
    let first = path.first()?;
    if first.starts_with('_') {
        report.invalid(place, "target must not begin with _: such keys are the engine's");
        return None;
    }
    if ROOTS.contains(&first.as_ref()) {
        let message = format!("target {} writes to context.data, under the name of a root", quote(text));
        report.warn(code::ROOT_NAME, place, message);
    }
    Some(path)
}

/// Splits `a.b`, `a[0]`, `a["any key"]`, `a['any key']` and ``a.`any key` ``. Errors: what is wrong and where.
fn segments(text: &str) -> Result<Vec<Arc<str>>, String> {
    let mut path = Vec::new();
    let mut rest = text.trim();
    let problem =
        |rest: &str, what: &str| Err(format!("{what} at byte {}", text.trim_end().len() - rest.len()));
    loop {
        let (segment, after) = match rest.strip_prefix('`') {
            Some(quoted) => match quoted.split_once('`') {
                Some((key, after)) => (key, after),
                None => return problem(rest, "a backtick is not closed"),
            },
            None => rest.split_at(rest.find(is_reserved).unwrap_or(rest.len())),
        };
        if segment.trim().is_empty() {
            return problem(rest, "a name is expected");
        }
        path.push(segment.trim().into());
        rest = after;
        while let Some(bracket) = rest.strip_prefix('[') {
            match bracketed(bracket) {
                Some((key, after)) => {
                    path.push(key.into());
                    rest = after;
                }
                None => return problem(rest, "an index or a quoted key and ']' are expected"),
            }
        }
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(path),
            None => return problem(rest, "'.', '[' or the end is expected"),
        }
    }
}

fn is_reserved(c: char) -> bool {
    matches!(c, '.' | '[' | ']' | '|' | '{' | '}' | '(' | ')' | '"' | '\'' | '`')
}

/// What stands behind `[`: digits or a quoted key, then `]`.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (key, after) = match quote {
        Some(quote) => text[1..].split_once(quote)?,
        None => text.split_at(text.find(|c: char| !c.is_ascii_digit())?),
    };
    (!key.is_empty()).then_some((key, after.strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_path_in_data() {
        for (text, expected) in [
            ("total", Some("total")),
            ("data.total", Some("total")),
            ("context.data.order.total", Some("order|total")),
            ("data", Some("data")),
            ("data[\"a.b\"].c", Some("a.b|c")),
            ("order['x y'][0].`k.k`.z", Some("order|x y|0|k.k|z")),
            ("my-key.inner space", Some("my-key|inner space")),
            ("a.b.c.d.e.f.g.h", Some("a|b|c|d|e|f|g|h")),
            ("data.a.b.c.d.e.f.g.h", Some("a|b|c|d|e|f|g|h")),
            ("a.b.c.d.e.f.g.h.i", None),
            ("_error", None),
            ("data._x", None),
            ("", None),
            (" ", None),
            ("a..b", None),
            (".a", None),
            ("a.", None),
            ("a[", None),
            ("a[]", None),
            ("a[-1]", None),
            ("a[1", None),
            ("a[\"k]", None),
            ("a`b`", None),
            ("a|b", None),
            ("{{a}}", None),
            ("é.ü", Some("é|ü")),
        ] {
            let mut report = Report::default();
            let path = read(text, "/t", &mut report);
            assert_eq!(path.map(|path| path.join("|")).as_deref(), expected, "{text}");
            assert_eq!(report.close().is_err(), expected.is_none(), "{text}");
        }
    }
}
