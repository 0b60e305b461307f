//! Functions on numbers.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Arguments, Held, made, next, null};
use crate::expr::{EvalError, budget::Budget, number::Num, world::World};

pub(super) fn abs<'w>(value: &Value) -> Held<'w> {
    Num::of(value).map_or_else(null, |number| made(number.abs().value()))
}

/// `random(min = 0, max = 100)`: uniform; an integer of `min..=max` when both are integers, else a double.
pub(super) fn random<'w>(mut arguments: Arguments<'w>, world: &World<'_>) -> Held<'w> {
    let mut bound = |default| match arguments.next() {
        Some(value) => Num::of(&value),
        None => Some(Num::Int(default)),
    };
    match (bound(0), bound(100)) {
        (Some(Num::Int(min)), Some(Num::Int(max))) if min <= max => {
            let wide = u128::from(world.scope.random()) << 64 | u128::from(world.scope.random());
            // Bounds have 64 bits, so the span fits; 128 random bits make its modulo even enough.
            let offset = wide % ((max - min) as u128 + 1);
            made(Num::Int(min + offset as i128).value())
        }
        (Some(min), Some(max)) if min.order(max).is_le() => {
            let unit = (world.scope.random() >> 11) as f64 / (1_u64 << 53) as f64;
            made(Num::Float(min.float() + (max.float() - min.float()) * unit).value())
        }
        (_, _) => null(),
    }
}

pub(super) fn sum<'w>(arguments: Arguments<'w>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let total = numbers(arguments, budget)?.map(total);
    Ok(total.map_or_else(null, |total| made(total.value())))
}

pub(super) fn avg<'w>(arguments: Arguments<'w>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let Some(numbers) = numbers(arguments, budget)? else { return Ok(null()) };
    let count = Num::Int(numbers.len() as i128);
    Ok(total(numbers).over(count).map_or_else(null, |mean| made(mean.value())))
}

/// The first number that `beats` all others.
pub(super) fn extreme<'w>(
    arguments: Arguments<'w>,
    beats: fn(Ordering) -> bool,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    let Some(numbers) = numbers(arguments, budget)? else { return Ok(null()) };
    let best = numbers.into_iter().reduce(|best, next| if beats(next.order(best)) { next } else { best });
    Ok(best.map_or_else(null, |best| made(best.value())))
}

/// `(new - old) / old * 100`, an integer when exact; null from zero.
pub(super) fn change_pct<'w>(old: &Value, new: &Value) -> Held<'w> {
    let (Some(old), Some(new)) = (Num::of(old), Num::of(new)) else { return null() };
    let change = new.minus(old).times(Num::Int(100)).over(old);
    change.map_or_else(null, |change| made(change.value()))
}

/// `x`, or the bound it lies behind; null when the bounds are the wrong way round.
pub(super) fn clamp<'w>(x: Held<'w>, low: Held<'w>, high: Held<'w>) -> Held<'w> {
    match (Num::of(&x), Num::of(&low), Num::of(&high)) {
        (Some(_), Some(l), Some(h)) if l.order(h).is_gt() => null(),
        (Some(n), Some(l), Some(_)) if n.order(l).is_lt() => low,
        (Some(n), Some(_), Some(h)) if n.order(h).is_gt() => high,
        (Some(_), Some(_), Some(_)) => x,
        (_, _, _) => null(),
    }
}

/// A whole number that says where.
pub(super) fn place(value: &Value) -> Option<i128> {
    Num::of(value)?.integer()
}

/// One array of numbers, or numbers; `None` when one of them is something else.
fn numbers(mut arguments: Arguments<'_>, budget: &mut Budget) -> Result<Option<Vec<Num>>, EvalError> {
    if arguments.len() > 1 {
        return Ok(arguments.map(|value| Num::of(&value)).collect());
    }
    let value = next(&mut arguments);
    let Value::Array(items) = &*value else { return Ok(None) };
    budget.look(items.len())?;
    Ok(items.iter().map(Num::of).collect())
}

fn total(numbers: Vec<Num>) -> Num {
    numbers.into_iter().fold(Num::Int(0), Num::plus)
}
