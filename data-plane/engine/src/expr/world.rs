//! The scope as paths see it: whole roots are built once per evaluation, everything else is borrowed.

use std::cell::OnceCell;

use serde_json::{Map, Value};

use super::{
    EvalError,
    path::{Path, Root, Segment},
};
use crate::scope::Scope;

/// One evaluation's view of a scope.
pub(crate) struct World<'s> {
    pub scope: &'s dyn Scope,
    overlay: OnceCell<Vec<(&'s str, &'s Value)>>,
    data: OnceCell<Value>,
    config: OnceCell<Value>,
    runtime: OnceCell<Value>,
    outputs: OnceCell<Value>,
    errors: OnceCell<Value>,
    state: OnceCell<Value>,
    instance_id: OnceCell<Value>,
}

impl<'s> World<'s> {
    pub fn new(scope: &'s dyn Scope) -> Self {
        Self {
            scope,
            overlay: OnceCell::new(),
            data: OnceCell::new(),
            config: OnceCell::new(),
            runtime: OnceCell::new(),
            outputs: OnceCell::new(),
            errors: OnceCell::new(),
            state: OnceCell::new(),
            instance_id: OnceCell::new(),
        }
    }

    /// The value of a path in a template. `None`: missing. Errors: unknown root.
    pub fn in_template(&self, path: &Path) -> Result<Option<&Value>, EvalError> {
        match path.root {
            Root::Context => Err(EvalError::unknown_root(&path.text)),
            Root::Place => Ok(self.scoped(path)),
            Root::Name => match self.scoped(path).or_else(|| self.error_by_its_short_name(path)) {
                Some(value) => Ok(Some(value)),
                None if self.is_root(path) => Ok(None),
                None => Err(EvalError::unknown_root(&path.text)),
            },
            Root::Data
            | Root::Config
            | Root::Audit
            | Root::Runtime
            | Root::Outputs
            | Root::Errors
            | Root::InstanceId
            | Root::State => Ok(self.known(path)),
        }
    }

    /// Whether the first name means something here; otherwise it is a word.
    pub fn is_root(&self, path: &Path) -> bool {
        path.root != Root::Name || self.scope.scoped(&path.name).is_some() || self.is_short_error(path)
    }

    /// The value of a path in an expression: scoped variable, known root, key of data, `state` and `errors`.
    /// `None`: missing.
    pub fn in_expression(&self, path: &Path) -> Option<&Value> {
        match path.root {
            Root::Context => None,
            Root::Data | Root::Config | Root::Audit | Root::Runtime | Root::Outputs | Root::InstanceId => {
                self.known(path)
            }
            // An item variable named like a root is only reached behind `data.`, or as a key of data, as here.
            Root::State | Root::Errors => match self.of_data(&path.name) {
                Some(value) => walk(value, &path.segments),
                None => self.known(path),
            },
            Root::Place | Root::Name => {
                match self.scope.scoped(&path.name).or_else(|| self.of_data(&path.name)) {
                    Some(value) => walk(value, &path.segments),
                    None => self.error_by_its_short_name(path),
                }
            }
        }
    }

    /// A single name that nothing resolves: the word itself.
    pub fn bare_word<'p>(&self, path: &'p Path) -> Option<&'p str> {
        let word = path.is_bare_name()
            && self.scope.scoped(&path.name).is_none()
            && self.of_data(&path.name).is_none();
        word.then_some(&*path.name)
    }

    fn scoped(&self, path: &Path) -> Option<&Value> {
        walk(self.scope.scoped(&path.name)?, &path.segments)
    }

    /// `error.code` for `_error.code`, where there is one.
    fn error_by_its_short_name(&self, path: &Path) -> Option<&Value> {
        if !self.is_short_error(path) {
            return None;
        }
        walk(self.scope.scoped("_error")?, &path.segments)
    }

    fn is_short_error(&self, path: &Path) -> bool {
        &*path.name == "error" && !path.segments.is_empty() && self.scope.scoped("_error").is_some()
    }

    fn known(&self, path: &Path) -> Option<&Value> {
        let Some((first, behind)) = path.segments.split_first() else {
            return self.whole(path.root);
        };
        let value = match path.root {
            Root::Data => self.of_data(&first.key)?,
            Root::Config => self.scope.config().get(&*first.key)?,
            Root::State => self.scope.state().get(&*first.key)?,
            Root::Outputs => self.scope.output(&first.key)?,
            Root::Errors => self.scope.error(&first.key)?,
            Root::Runtime => step(self.whole(Root::Runtime)?, first)?,
            // A text has no members, and what is not kept has none either.
            Root::InstanceId | Root::Audit | Root::Place | Root::Context | Root::Name => return None,
        };
        walk(value, behind)
    }

    fn whole(&self, root: Root) -> Option<&Value> {
        let object = |map: &Map<String, Value>| Value::Object(map.clone());
        match root {
            Root::Data => Some(self.data.get_or_init(|| self.data_with_overlay())),
            Root::Config => Some(self.config.get_or_init(|| object(self.scope.config()))),
            Root::Runtime => Some(self.runtime.get_or_init(|| self.scope.runtime())),
            Root::Outputs => Some(self.outputs.get_or_init(|| Value::Object(self.scope.outputs()))),
            Root::Errors => Some(self.errors.get_or_init(|| Value::Object(self.scope.errors()))),
            Root::State => Some(self.state.get_or_init(|| object(self.scope.state()))),
            Root::InstanceId => Some(self.instance_id.get_or_init(|| self.scope.instance_id().into())),
            Root::Audit | Root::Place | Root::Context | Root::Name => None,
        }
    }

    fn data_with_overlay(&self) -> Value {
        let mut data = self.scope.data().clone();
        for (name, value) in self.overlay() {
            data.insert((*name).to_owned(), (*value).clone());
        }
        Value::Object(data)
    }

    fn of_data(&self, key: &str) -> Option<&Value> {
        let laid_over = self.overlay().iter().rev().find(|(name, _)| *name == key);
        laid_over.map(|(_, value)| *value).or_else(|| self.scope.data().get(key))
    }

    fn overlay(&self) -> &[(&'s str, &'s Value)] {
        self.overlay.get_or_init(|| self.scope.overlay())
    }
}

fn walk<'v>(value: &'v Value, segments: &[Segment]) -> Option<&'v Value> {
    segments.iter().try_fold(value, step)
}

fn step<'v>(value: &'v Value, segment: &Segment) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(&*segment.key),
        Value::Array(items) => items.get(segment.index?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
