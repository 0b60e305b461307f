//! Functions on texts and instants.

use std::fmt::Write;

use chrono::{
    DateTime, Datelike, Utc,
    format::{Item, StrftimeItems},
};
use orch8_model::{Millis, parse_instant};
use serde_json::Value;

use super::{Held, made, null, range};
use crate::expr::{EvalError, budget::Budget, world::World};

/// Bytes of a date format: two bytes of it may print forty.
const DATE_FORMAT_BYTES_MAX: usize = 1024;

pub(super) fn chars<'w>(value: &Value, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let Some(text) = value.as_str() else { return Ok(null()) };
    budget.scan(text.len())?;
    Ok(made(text.chars().count()))
}

pub(super) fn both<'w>(a: &Value, b: &Value, test: fn(&str, &str) -> bool) -> Held<'w> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => made(test(a, b)),
        (_, _) => null(),
    }
}

/// A random UUID of the turn's seed.
pub(super) fn uuid<'w>(world: &World<'_>) -> Held<'w> {
    let bits = u128::from(world.scope.random()) << 64 | u128::from(world.scope.random());
    made(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string())
}

/// `t`: RFC 3339 text or milliseconds. In UTC; an unknown specifier gives null.
pub(super) fn format_date<'w>(t: &Value, format: &Value, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let (Some(at), Some(format)) = (instant(t), format.as_str()) else { return Ok(null()) };
    if format.len() > DATE_FORMAT_BYTES_MAX {
        return Ok(null());
    }
    let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
    let mut text = String::new();
    if items.contains(&Item::Error) || write!(text, "{}", at.format_with_items(items.iter())).is_err() {
        return Ok(null());
    }
    budget.text(text.len())?;
    Ok(made(text))
}

/// 0 = Monday, as in send windows.
pub(super) fn day_of_week<'w>(t: &Value) -> Held<'w> {
    instant(t).map_or_else(null, |at| made(at.weekday().num_days_from_monday()))
}

pub(super) fn slice<'w>(
    text: &str,
    start: i128,
    end: i128,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    budget.scan(text.len())?;
    let range = range(text.chars().count(), start, end);
    let offset = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let part = &text[offset(range.start)..offset(range.end)];
    budget.text(part.len())?;
    Ok(made(part))
}

fn instant(value: &Value) -> Option<DateTime<Utc>> {
    let at = match value {
        Value::String(text) => parse_instant(text).ok()?,
        value => Millis(value.as_i64()?),
    };
    (Millis::MIN..=Millis::MAX).contains(&at).then(|| at.to_datetime())
}
