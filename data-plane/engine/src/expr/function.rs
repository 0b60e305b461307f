//! The functions of expressions. Wrong types of arguments give null; a wrong name or number of them does not parse.

mod list;
mod number;
mod text;

use std::borrow::Cow;

use orch8_model::json;
use serde_json::Value;

use super::{
    EvalError,
    budget::Budget,
    compare::equal,
    eval::{Held, made, null, owned},
    world::World,
};

/// Arguments of `sum`, `max` and their kin when they are not one array.
const VARIADIC_MAX: usize = 64;

macro_rules! functions {
    ($($variant:ident $name:literal $least:literal $most:expr,)*) => {
        /// A function by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Function { $($variant),* }

        impl Function {
            #[cfg(test)]
            pub const ALL: &[Function] = &[$(Function::$variant),*];

            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Function::$variant),)* _ => None }
            }

            #[cfg(test)]
            pub fn name(self) -> &'static str {
                match self { $(Function::$variant => $name),* }
            }

            /// The least and the most arguments.
            pub fn arity(self) -> (usize, usize) {
                match self { $(Function::$variant => ($least, $most)),* }
            }
        }
    };
}

functions! {
    Abs "abs" 1 1,
    Len "len" 1 1,
    Chars "chars" 1 1,
    Json "json" 1 1,
    Now "now" 0 0,
    Uuid "uuid" 0 0,
    Random "random" 0 2,
    FormatDate "format_date" 2 2,
    DayOfWeek "day_of_week" 1 1,
    Keys "keys" 1 1,
    Values "values" 1 1,
    Contains "contains" 2 2,
    StartsWith "starts_with" 2 2,
    EndsWith "ends_with" 2 2,
    Sum "sum" 1 VARIADIC_MAX,
    Avg "avg" 1 VARIADIC_MAX,
    Min "min" 1 VARIADIC_MAX,
    Max "max" 1 VARIADIC_MAX,
    First "first" 1 1,
    Last "last" 1 1,
    Slice "slice" 2 3,
    Sort "sort" 1 2,
    Unique "unique" 1 1,
    Count "count" 2 2,
    ChangePct "change_pct" 2 2,
    Clamp "clamp" 3 3,
}

/// The arguments of one call, taken in order.
type Arguments<'w> = std::vec::IntoIter<Held<'w>>;

impl Function {
    /// Calls it with as many arguments as its arity allows.
    pub fn call<'w>(
        self,
        arguments: Vec<Held<'w>>,
        world: &World<'_>,
        budget: &mut Budget,
    ) -> Result<Held<'w>, EvalError> {
        let mut arguments = arguments.into_iter();
        match self {
            Function::Abs => Ok(number::abs(&next(&mut arguments))),
            Function::Len => Ok(len(&next(&mut arguments))),
            Function::Chars => text::chars(&next(&mut arguments), budget),
            Function::Json => as_json(&next(&mut arguments), budget),
            Function::Now => Ok(made(world.scope.now().to_string())),
            Function::Uuid => Ok(text::uuid(world)),
            Function::Random => Ok(number::random(arguments, world)),
            Function::FormatDate => text::format_date(&next(&mut arguments), &next(&mut arguments), budget),
            Function::DayOfWeek => Ok(text::day_of_week(&next(&mut arguments))),
            Function::Keys => list::keys(&next(&mut arguments), budget),
            Function::Values => list::values(next(&mut arguments), budget),
            Function::Contains => contains(&next(&mut arguments), &next(&mut arguments), budget),
            Function::StartsWith => {
                Ok(text::both(&next(&mut arguments), &next(&mut arguments), |a, b| a.starts_with(b)))
            }
            Function::EndsWith => {
                Ok(text::both(&next(&mut arguments), &next(&mut arguments), |a, b| a.ends_with(b)))
            }
            Function::Sum => number::sum(arguments, budget),
            Function::Avg => number::avg(arguments, budget),
            Function::Min => number::extreme(arguments, std::cmp::Ordering::is_lt, budget),
            Function::Max => number::extreme(arguments, std::cmp::Ordering::is_gt, budget),
            Function::First => Ok(list::element(next(&mut arguments), |_| 0)),
            Function::Last => Ok(list::element(next(&mut arguments), |len| len.saturating_sub(1))),
            Function::Slice => slice(arguments, budget),
            Function::Sort => list::sort(next(&mut arguments), arguments.next(), budget),
            Function::Unique => list::unique(next(&mut arguments), budget),
            Function::Count => list::count(&next(&mut arguments), &next(&mut arguments), budget),
            Function::ChangePct => Ok(number::change_pct(&next(&mut arguments), &next(&mut arguments))),
            Function::Clamp => {
                Ok(number::clamp(next(&mut arguments), next(&mut arguments), next(&mut arguments)))
            }
        }
    }
}

fn next<'w>(arguments: &mut Arguments<'w>) -> Held<'w> {
    arguments.next().unwrap_or_else(null)
}

/// Elements of an array, members of an object, bytes of a text.
fn len<'w>(value: &Value) -> Held<'w> {
    match value {
        Value::String(text) => made(text.len()),
        Value::Array(items) => made(items.len()),
        Value::Object(map) => made(map.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => null(),
    }
}

fn as_json<'w>(value: &Value, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    budget.text(json::size(value))?;
    Ok(made(json::print(value)))
}

/// Whether a text has a part, or an array an element.
fn contains<'w>(whole: &Value, part: &Value, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    match (whole, part) {
        (Value::String(text), Value::String(part)) => {
            budget.scan(text.len() + part.len())?;
            Ok(made(text.contains(part.as_str())))
        }
        (Value::Array(items), part) => {
            budget.look(items.len())?;
            for item in items {
                if equal(item, part, budget)? {
                    return Ok(made(true));
                }
            }
            Ok(made(false))
        }
        (_, _) => Ok(null()),
    }
}

/// Part of a text by characters, or of an array; negative places count from the end, places outside are cut.
fn slice<'w>(mut arguments: Arguments<'w>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let whole = next(&mut arguments);
    let start = number::place(&next(&mut arguments));
    let end = arguments.next().map(|end| number::place(&end));
    let (Some(start), Some(end)) = (start, end.unwrap_or(Some(i128::MAX))) else { return Ok(null()) };
    match whole {
        Cow::Owned(Value::String(text)) => text::slice(&text, start, end, budget),
        Cow::Borrowed(Value::String(text)) => text::slice(text, start, end, budget),
        whole => list::slice(whole, start, end, budget),
    }
}

/// The places `start..end` in something of `len` parts.
fn range(len: usize, start: i128, end: i128) -> std::ops::Range<usize> {
    let parts = len as i128;
    let cut = |place: i128| {
        let from_front = if place < 0 { place.saturating_add(parts) } else { place };
        usize::try_from(from_front.clamp(0, parts)).unwrap_or(len)
    };
    let (start, end) = (cut(start), cut(end));
    start..end.max(start)
}

/// The elements of an array, one's own; `None` for anything else.
fn items(value: Held<'_>, budget: &mut Budget) -> Result<Option<Vec<Value>>, EvalError> {
    let Value::Array(items) = &*value else { return Ok(None) };
    budget.look(items.len())?;
    match owned(value, budget)? {
        Value::Array(items) => Ok(Some(items)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Ok(None),
    }
}
