//! Templates in params: `{{ path | filter }}` inside strings of a JSON value. Compiled at publish; data is never parsed.

use serde_json::Value;

use crate::{
    expr::{BlockIds, EvalError, SyntaxError},
    scope::Scope,
};

/// A JSON value of a published document with its templates compiled.
#[derive(Clone, Debug)]
pub struct Template {}

/// A publish error inside a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// JSON pointer within the value, `""` for the root.
    pub pointer: String,
    pub error: SyntaxError,
}

/// A publish warning inside a template: (code, pointer within the value, message).
pub type TemplateWarning = (&'static str, String, String);

impl Template {
    /// Compiles every string of `value`. Errors: all of them, with pointers.
    pub fn compile(value: &Value, blocks: &BlockIds) -> Result<Self, Vec<TemplateProblem>> {
        let _ = (value, blocks);
        unimplemented!()
    }

    /// Renders: a string that is exactly one `{{…}}` keeps its JSON type; otherwise pieces become text.
    pub fn render(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        let _ = scope;
        unimplemented!()
    }

    /// A template of the path form that `for_each.collection` takes without `{{`: `items`, `data.items`, `outputs.x.list`.
    pub fn collection(text: &str, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        let _ = (text, blocks);
        unimplemented!()
    }

    /// `UNKNOWN_ROOT`, `UNKNOWN_FILTER`, `EMPTY_TEMPLATE`, `UNCLOSED_TEMPLATE`, `UNKNOWN_BLOCK`.
    pub fn warnings(&self, blocks: &BlockIds) -> Vec<TemplateWarning> {
        let _ = blocks;
        Vec::new()
    }
}
