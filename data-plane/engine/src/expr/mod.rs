//! Expressions (conditions, collections of data): parsed once at publish, evaluated under a budget.
//!
//! Data is never parsed: the only text that becomes an expression is the document's. What can be seen is the
//! [`Scope`]; there is no way from here to an environment, a secret, a clock or another instance.

mod budget;
mod compare;
mod cursor;
mod error;
mod eval;
mod function;
mod node;
mod number;
mod parse;
mod path;
mod world;

use std::{collections::BTreeSet, sync::Arc};

use orch8_model::json;
use serde_json::Value;

pub use error::{EvalError, SyntaxError};

pub(crate) use budget::Budget;
pub(crate) use cursor::Cursor;
pub(crate) use error::shorten;
pub(crate) use eval::{Held, made, null, owned};
pub(crate) use node::{Node, Notes};
pub(crate) use number::Num;
pub(crate) use parse::parse_part;
pub(crate) use path::{Grammar, Path, Root};
pub(crate) use world::World;

use crate::scope::Scope;

/// Block ids of the document: after `outputs.`, `steps.` or `errors.` the longest of them that matches wins.
pub type BlockIds = BTreeSet<Arc<str>>;

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    root: Arc<Node>,
}

impl Expr {
    /// Parses a text of at most 8 KiB. Errors: syntax with position, nesting over 64, unknown function, argument count.
    pub fn parse(text: &str, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        parse::parse(text, blocks).map(|root| Self { root: Arc::new(root) })
    }

    /// Evaluates. Errors: the budget of steps, array lengths and string bytes; unknown roots in inner templates.
    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        let world = World::new(scope);
        let mut budget = Budget::expression();
        let value = self.root.eval(&world, &mut budget)?;
        let value = owned(value, &mut budget)?;
        // Arrays around the deepest data may be deeper than what can be read back.
        json::check_value(&value)
            .map_err(|problem| EvalError::limit(format!("the value {}", problem.message)))?;
        Ok(value)
    }

    /// Evaluates a condition: whether the value is [`truthy`], without making a copy of it. Errors: as [`Self::eval`].
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool, EvalError> {
        let world = World::new(scope);
        Ok(truthy(&*self.root.eval(&world, &mut Budget::expression())?))
    }

    /// Things worth a warning at publish: bare words compared with paths, references to unknown blocks.
    pub fn warnings(&self, blocks: &BlockIds) -> Vec<String> {
        self.notes(blocks, &[]).into_iter().map(|(_, message)| message).collect()
    }

    /// As [`Self::warnings`], as (code, message): `BARE_WORD`, `UNKNOWN_BLOCK`, and the codes of templates inside.
    /// `scoped`: the item variables around the text.
    pub fn notes(&self, blocks: &BlockIds, scoped: &[&str]) -> Vec<(&'static str, String)> {
        let mut notes = Notes { blocks, scoped, found: Vec::new() };
        self.root.note(&mut notes);
        notes.found
    }
}

/// Non-null; `false`, 0, `""` and `[]` are falsy; every object is truthy.
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(bit) => *bit,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests;
