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
