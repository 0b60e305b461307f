//! Filters. Those on text see `""` for a value that is no text; only `default` and `required` are meant for null.

use base64::{Engine, engine::general_purpose::STANDARD};
use orch8_model::json;
use serde_json::Value;

use super::text::{append, append_value};
use crate::expr::{Budget, EvalError, Held, Num, made};

/// Decimal places that `round` knows; a double has no more.
const PLACES_MAX: u64 = 20;

/// A filter with its arguments.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    Upper,
    Lower,
    Trim,
    Abs,
    UrlEncode,
    Base64,
    Base64Decode,
    Replace(String, String),
    Default(Value),
    Required,
    Truncate(usize, String),
    Join(String),
    Split(String),
    Hash,
    Round(u32),
}

const NAMES: [&str; 15] = [
    "upper",
    "lower",
    "trim",
    "abs",
    "url_encode",
    "base64",
    "base64_decode",
    "replace",
    "default",
    "required",
    "truncate",
    "join",
    "split",
    "hash",
    "round",
];

impl Filter {
    pub fn is_name(word: &str) -> bool {
        NAMES.contains(&word)
    }

    /// A filter by name. Errors: what is wrong with name or arguments.
    pub fn new(name: &str, arguments: Vec<Value>) -> Result<Self, String> {
        let wrong = |wants: &str| Err(format!("{name} takes {wants}"));
        match (name, &*arguments) {
            ("upper", []) => Ok(Filter::Upper),
            ("lower", []) => Ok(Filter::Lower),
            ("trim", []) => Ok(Filter::Trim),
            ("abs", []) => Ok(Filter::Abs),
            ("url_encode", []) => Ok(Filter::UrlEncode),
            ("base64", []) => Ok(Filter::Base64),
            ("base64_decode", []) => Ok(Filter::Base64Decode),
            ("required", []) => Ok(Filter::Required),
            (
                "upper" | "lower" | "trim" | "abs" | "url_encode" | "base64" | "base64_decode" | "required",
                _,
            ) => wrong("no arguments"),
            ("replace", [Value::String(from), Value::String(to)]) if !from.is_empty() => {
                Ok(Filter::Replace(from.clone(), to.clone()))
            }
            ("replace", _) => wrong("a text that is not empty, and a text"),
            ("default", [value]) => Ok(Filter::Default(value.clone())),
            ("default", _) => wrong("one literal"),
            ("truncate", [n]) if n.is_u64() => Ok(Filter::Truncate(count(n), String::new())),
            ("truncate", [n, Value::String(suffix)]) if n.is_u64() => {
                Ok(Filter::Truncate(count(n), suffix.clone()))
            }
            ("truncate", _) => wrong("a number of characters, and a suffix or nothing"),
            ("join", [Value::String(separator)]) => Ok(Filter::Join(separator.clone())),
            ("join", _) => wrong("a text"),
            ("split", [Value::String(separator)]) if !separator.is_empty() => {
                Ok(Filter::Split(separator.clone()))
            }
            ("split", _) => wrong("a text that is not empty"),
            ("hash", [Value::String(algorithm)]) if algorithm == "sha256" => Ok(Filter::Hash),
            ("hash", _) => wrong("'sha256'"),
            ("round", [n]) => {
                match n.as_u64().filter(|n| *n <= PLACES_MAX).and_then(|n| u32::try_from(n).ok()) {
                    Some(places) => Ok(Filter::Round(places)),
                    None => wrong("a number of decimal places, 0 to 20"),
                }
            }
            ("round", _) => wrong("a number of decimal places, 0 to 20"),
            (_, _) => Err(format!("unknown filter '{name}'")),
        }
    }

    /// Acts on a value. `of`: what the chain begins with, for messages.
    pub fn apply<'w>(
        &'w self,
        value: Held<'w>,
        of: &str,
        budget: &mut Budget,
    ) -> Result<Held<'w>, EvalError> {
        let text = match &*value {
            Value::String(text) => text.as_str(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => "",
        };
        budget.scan(text.len())?;
        match self {
            Filter::Upper => paid(text.to_uppercase(), budget),
            Filter::Lower => paid(text.to_lowercase(), budget),
            Filter::Trim => paid(text.trim().to_owned(), budget),
            Filter::UrlEncode => url_encoded(text, budget),
            Filter::Base64 => {
                budget.text(text.len().div_ceil(3) * 4)?;
                Ok(made(STANDARD.encode(text)))
            }
            Filter::Base64Decode => base64_decoded(text, of, budget),
            Filter::Replace(from, to) => match &*value {
                Value::String(text) => replaced(text, from, to, budget),
                other => {
                    budget.text(json::size(other))?;
                    replaced(&json::print(other), from, to, budget)
                }
            },
            Filter::Truncate(characters, suffix) => truncated(text, *characters, suffix, budget),
            Filter::Split(separator) => split(text, separator, budget),
            Filter::Hash => Ok(made(orch8_seal::sha256(text.as_bytes()).hex())),
            Filter::Join(separator) => joined(&value, separator, budget),
            Filter::Abs => Ok(made(Num::of(&value).map_or_else(|| 0.into(), |number| number.abs().value()))),
            Filter::Round(places) => {
                Ok(made(Num::of(&value).map_or_else(|| 0.into(), |number| number.rounded(*places).value())))
            }
            Filter::Default(default) if value.is_null() || value.as_str() == Some("") => {
                Ok(Held::Borrowed(default))
            }
            Filter::Required if value.is_null() => Err(EvalError::missing(of)),
            Filter::Default(_) | Filter::Required => Ok(value),
        }
    }
}

fn count(n: &Value) -> usize {
    n.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX)
}

fn paid<'w>(text: String, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    budget.text(text.len())?;
    Ok(made(text))
}

/// RFC 3986: unreserved characters stay, every other byte becomes `%XX`.
fn url_encoded<'w>(text: &str, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let bytes = text.bytes().map(|byte| if stays(byte) { 1 } else { 3 }).sum();
    budget.text(bytes)?;
    let mut out = String::with_capacity(bytes);
    for byte in text.bytes() {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            const HEX: [char; 16] =
                ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
            out.extend(['%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    Ok(made(out))
}

fn base64_decoded<'w>(text: &str, of: &str, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let bad = |why| EvalError::invalid(format!("base64_decode of '{}': {why}", crate::expr::shorten(of)));
    budget.text(text.len())?;
    let bytes = STANDARD.decode(text).map_err(|_| bad("not base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("the decoded bytes are not UTF-8"))?;
    if text.contains('\0') {
        return Err(bad("the decoded text holds the character U+0000"));
    }
    Ok(made(text))
}

fn replaced<'w>(text: &str, from: &str, to: &str, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let hits = text.matches(from).count();
    // Counted before it is made: a short text can name a very long one.
    let bytes = (text.len() - hits * from.len()).saturating_add(hits.saturating_mul(to.len()));
    budget.text(bytes)?;
    Ok(made(text.replace(from, to)))
}

fn truncated<'w>(
    text: &str,
    characters: usize,
    suffix: &str,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    match text.char_indices().nth(characters) {
        Some((cut, _)) => paid(format!("{}{suffix}", &text[..cut]), budget),
        None => paid(text.to_owned(), budget),
    }
}

fn split<'w>(text: &str, separator: &str, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    budget.look(text.matches(separator).count() + 1)?;
    budget.text(text.len())?;
    Ok(made(text.split(separator).map(Value::from).collect::<Vec<_>>()))
}

fn joined<'w>(value: &Value, separator: &str, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let mut out = String::new();
    let Value::Array(items) = value else { return Ok(made(out)) };
    budget.look(items.len())?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            append(&mut out, separator, budget)?;
        }
        append_value(&mut out, item, budget)?;
    }
    Ok(made(out))
}
