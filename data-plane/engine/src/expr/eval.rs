//! The evaluator: borrows what it reads, pays for what it makes, recurses once per level of nesting in the text.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Value;

use super::{
    EvalError,
    budget::{ARRAY_ITEMS_MAX, Budget},
    compare::{equal, order},
    node::{Arithmetic, Comparison, Node},
    number::Num,
    path::Path,
    truthy,
    world::World,
};

/// A value that is read where it lies, or that was made.
pub(crate) type Held<'w> = Cow<'w, Value>;

static NULL: Value = Value::Null;

pub(crate) fn null<'w>() -> Held<'w> {
    Cow::Borrowed(&NULL)
}

pub(crate) fn made<'w>(value: impl Into<Value>) -> Held<'w> {
    Cow::Owned(value.into())
}

/// A value of one's own; a copy is paid for.
pub(crate) fn owned(value: Held<'_>, budget: &mut Budget) -> Result<Value, EvalError> {
    match value {
        Cow::Owned(value) => Ok(value),
        Cow::Borrowed(value) => budget.copy(value),
    }
}

impl Node {
    /// The value in a world. Errors: limits, unknown roots in inner templates.
    pub fn eval<'w>(&'w self, world: &'w World<'_>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
        budget.step()?;
        match self {
            Node::Literal(value) => Ok(Cow::Borrowed(value)),
            Node::Text(text) => text.render(world, budget).map(made),
            Node::Template(chain) => chain.eval(world, budget),
            Node::Path(path) => Ok(world.in_expression(path).map_or_else(null, Cow::Borrowed)),
            Node::Exists(path) => Ok(made(world.in_expression(path).is_some())),
            Node::Call(function, nodes) => {
                let arguments =
                    nodes.iter().map(|node| node.eval(world, budget)).collect::<Result<_, _>>()?;
                function.call(arguments, world, budget)
            }
            Node::Array(nodes) => array(nodes, world, budget),
            Node::Not(node) => Ok(made(!truthy(&*node.eval(world, budget)?))),
            Node::Negative(node) => {
                let value = node.eval(world, budget)?;
                Ok(Num::of(&value).map_or_else(null, |number| made(number.negated().value())))
            }
            Node::Sum(first, rest) => sum(first, rest, world, budget),
            Node::Compare(comparison, sides) => {
                compare(*comparison, &sides.0, &sides.1, world, budget).map(made)
            }
            Node::All(nodes) => first_that_is(false, nodes, world, budget).map(|found| made(!found)),
            Node::Any(nodes) => first_that_is(true, nodes, world, budget).map(made),
            Node::Choose(arms, last) => choose(arms, last, world, budget),
        }
    }
}

fn array<'w>(nodes: &'w [Node], world: &'w World<'_>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    debug_assert!(nodes.len() <= ARRAY_ITEMS_MAX, "an expression has 8 KiB");
    let mut items = Vec::with_capacity(nodes.len());
    for node in nodes {
        let item = node.eval(world, budget)?;
        items.push(owned(item, budget)?);
    }
    Ok(made(items))
}

/// Whether one of the nodes is truthy (`wanted`) or falsy; the ones behind it are not looked at.
fn first_that_is(
    wanted: bool,
    nodes: &[Node],
    world: &World<'_>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for node in nodes {
        if truthy(&*node.eval(world, budget)?) == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

fn choose<'w>(
    arms: &'w [(Node, Node)],
    last: &'w Node,
    world: &'w World<'_>,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    for (condition, value) in arms {
        if truthy(&*condition.eval(world, budget)?) {
            return value.eval(world, budget);
        }
    }
    last.eval(world, budget)
}

fn sum<'w>(
    first: &'w Node,
    rest: &'w [(Arithmetic, Node)],
    world: &'w World<'_>,
    budget: &mut Budget,
) -> Result<Held<'w>, EvalError> {
    let mut left = first.eval(world, budget)?;
    for (operator, node) in rest {
        let right = node.eval(world, budget)?;
        left = match (operator, &*left, &*right) {
            (Arithmetic::Plus, Value::String(_), Value::String(right)) => concatenated(left, right, budget)?,
            _ => arithmetic(*operator, &left, &right),
        };
    }
    Ok(left)
}

/// Appends in place: a long chain of texts costs its result, not the square of it.
fn concatenated<'w>(left: Held<'w>, right: &str, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
    let mut text = match owned(left, budget)? {
        Value::String(text) => text,
        other => return Ok(Cow::Owned(other)),
    };
    budget.text_grown(text.len() + right.len(), right.len())?;
    text.push_str(right);
    Ok(made(text))
}

fn arithmetic<'w>(operator: Arithmetic, left: &Value, right: &Value) -> Held<'w> {
    let operand = |value: &Value| match (operator, value) {
        (Arithmetic::Plus, Value::Bool(bit)) => Some(Num::Int(i128::from(*bit))),
        (_, value) => Num::of_operand(value),
    };
    let result = match (operator, operand(left), operand(right)) {
        (Arithmetic::Plus, Some(a), Some(b)) => Some(a.plus(b)),
        (Arithmetic::Minus, Some(a), Some(b)) => Some(a.minus(b)),
        (Arithmetic::Times, Some(a), Some(b)) => Some(a.times(b)),
        (Arithmetic::Over, Some(a), Some(b)) => a.over(b),
        (_, _, _) => None,
    };
    result.map_or_else(null, |number| made(number.value()))
}

fn compare(
    comparison: Comparison,
    left: &Node,
    right: &Node,
    world: &World<'_>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    let is = |wanted: fn(Ordering) -> bool, budget: &mut Budget| {
        let (a, b) = (left.eval(world, budget)?, right.eval(world, budget)?);
        Ok(order(&a, &b, budget)?.is_some_and(wanted))
    };
    match comparison {
        Comparison::Equal => equal_sides(left, right, world, budget),
        Comparison::Unequal => equal_sides(left, right, world, budget).map(|equal| !equal),
        Comparison::Greater => is(Ordering::is_gt, budget),
        Comparison::AtLeast => is(Ordering::is_ge, budget),
        Comparison::Less => is(Ordering::is_lt, budget),
        Comparison::AtMost => is(Ordering::is_le, budget),
        Comparison::In => contained(left, right, world, budget),
    }
}

fn equal_sides(left: &Node, right: &Node, world: &World<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
    let (a, b) = (left.eval(world, budget)?, right.eval(world, budget)?);
    equal_as_words(left.as_path(), &a, right, &b, world, budget)
}

fn contained(left: &Node, right: &Node, world: &World<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
    let value = left.eval(world, budget)?;
    if let Node::Array(nodes) = right {
        for node in nodes {
            let item = node.eval(world, budget)?;
            if equal_as_words(left.as_path(), &value, node, &item, world, budget)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let list = right.eval(world, budget)?;
    let Value::Array(items) = &*list else { return Ok(false) };
    budget.look(items.len())?;
    for item in items {
        if equal(&value, item, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Equality in which a name that nothing resolves may be its own spelling: on the right of a path always, on the left
/// only against a path that holds a text.
fn equal_as_words(
    left: Option<&Path>,
    a: &Value,
    right: &Node,
    b: &Value,
    world: &World<'_>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    let (Some(left), Some(right)) = (left, right.as_path()) else {
        return equal(a, b, budget);
    };
    if let Some(word) = world.bare_word(right) {
        return Ok(a == word);
    }
    match (world.bare_word(left), b) {
        (Some(word), Value::String(text)) => Ok(word == text),
        (_, _) => equal(a, b, budget),
    }
}
