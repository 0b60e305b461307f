//! `retry`: how often a step is tried and how long it waits between tries.

use std::collections::HashSet;

use orch8_model::limits::TRIES_MAX;
use serde_json::Value;

use super::{
    object::{Object, kind_of},
    report::{Report, element},
    shape,
    texts::Texts,
};
use crate::program::{Jitter, Retry};

const INITIAL_BACKOFF_MS: i64 = 1_000;
const MAX_BACKOFF_MS: i64 = 60_000;
const MULTIPLIER: f64 = 2.0;
const JITTER: f64 = 0.1;

pub(super) fn read(step: &Object<'_>, texts: &Texts<'_>, report: &mut Report) -> Option<Retry> {
    let object = step.inner("retry", &shape::RETRY, report)?;
    if object.get("max_attempts").is_none() {
        object.missing("max_attempts", report);
    }
    let max_attempts = object.integer("max_attempts", 1..=TRIES_MAX, report).unwrap_or(1);
    let (initial_ms, max_ms) = backoffs(&object, report);
    Some(Retry {
        max_attempts,
        initial_ms,
        max_ms,
        multiplier: multiplier(&object, report),
        jitter: jitter(&object, report),
        retry_if: texts.optional(&object, "retry_if", report),
        non_retryable_codes: codes(&object, report),
    })
}

fn backoffs(object: &Object<'_>, report: &mut Report) -> (i64, i64) {
    let given = object.optional("max_backoff").is_some();
    let initial = object.duration("initial_backoff", report).unwrap_or(INITIAL_BACKOFF_MS);
    let max = object.duration("max_backoff", report);
    if max.is_some() == given && initial > max.unwrap_or(MAX_BACKOFF_MS) {
        match max {
            Some(max) if object.get("initial_backoff").is_none() => {
                let rule = format!("of {max} ms must be ≥ initial_backoff ({initial} ms, its default)");
                object.invalid("max_backoff", rule, report);
            }
            Some(max) => {
                let rule = format!("of {initial} ms must be ≤ max_backoff ({max} ms)");
                object.invalid("initial_backoff", rule, report);
            }
            None => {
                let rule =
                    format!("of {initial} ms must be ≤ max_backoff ({MAX_BACKOFF_MS} ms, its default)");
                object.invalid("initial_backoff", rule, report);
            }
        }
    }
    (initial, max.unwrap_or(MAX_BACKOFF_MS))
}

fn multiplier(object: &Object<'_>, report: &mut Report) -> f64 {
    let Some(value) = object.get("backoff_multiplier") else { return MULTIPLIER };
    let number = value.as_f64().filter(|n| n.is_finite() && *n >= 1.0);
    number.unwrap_or_else(|| {
        object.invalid("backoff_multiplier", "must be a finite number ≥ 1", report);
        MULTIPLIER
    })
}

fn jitter(object: &Object<'_>, report: &mut Report) -> Jitter {
    match object.get("jitter") {
        None => Jitter::Fraction(JITTER),
        Some(Value::String(text)) if text == "full" => Jitter::Full,
        Some(value) => match value.as_f64().filter(|n| (0.0..=1.0).contains(n)) {
            Some(fraction) => Jitter::Fraction(fraction),
            None => {
                object.invalid("jitter", "must be a number from 0 to 1, or \"full\"", report);
                Jitter::Fraction(JITTER)
            }
        },
    }
}

fn codes(object: &Object<'_>, report: &mut Report) -> Vec<String> {
    let list = object.list("non_retryable_codes", report).unwrap_or_default();
    let place = object.at("non_retryable_codes");
    let mut seen = HashSet::new();
    let mut codes = Vec::new();
    for (i, code) in list.iter().enumerate() {
        match code.as_str() {
            Some(text) if text.trim().is_empty() => {
                report.invalid(element(&place, i), "a code must not be blank");
            }
            Some(text) if seen.insert(text) => codes.push(text.to_owned()),
            Some(_) => {}
            None => {
                report.invalid(element(&place, i), format!("a code must be text, not {}", kind_of(code)));
            }
        }
    }
    codes
}
