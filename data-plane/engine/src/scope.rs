//! What an expression or a template can see, and nothing else: no environment, no secrets, no other instance.

use orch8_model::Millis;
use serde_json::{Map, Value};

/// The world of one evaluation, seen from one node.
pub trait Scope {
    /// `context.data` without scoped variables.
    fn data(&self) -> &Map<String, Value>;
    /// `context.config`.
    fn config(&self) -> &Map<String, Value>;
    /// A scoped variable in its place: the item variable, `loop`, `item_index`, `item`, `_error`. `None` outside.
    fn scoped(&self, name: &str) -> Option<&Value>;
    /// Names of scoped variables that are laid over data (item variables and `_error`), innermost last.
    fn overlay(&self) -> Vec<(&str, &Value)>;
    /// The output of a block that this node sees; `None` when there is none.
    fn output(&self, block_id: &str) -> Option<&Value>;
    /// Every visible output, for the bare root `outputs`.
    fn outputs(&self) -> Map<String, Value>;
    /// The error of a block's newest failed activation.
    fn error(&self, block_id: &str) -> Option<&Value>;
    /// Every visible error, for the bare root `errors`.
    fn errors(&self) -> Map<String, Value>;
    /// The root `runtime`.
    fn runtime(&self) -> Value;
    /// The instance's own state store, for the root `state`.
    fn state(&self) -> &Map<String, Value>;
    /// Lower-case UUID text.
    fn instance_id(&self) -> &str;
    /// The turn's instant: `now()`.
    fn now(&self) -> Millis;
    /// The next number from the turn's seed: `random()`, `uuid()`.
    fn random(&self) -> u64;
}

/// A scope over plain maps, for the tests of the language.
#[cfg(test)]
pub(crate) mod plain {
    use std::{cell::Cell, collections::BTreeMap};

    use serde_json::json;

    use super::*;

    #[derive(Default)]
    pub(crate) struct Plain {
        pub data: Map<String, Value>,
        pub config: Map<String, Value>,
        pub state: Map<String, Value>,
        pub outputs: BTreeMap<String, Value>,
        pub errors: BTreeMap<String, Value>,
        pub scoped: Vec<(String, Value)>,
        pub draws: Cell<u64>,
    }

    impl Plain {
        /// Data alone.
        pub fn of(data: Value) -> Self {
            Self { data: object(data), ..Self::default() }
        }

        pub fn output(mut self, id: &str, value: Value) -> Self {
            self.outputs.insert(id.to_owned(), value);
            self
        }

        pub fn scoped(mut self, name: &str, value: Value) -> Self {
            self.scoped.push((name.to_owned(), value));
            self
        }
    }

    pub(crate) fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    impl Scope for Plain {
        fn data(&self) -> &Map<String, Value> {
            &self.data
        }
        fn config(&self) -> &Map<String, Value> {
            &self.config
        }
        fn scoped(&self, name: &str) -> Option<&Value> {
            self.scoped.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value)
        }
        fn overlay(&self) -> Vec<(&str, &Value)> {
            let laid_over = |name: &str| !matches!(name, "loop" | "item_index");
            self.scoped.iter().filter(|(n, _)| laid_over(n)).map(|(n, value)| (n.as_str(), value)).collect()
        }
        fn output(&self, block_id: &str) -> Option<&Value> {
            self.outputs.get(block_id)
        }
        fn outputs(&self) -> Map<String, Value> {
            self.outputs.clone().into_iter().collect()
        }
        fn error(&self, block_id: &str) -> Option<&Value> {
            self.errors.get(block_id)
        }
        fn errors(&self) -> Map<String, Value> {
            self.errors.clone().into_iter().collect()
        }
        fn runtime(&self) -> Value {
            json!({ "attempt": 2, "dry_run": false })
        }
        fn state(&self) -> &Map<String, Value> {
            &self.state
        }
        fn instance_id(&self) -> &str {
            "0195f0a0-0000-7000-8000-000000000001"
        }
        fn now(&self) -> Millis {
            Millis(1_800_000_000_123)
        }
        fn random(&self) -> u64 {
            // A fixed walk over all bits: the same draws in every test.
            let draw = self.draws.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.draws.set(draw);
            draw ^ draw.rotate_left(31)
        }
    }
}
