//! Number tokens. Without `.` and exponent: an exact integer in −2^63 … 2^64−1; otherwise a finite f64.

use serde_json::Number;

/// Why a token is no number of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberFlaw {
    /// Not a JSON number token.
    Syntax,
    /// An integer outside −2^63 … 2^64−1.
    IntegerRange,
    /// A float that overflows.
    FloatRange,
}

/// Reads a text that is exactly one JSON number token. `None`: anything else, and numbers out of range.
pub fn parse_number(text: &str) -> Option<Number> {
    match token_len(text.as_bytes()) {
        Some(len) if len == text.len() => value_of(text).ok(),
        _ => None,
    }
}

/// Length of the number token at the start of `bytes`; `None` when there is none.
pub(super) fn token_len(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    match bytes.get(at) {
        Some(b'0') => at += 1,
        Some(b'1'..=b'9') => at += digits(at),
        _ => return None,
    }
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    // `01` is no number, and neither are `0` and `1` side by side.
    if bytes.get(at).is_some_and(u8::is_ascii_digit) { None } else { Some(at) }
}

/// The value of a token that [`token_len`] has measured.
pub(super) fn value_of(token: &str) -> Result<Number, NumberFlaw> {
    if token.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        let float: f64 = token.parse().map_err(|_| NumberFlaw::Syntax)?;
        return Number::from_f64(float).ok_or(NumberFlaw::FloatRange);
    }
    if token == "-0" {
        return Number::from_f64(-0.0).ok_or(NumberFlaw::FloatRange);
    }
    if token.starts_with('-') {
        return token.parse::<i64>().map(Number::from).map_err(|_| NumberFlaw::IntegerRange);
    }
    token.parse::<u64>().map(Number::from).map_err(|_| NumberFlaw::IntegerRange)
}
