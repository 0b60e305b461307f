//! Equality and order of values.

use std::cmp::Ordering;

use serde_json::Value;

use super::{EvalError, budget::Budget, number::Num};

/// `==`: numbers by value, else same type and equal.
pub(crate) fn equal(a: &Value, b: &Value, budget: &mut Budget) -> Result<bool, EvalError> {
    match (a, b) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Number(_), Value::Number(_)) => Ok(order_of_numbers(a, b) == Some(Ordering::Equal)),
        (Value::String(a), Value::String(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            budget.scan(a.len())?;
            Ok(a == b)
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                budget.look(1)?;
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, a) in a {
                budget.look(1)?;
                budget.scan(key.len())?;
                match b.get(key) {
                    Some(b) if equal(a, b, budget)? => {}
                    Some(_) | None => return Ok(false),
                }
            }
            Ok(true)
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => Ok(false),
    }
}

/// `<` and its kin: two numbers, or two strings by bytes; `None` for everything else.
pub(crate) fn order(a: &Value, b: &Value, budget: &mut Budget) -> Result<Option<Ordering>, EvalError> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => {
            budget.scan(a.len().min(b.len()))?;
            Ok(Some(a.as_bytes().cmp(b.as_bytes())))
        }
        (a, b) => Ok(order_of_numbers(a, b)),
    }
}

/// The order of `sort`: null < bool < number < string < array < object; arrays and objects keep their places.
pub(crate) fn rank(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (a, b) => order_of_numbers(a, b).unwrap_or_else(|| kind(a).cmp(&kind(b))),
    }
}

fn order_of_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    Some(Num::of(a)?.order(Num::of(b)?))
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}
