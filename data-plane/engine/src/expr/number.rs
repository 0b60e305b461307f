//! Arithmetic on JSON numbers: exact on integers of 64 bits, double otherwise, and comparison without rounding.

use std::cmp::Ordering;

use orch8_model::json;
use serde_json::{Number, Value};

/// A number of the language. An `Int` lies in −2^63 … 2^64−1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Num {
    Int(i128),
    Float(f64),
}

impl Num {
    pub fn of(value: &Value) -> Option<Self> {
        value.as_number().and_then(Self::of_number)
    }

    /// As arithmetic sees an operand: also text that is exactly a number token, its kind kept.
    pub fn of_operand(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Self::of_number(number),
            Value::String(text) => Self::of_number(&json::parse_number(text)?),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn of_number(number: &Number) -> Option<Self> {
        match number.as_i128() {
            Some(int) => Some(Num::Int(int)),
            None => number.as_f64().map(Num::Float),
        }
    }

    /// As a value: null when it is not finite.
    pub fn value(self) -> Value {
        match self {
            Num::Int(int) => Number::from_i128(int).map_or(Value::Null, Value::Number),
            Num::Float(float) => Number::from_f64(float).map_or(Value::Null, Value::Number),
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Num::Int(int) => int as f64,
            Num::Float(float) => float,
        }
    }

    /// The whole number it is, if it is one: `3`, `3.0`.
    pub fn integer(self) -> Option<i128> {
        match self {
            Num::Int(int) => Some(int),
            Num::Float(float) if float.fract() == 0.0 && float.abs() < 1e30 => Some(float as i128),
            Num::Float(_) => None,
        }
    }

    pub fn plus(self, other: Num) -> Num {
        Self::with(self, other, i128::checked_add, |a, b| a + b)
    }

    pub fn minus(self, other: Num) -> Num {
        Self::with(self, other, i128::checked_sub, |a, b| a - b)
    }

    pub fn times(self, other: Num) -> Num {
        Self::with(self, other, i128::checked_mul, |a, b| a * b)
    }

    /// An integer when exact. `None`: the divisor is zero.
    pub fn over(self, other: Num) -> Option<Num> {
        match (self, other) {
            (_, Num::Int(0)) => None,
            (_, Num::Float(0.0)) => None,
            (Num::Int(a), Num::Int(b)) if a % b == 0 => Some(fit(a / b)),
            (a, b) => Some(Num::Float(a.float() / b.float())),
        }
    }

    pub fn negated(self) -> Num {
        match self {
            Num::Int(int) => fit(-int),
            Num::Float(float) => Num::Float(-float),
        }
    }

    pub fn abs(self) -> Num {
        match self {
            Num::Int(int) => fit(int.abs()),
            Num::Float(float) => Num::Float(float.abs()),
        }
    }

    /// To so many decimal places, half away from zero, by the digits that the number prints with: 1.005 to two places
    /// is 1.01, although the double behind it lies a hair below. Integers stay as they are.
    pub fn rounded(self, places: u32) -> Num {
        let Num::Float(float) = self else { return self };
        let shortest = format!("{:e}", float.abs());
        let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
        let digits = mantissa.replace('.', "");
        let exponent: i64 = exponent.parse().unwrap_or_default();
        let kept = match usize::try_from(exponent + 1 + i64::from(places)) {
            Ok(kept) if kept >= digits.len() => return self,
            Ok(kept) => kept,
            Err(_) => return Num::Float(0.0),
        };
        let up = digits.as_bytes()[kept] >= b'5';
        // A double has at most 17 shortest digits.
        let head = digits[..kept].parse::<u64>().unwrap_or_default() + u64::from(up);
        let rounded: f64 = format!("{head}e{}", exponent + 1 - kept as i64).parse().unwrap_or_default();
        Num::Float(if float < 0.0 && rounded != 0.0 { -rounded } else { rounded })
    }

    /// By value, without rounding either side.
    pub fn order(self, other: Num) -> Ordering {
        match (self, other) {
            (Num::Int(a), Num::Int(b)) => a.cmp(&b),
            (Num::Float(a), Num::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Num::Int(a), Num::Float(b)) => int_against_float(a, b),
            (Num::Float(a), Num::Int(b)) => int_against_float(b, a).reverse(),
        }
    }

    fn with(a: Num, b: Num, exact: fn(i128, i128) -> Option<i128>, double: fn(f64, f64) -> f64) -> Num {
        match (a, b) {
            (Num::Int(x), Num::Int(y)) => {
                exact(x, y).map_or_else(|| Num::Float(double(x as f64, y as f64)), fit)
            }
            (x, y) => Num::Float(double(x.float(), y.float())),
        }
    }
}

/// An integer while it fits into 64 bits, signed or not; else a double.
fn fit(int: i128) -> Num {
    if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&int) {
        Num::Int(int)
    } else {
        Num::Float(int as f64)
    }
}

fn int_against_float(int: i128, float: f64) -> Ordering {
    // Beyond 2^100 there is no integer of ours; below, the whole part converts exactly.
    if float.abs() >= 1e30 {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    int.cmp(&(float.trunc() as i128))
        .then_with(|| 0.0_f64.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}
