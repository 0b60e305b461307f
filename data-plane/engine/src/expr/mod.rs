//! Expressions (conditions, collections of data): parsed once at publish, evaluated under a budget.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use crate::scope::Scope;

/// Block ids of the document: after `outputs.`, `steps.` or `errors.` the longest of them that matches wins.
pub type BlockIds = BTreeSet<Arc<str>>;

/// Where and why a text does not parse. Position: byte offset, and line and column from 1 (column in characters).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct SyntaxError {
    pub message: String,
    pub offset: usize,
    pub line: usize,
    pub column: usize,
}

/// A run-time failure of an expression or template: always a permanent step failure with this code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct EvalError {
    /// `EXPRESSION_LIMIT`, `TEMPLATE_UNKNOWN_ROOT`, `TEMPLATE_MISSING`, `EXPRESSION_SYNTAX` or `INVALID_PARAMS`.
    pub code: &'static str,
    pub message: String,
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {}

impl Expr {
    /// Parses a text of at most 8 KiB. Errors: syntax with position, nesting over 64, unknown function, argument count.
    pub fn parse(text: &str, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        let _ = (text, blocks);
        unimplemented!()
    }

    /// Evaluates. Errors: the budget of steps, array lengths and string bytes; unknown roots in inner templates.
    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        let _ = scope;
        unimplemented!()
    }

    /// Things worth a warning at publish: bare words compared with paths, references to unknown blocks.
    pub fn warnings(&self, blocks: &BlockIds) -> Vec<String> {
        let _ = blocks;
        Vec::new()
    }
}

/// Non-null; `false`, 0, `""` and `[]` are falsy; every object is truthy.
pub fn truthy(value: &Value) -> bool {
    let _ = value;
    unimplemented!()
}
