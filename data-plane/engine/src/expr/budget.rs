//! What one evaluation may spend. Work is counted where it is done, so no input makes a turn slow.

use orch8_model::json;
use serde_json::Value;

use super::EvalError;

/// Steps of one expression: an operand, an operator or a call is one.
const EXPRESSION_STEPS: u64 = 100_000;
/// Steps of one value with templates: the largest document holds some 130,000 templates and filters.
const RENDER_STEPS: u64 = 300_000;
/// Looking at this many elements of an array costs one step; so does looking at this many times 64 bytes of text.
const UNITS_PER_STEP: u64 = 8;
const BYTES_PER_UNIT: usize = 64;
/// Bytes (as JSON text) of values made on the way: four of the largest outputs.
const MADE_BYTES: usize = 8 << 20;
/// Elements of an array that is made or looked through.
pub(crate) const ARRAY_ITEMS_MAX: usize = 100_000;
/// Bytes of a string that is made.
pub(crate) const STRING_BYTES_MAX: usize = 2 << 20;

/// What is left.
pub(crate) struct Budget {
    units: u64,
    bytes: usize,
}

impl Budget {
    /// For one expression.
    pub fn expression() -> Self {
        Self { units: EXPRESSION_STEPS * UNITS_PER_STEP, bytes: MADE_BYTES }
    }

    /// For one value with templates.
    pub fn render() -> Self {
        Self { units: RENDER_STEPS * UNITS_PER_STEP, bytes: 2 * MADE_BYTES }
    }

    /// Runs `inner` with at most one expression's share of what is left.
    pub fn share<T>(
        &mut self,
        inner: impl FnOnce(&mut Budget) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        let whole = Budget::expression();
        let given = Budget { units: whole.units.min(self.units), bytes: whole.bytes.min(self.bytes) };
        let mut part = Budget { ..given };
        let answer = inner(&mut part);
        self.units -= given.units - part.units;
        self.bytes -= given.bytes - part.bytes;
        answer
    }

    /// One step.
    pub fn step(&mut self) -> Result<(), EvalError> {
        self.spend(UNITS_PER_STEP)
    }

    /// Looks at elements of an array.
    pub fn look(&mut self, items: usize) -> Result<(), EvalError> {
        if items > ARRAY_ITEMS_MAX {
            return Err(EvalError::limit(format!(
                "an array has {items} elements, at most {ARRAY_ITEMS_MAX} are allowed"
            )));
        }
        self.spend(items as u64)
    }

    /// Reads bytes of text.
    pub fn scan(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend((bytes / BYTES_PER_UNIT) as u64)
    }

    /// Makes a string of this many bytes.
    pub fn text(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.text_grown(bytes, bytes)
    }

    /// Makes a string of `bytes` by adding `more` to one that is paid for.
    pub fn text_grown(&mut self, bytes: usize, more: usize) -> Result<(), EvalError> {
        if bytes > STRING_BYTES_MAX {
            return Err(EvalError::limit(format!(
                "a string has {bytes} bytes, at most {STRING_BYTES_MAX} are allowed"
            )));
        }
        self.scan(more)?;
        self.make(more)
    }

    /// Copies a value.
    pub fn copy(&mut self, value: &Value) -> Result<Value, EvalError> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.make(text.len()).and_then(|()| self.scan(text.len()))?,
            Value::Array(_) | Value::Object(_) => {
                let size = json::size(value);
                self.make(size)?;
                // A copy is an allocation per element, not a memcpy: elements have at least two bytes.
                self.spend((size / 8) as u64)?;
            }
        }
        Ok(value.clone())
    }

    fn make(&mut self, bytes: usize) -> Result<(), EvalError> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(EvalError::limit("the values made on the way are too large")),
        }
    }

    fn spend(&mut self, units: u64) -> Result<(), EvalError> {
        match self.units.checked_sub(units) {
            Some(left) => {
                self.units = left;
                Ok(())
            }
            None => {
                self.units = 0;
                Err(EvalError::limit("the evaluation takes too many steps"))
            }
        }
    }
}
