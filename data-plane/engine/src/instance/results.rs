//! What a loop or a for_each has gathered from its iterations.

use std::collections::VecDeque;

use orch8_model::limits::OUTPUT_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::shared::Shared;

/// Errors that are listed; further ones are only counted. Keeps the list below a quarter of the output limit.
const ERRORS_MAX: usize = 5_000;
/// Bytes of an error's code in that list.
const CODE_BYTES_MAX: usize = 64;
/// What the other fields of the row may take: two numbers, two flags, a name of 256 bytes.
const ROW_BYTES: usize = 2_048;

/// Results by iteration, up to the highest finished one, and errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Iteration of the first entry.
    #[serde(rename = "b", default, skip_serializing_if = "super::is_default")]
    base: u32,
    #[serde(rename = "v", default, skip_serializing_if = "VecDeque::is_empty")]
    values: VecDeque<Option<Shared<Value>>>,
    /// Bytes of `values` as JSON text, commas included.
    #[serde(rename = "n", default, skip_serializing_if = "super::is_default")]
    bytes: usize,
    /// They were too large to be an output: none is kept.
    #[serde(rename = "o", default, skip_serializing_if = "super::is_default")]
    omitted: bool,
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<(u32, String)>,
    #[serde(rename = "m", default, skip_serializing_if = "super::is_default")]
    errors_beyond: u32,
}

impl Results {
    /// Notes the result of an iteration. `retain` > 0 keeps the newest that many.
    pub(crate) fn put(&mut self, index: u32, value: Option<Shared<Value>>, retain: u32) {
        if self.omitted || index < self.base {
            return;
        }
        // A null and no result are shown alike, and are one.
        let value = value.filter(|value| !value.is_null());
        let at = (index - self.base) as usize;
        while self.values.len() <= at {
            self.values.push_back(None);
            self.bytes += entry_bytes(None);
        }
        if let Some(slot) = self.values.get_mut(at) {
            self.bytes = self.bytes + entry_bytes(value.as_ref()) - entry_bytes(slot.as_ref());
            *slot = value;
        }
        while retain > 0 && self.values.len() > retain as usize {
            let gone = self.values.pop_front().flatten();
            self.bytes -= entry_bytes(gone.as_ref());
            self.base += 1;
        }
        if self.bytes > OUTPUT_BYTES_MAX - ROW_BYTES - ERRORS_MAX * (CODE_BYTES_MAX + 32) {
            self.omitted = true;
            self.values = VecDeque::new();
            self.bytes = 0;
        }
    }

    /// Notes that an iteration failed.
    pub(crate) fn put_error(&mut self, index: u32, code: &str) {
        if self.errors.len() >= ERRORS_MAX {
            self.errors_beyond = self.errors_beyond.saturating_add(1);
            return;
        }
        let end = (0..=code.len().min(CODE_BYTES_MAX)).rev().find(|end| code.is_char_boundary(*end));
        self.errors.push((index, code[..end.unwrap_or(0)].to_owned()));
    }

    /// The results alone: what the block hands up.
    pub(crate) fn value(&self) -> Value {
        if self.omitted {
            return Value::Null;
        }
        self.values.iter().map(|value| value.as_deref().cloned().unwrap_or(Value::Null)).collect()
    }

    /// Adds `results` and what goes with it to a row.
    pub(crate) fn describe(&self, row: &mut Map<String, Value>) {
        row.insert("results".to_owned(), self.value());
        if self.omitted {
            row.insert("results_omitted".to_owned(), json!("size"));
        }
        if !self.errors.is_empty() {
            let errors = self.errors.iter().map(|(index, code)| json!({"index": index, "code": code}));
            row.insert("errors".to_owned(), errors.collect());
        }
        if self.errors_beyond > 0 {
            row.insert("errors_omitted".to_owned(), json!(self.errors_beyond));
        }
    }

    /// Rough resident size.
    pub(crate) fn weight(&self) -> usize {
        self.bytes + self.values.len() * size_of::<Option<Shared<Value>>>() + self.errors.len() * 64
    }
}

fn entry_bytes(value: Option<&Shared<Value>>) -> usize {
    value.map_or(4, Shared::bytes) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(results: &Results) -> Value {
        let mut row = Map::new();
        results.describe(&mut row);
        Value::Object(row)
    }

    #[test]
    fn results_reach_to_the_highest_finished_index_with_null_in_the_gaps() {
        let mut results = Results::default();
        results.put(2, Some(Shared::new(json!("c"))), 0);
        assert_eq!(row(&results), json!({"results": [null, null, "c"]}));
        results.put(0, Some(Shared::new(json!("a"))), 0);
        results.put_error(1, "NO");
        assert_eq!(
            row(&results),
            json!({"results": ["a", null, "c"], "errors": [{"index": 1, "code": "NO"}]})
        );
    }

    #[test]
    fn retained_results_end_with_the_newest() {
        let mut results = Results::default();
        (0..10).for_each(|k| results.put(k, Some(Shared::new(json!(k))), 3));
        assert_eq!(row(&results), json!({"results": [7, 8, 9]}));
    }

    #[test]
    fn results_over_the_output_limit_are_left_out_for_good_and_the_row_stays_below_it() {
        let mut results = Results::default();
        for k in 0..3 {
            results.put(k, Some(Shared::new(json!("x".repeat(900_000)))), 0);
            results.put_error(k, &"é".repeat(400));
        }
        let row = row(&results);
        assert_eq!(row["results"], Value::Null);
        assert_eq!(row["results_omitted"], "size");
        (0..20_000).for_each(|k| results.put_error(k, &"é".repeat(400)));
        assert!(orch8_model::json::size(&row) < OUTPUT_BYTES_MAX);
    }
}
