//! Functions on arrays and objects.

use std::{borrow::Cow, collections::HashSet};

use orch8_model::json;
use serde_json::{Map, Value};

use super::{Held, items, made, null, range};
use crate::expr::{
    EvalError,
    budget::Budget,
    compare::{equal, rank},
    eval::owned,
    number::Num,
};

pub(super) fn keys<'w>(value: &Value, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let Value::Object(map) = value else { return Ok(null()) };
    budget.look(map.len())?;
    let mut keys = Vec::with_capacity(map.len());
    for key in map.keys() {
        budget.text(key.len())?;
        keys.push(Value::from(key.as_str()));
    }
    Ok(made(keys))
}

pub(super) fn values<'w>(value: Held<'w>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let Value::Object(map) = &*value else { return Ok(null()) };
    budget.look(map.len())?;
    match owned(value, budget)? {
        Value::Object(map) => Ok(made(map.into_iter().map(|(_, value)| value).collect::<Vec<_>>())),
        other => Ok(Cow::Owned(other)),
    }
}

/// The element at `place` of the length.
pub(super) fn element<'w>(value: Held<'w>, place: fn(usize) -> usize) -> Held<'w> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.get(place(items.len())).map_or_else(null, Cow::Borrowed),
        Cow::Owned(Value::Array(mut items)) => {
            let place = place(items.len());
            if place < items.len() { Cow::Owned(items.swap_remove(place)) } else { null() }
        }
        Cow::Borrowed(_) | Cow::Owned(_) => null(),
    }
}

pub(super) fn slice<'w>(
    value: Held<'w>,
    start: i128,
    end: i128,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    let Value::Array(items) = &*value else { return Ok(null()) };
    let part = &items[range(items.len(), start, end)];
    budget.look(part.len())?;
    part.iter().map(|item| budget.copy(item)).collect::<Result<Vec<_>, _>>().map(made)
}

/// Stable, by rank; `"asc"` or `"desc"`.
pub(super) fn sort<'w>(
    value: Held<'w>,
    direction: Option<Held<'w>>,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    let descending = match direction.as_deref().map(Value::as_str) {
        None | Some(Some("asc")) => false,
        Some(Some("desc")) => true,
        Some(_) => return Ok(null()),
    };
    let Some(mut items) = items(value, budget)? else { return Ok(null()) };
    // A sort compares every element about log2(n) times; four comparisons cost about as much as one look.
    let rounds = items.len().checked_ilog2().unwrap_or(0).div_ceil(4);
    (0..rounds).try_for_each(|_| budget.look(items.len()))?;
    if descending {
        items.sort_by(|a, b| rank(b, a));
    } else {
        items.sort_by(rank);
    }
    Ok(made(items))
}

/// The first of each set of equal elements, in their order.
pub(super) fn unique<'w>(value: Held<'w>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let Some(mut items) = items(value, budget)? else { return Ok(null()) };
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for item in items.drain(..) {
        let key = json::canonical(&by_value(&item));
        budget.scan(8 * key.len())?;
        if seen.insert(key) {
            kept.push(item);
        }
    }
    Ok(made(kept))
}

pub(super) fn count<'w>(value: &Value, wanted: &Value, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let Value::Array(items) = value else { return Ok(null()) };
    budget.look(items.len())?;
    let mut count = 0_usize;
    for item in items {
        count += usize::from(equal(item, wanted, budget)?);
    }
    Ok(made(count))
}

/// The value with every whole number in its integer form, so that equal values print the same canonical text.
fn by_value(value: &Value) -> Value {
    match value {
        Value::Number(_) => match Num::of(value).and_then(Num::integer).map(|int| Num::Int(int).value()) {
            Some(whole @ Value::Number(_)) => whole,
            Some(_) | None => value.clone(),
        },
        Value::Array(items) => items.iter().map(by_value).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), by_value(value))).collect::<Map<_, _>>().into()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}
