//! One rule set for every JSON text that enters: UTF-8, no NUL, no lone surrogates, no duplicate keys, depth ≤ 128,
//! integers exact in −2^63 … 2^64−1, finite floats.
//!
//! serde_json turns 2^64 into a float, rounds some floats by one unit, collapses duplicate keys and prints `1e16`, all
//! silently. So reading and printing are our own pass, straight into [`Value`]: what was accepted can be read back, digit
//! for digit. How large a text may be is the caller's business.

mod number;
mod read;
mod write;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use number::parse_number;
pub use write::{canonical, print, size};

use crate::{fault::Reason, limits::JSON_DEPTH_MAX};

/// Levels that records of our own may put around accepted values.
const ENVELOPE_DEPTH: usize = 32;

/// Bytes of a reported pointer; longer ones are cut at a character and end in `…`. A key may be megabytes long, an
/// answer may not.
const POINTER_BYTES_MAX: usize = 1024;

/// Why a text is not acceptable JSON, with the JSON pointer of the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonProblem {
    /// One of the `JSON_*` reasons or `INVALID_JSON`.
    pub reason: Reason,
    /// JSON pointer of the value, `""` for the root; at most about 1 KiB.
    pub pointer: String,
    /// Byte offset in the text; 0 for a value that never was text.
    pub offset: usize,
    /// For people.
    pub message: String,
}

/// Parses a text under the rules above, in linear time and without recursion. Errors: the first place that breaks them.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonProblem> {
    read::read(bytes, JSON_DEPTH_MAX)
}

/// As [`parse`], for a text whose containers may nest `depth_max` deep: the caller checks that each of its fields keeps
/// to the limit, counted from that field's own root.
pub fn parse_nested(bytes: &[u8], depth_max: usize) -> Result<Value, JsonProblem> {
    read::read(bytes, depth_max)
}

/// Reads back a record of ours, printed with [`print()`]: the same rules, with room for the record's own levels around the
/// values in it. Errors: not JSON under the rules, or not a `T` (`INVALID_JSON`).
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonProblem> {
    let value = read::read(bytes, JSON_DEPTH_MAX + ENVELOPE_DEPTH)?;
    // serde's own message would quote the value, and what tenants store does not belong in messages.
    serde_json::from_value(value).map_err(|_| JsonProblem {
        reason: Reason::InvalidJson,
        pointer: String::new(),
        offset: 0,
        message: format!("does not have the shape of {}", std::any::type_name::<T>()),
    })
}

/// Checks a value that was made in memory: depth, and U+0000 in strings and keys. Numbers and keys of a [`Value`] are
/// in order by construction. Errors: the first place in document order.
pub fn check_value(value: &Value) -> Result<(), JsonProblem> {
    check(value, 0).map_err(|flaw| {
        let mut pointer = Pointer::default();
        flaw.path.iter().rev().for_each(|segment| pointer.push(segment));
        let message = match flaw.reason {
            Reason::JsonDepth => format!("is nested deeper than {JSON_DEPTH_MAX} levels"),
            _ => "holds the character U+0000".to_owned(),
        };
        JsonProblem { reason: flaw.reason, pointer: pointer.finish(), offset: 0, message }
    })
}

/// What [`check`] found; the path is collected on the way out, innermost first.
struct Flaw {
    reason: Reason,
    path: Vec<String>,
}

impl Flaw {
    fn at(reason: Reason) -> Self {
        Self { reason, path: Vec::new() }
    }

    fn within(mut self, segment: impl Into<String>) -> Self {
        self.path.push(segment.into());
        self
    }
}

/// `depth`: containers around `value`. Never recurses below the limit, whatever the value's real depth.
fn check(value: &Value, depth: usize) -> Result<(), Flaw> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) if text.contains('\0') => Err(Flaw::at(Reason::JsonNul)),
        Value::String(_) => Ok(()),
        Value::Array(_) | Value::Object(_) if depth == JSON_DEPTH_MAX => Err(Flaw::at(Reason::JsonDepth)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| check(item, depth + 1).map_err(|flaw| flaw.within(i.to_string()))),
        Value::Object(map) => map.iter().try_for_each(|(key, item)| {
            if key.contains('\0') {
                return Err(Flaw::at(Reason::JsonNul));
            }
            check(item, depth + 1).map_err(|flaw| flaw.within(key))
        }),
    }
}

/// A JSON pointer that stays short.
#[derive(Default)]
struct Pointer(String);

impl Pointer {
    fn push(&mut self, segment: &str) {
        if self.0.len() > POINTER_BYTES_MAX {
            return;
        }
        self.0.push('/');
        for c in segment.chars() {
            match c {
                '~' => self.0.push_str("~0"),
                '/' => self.0.push_str("~1"),
                c => self.0.push(c),
            }
            if self.0.len() > POINTER_BYTES_MAX {
                return;
            }
        }
    }

    fn finish(mut self) -> String {
        if self.0.len() > POINTER_BYTES_MAX {
            self.0.truncate(self.0.floor_char_boundary(POINTER_BYTES_MAX));
            self.0.push('…');
        }
        self.0
    }
}

#[cfg(test)]
mod tests;
