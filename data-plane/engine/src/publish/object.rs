//! Reading one object of a document by its [`Shape`]: which keys it has, and its scalar fields with their limits.
//!
//! Readers report what is wrong and answer something usable, so that one pass finds everything. What they answer
//! after a problem is never run: a document with a problem makes no program.

use std::ops::RangeInclusive;

use orch8_model::{TimeProblem, json, parse_duration};
use serde_json::{Map, Value};

use super::{
    code,
    report::{Report, member, quote},
    shape::{Shape, step_field_remedy},
};
use crate::nearest::nearest;

/// Keys shorter than this are not compared with known ones: any two of them are near each other.
const COMPARED_KEY_BYTES_MIN: usize = 4;
/// Milliseconds from which a duration in seconds was probably meant in milliseconds.
const FLOAT_SECONDS_SUSPECT: f64 = 1000.0;

/// An object of a document and its place.
#[derive(Clone, Debug)]
pub(super) struct Object<'d> {
    map: &'d Map<String, Value>,
    shape: &'static Shape,
    /// JSON pointer.
    pub place: String,
}

impl<'d> Object<'d> {
    /// Opens an object: reports keys that are misspelt, of a later version, of a step on a composite, or unknown, and
    /// values that are nested too deep.
    pub(super) fn open(
        value: &'d Value,
        shape: &'static Shape,
        place: String,
        report: &mut Report,
    ) -> Option<Self> {
        let Value::Object(map) = value else {
            let name = shape.name;
            report.invalid(place, format!("{name} must be an object, not {}", kind_of(value)));
            return None;
        };
        let object = Self { map, shape, place };
        for (key, value) in map {
            object.judge_key(key, value, report);
            object.judge_depth(key, value, report);
        }
        Some(object)
    }

    /// Every field counts its depth from its own root, except blocks, which have a limit of their own.
    fn judge_depth(&self, key: &str, value: &Value, report: &mut Report) {
        let Shape { bodies, spellings, .. } = self.shape;
        let canonical = spellings.iter().find(|(accepted, _)| *accepted == key);
        if bodies.contains(&canonical.map_or(key, |(_, canonical)| canonical)) {
            return;
        }
        if let Err(problem) = json::check_value(value) {
            let place = format!("{}{}", member(&self.place, key), problem.pointer);
            report.problem(problem.reason.as_str(), place, format!("{} {}", quote(key), problem.message));
        }
    }

    fn judge_key(&self, key: &str, value: &Value, report: &mut Report) {
        let Shape { name, fields, spellings, later, composite, .. } = *self.shape;
        let place = || member(&self.place, key);
        if fields.contains(&key) {
            return;
        }
        if let Some((_, canonical)) = spellings.iter().find(|(accepted, _)| *accepted == key) {
            if self.map.contains_key(*canonical) {
                let message = format!("{key} is another spelling of {canonical}; give one of the two");
                report.invalid(place(), message);
            } else {
                report.warn(code::SPELLING, place(), format!("{key} is read as {canonical}"));
            }
        } else if let Some((_, remedy)) = later.iter().find(|(field, _)| *field == key) {
            if !value.is_null() {
                let message = format!("{key} is not in this version: {remedy}");
                report.problem(code::NOT_IN_THIS_VERSION, place(), message);
            }
        } else if let Some(remedy) = step_field_remedy(key).filter(|_| composite) {
            report.invalid(place(), format!("{key} is a field of a step, not of a {name}: {remedy}"));
        } else if let Some(meant) = self.meant(key) {
            let message = format!("{} is no field of a {name}; did you mean {meant}?", quote(key));
            report.invalid(place(), message);
        } else if holds_blocks(value) {
            let message = format!("{} would never run: {}", quote(key), self.where_blocks_go());
            report.invalid(place(), message);
        } else {
            let message = format!("{} is no field of a {name} and is ignored", quote(key));
            report.warn(code::UNKNOWN_FIELD, place(), message);
        }
    }

    /// The known key that `key` was probably meant to be: near in edits, or the same but for case and underscores.
    fn meant(&self, key: &str) -> Option<&'static str> {
        if key.len() < COMPARED_KEY_BYTES_MIN {
            return None;
        }
        let known = || {
            let Shape { fields, spellings, later, .. } = self.shape;
            fields
                .iter()
                .copied()
                .chain(later.iter().map(|(field, _)| *field))
                .chain(spellings.iter().map(|(accepted, _)| *accepted))
        };
        nearest(key, known()).or_else(|| known().find(|field| same_letters(key, field)))
    }

    fn where_blocks_go(&self) -> String {
        match self.shape.bodies {
            [] => format!("a {} holds no blocks; put them beside it", self.shape.name),
            [only] => format!("blocks of a {} stand in {only}", self.shape.name),
            several => format!("blocks of a {} stand in one of {}", self.shape.name, several.join(", ")),
        }
    }

    /// The value of a field under whichever spelling it has.
    pub(super) fn get(&self, key: &str) -> Option<&'d Value> {
        self.map.get(self.spelt(key))
    }

    /// The value of a field that may be null for absent.
    pub(super) fn optional(&self, key: &str) -> Option<&'d Value> {
        self.get(key).filter(|value| !value.is_null())
    }

    /// The key as the document spells it.
    pub(super) fn spelt<'k>(&self, key: &'k str) -> &'k str {
        if self.map.contains_key(key) {
            return key;
        }
        let spelling = self.shape.spellings.iter().find(|(s, c)| *c == key && self.map.contains_key(*s));
        spelling.map_or(key, |(accepted, _)| accepted)
    }

    /// The pointer of a field, as spelt.
    pub(super) fn at(&self, key: &str) -> String {
        member(&self.place, self.spelt(key))
    }

    /// Reports a field.
    pub(super) fn invalid(&self, key: &str, rule: impl std::fmt::Display, report: &mut Report) {
        report.invalid(self.at(key), format!("{} {rule}", self.spelt(key)));
    }

    /// Reports a field that must be there and is not.
    pub(super) fn missing(&self, key: &str, report: &mut Report) {
        self.invalid(key, format_args!("is required in a {}", self.shape.name), report);
    }

    /// A text that must be there.
    pub(super) fn required_text(&self, key: &str, report: &mut Report) -> Option<&'d str> {
        if self.get(key).is_none() {
            self.missing(key, report);
            return None;
        }
        self.text_of(key, self.get(key), report)
    }

    /// A text that may be absent or null.
    pub(super) fn text(&self, key: &str, report: &mut Report) -> Option<&'d str> {
        self.text_of(key, self.optional(key), report)
    }

    fn text_of(&self, key: &str, value: Option<&'d Value>, report: &mut Report) -> Option<&'d str> {
        let value = value?;
        if value.as_str().is_none() {
            self.invalid(key, format_args!("must be text, not {}", kind_of(value)), report);
        }
        value.as_str()
    }

    /// A boolean with a default.
    pub(super) fn flag(&self, key: &str, default: bool, report: &mut Report) -> bool {
        let Some(value) = self.get(key) else { return default };
        value.as_bool().unwrap_or_else(|| {
            self.invalid(key, format_args!("must be true or false, not {}", kind_of(value)), report);
            default
        })
    }

    /// An integer within a range, or `None` when absent. A range that begins with 1 tells zero apart.
    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u32>, report: &mut Report) -> Option<u32> {
        let value = self.get(key)?;
        let (least, most) = (*range.start(), *range.end());
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| range.contains(n));
        if number.is_none() {
            let below = value.as_f64().is_some_and(|n| n < 1.0);
            let rule = match least {
                1 if below => format!("must be > 0 and at most {most}"),
                _ => format!("must be an integer from {least} to {most}"),
            };
            self.invalid(key, rule, report);
        }
        number
    }

    /// One of a few words, as its place in the list; the first is the default.
    pub(super) fn word(&self, key: &str, words: &[&str], report: &mut Report) -> usize {
        let Some(value) = self.get(key) else { return 0 };
        let place = value.as_str().and_then(|text| words.iter().position(|word| *word == text));
        place.unwrap_or_else(|| {
            self.invalid(key, format_args!("must be one of {}", words.join(", ")), report);
            0
        })
    }

    /// A duration in milliseconds that may be absent or null.
    pub(super) fn duration(&self, key: &str, report: &mut Report) -> Option<i64> {
        let value = self.optional(key)?;
        duration(value, self.spelt(key), &self.at(key), report)
    }

    /// An object inside that may be absent or null.
    pub(super) fn inner(&self, key: &str, shape: &'static Shape, report: &mut Report) -> Option<Object<'d>> {
        Object::open(self.optional(key)?, shape, self.at(key), report)
    }

    /// The elements of an array that may be absent or null.
    pub(super) fn list(&self, key: &str, report: &mut Report) -> Option<&'d [Value]> {
        let value = self.optional(key)?;
        if value.as_array().is_none() {
            self.invalid(key, format_args!("must be an array, not {}", kind_of(value)), report);
        }
        value.as_array().map(Vec::as_slice)
    }
}

/// Reads a duration and warns when seconds were probably meant as milliseconds.
pub(super) fn duration(value: &Value, field: &str, place: &str, report: &mut Report) -> Option<i64> {
    match parse_duration(value) {
        Ok(ms) => {
            if is_float(value) && value.as_f64().is_some_and(|s| s >= FLOAT_SECONDS_SUSPECT) {
                let message = format!("{field} {value} is seconds, so {ms} ms; an integer is milliseconds");
                report.warn(code::FLOAT_DURATION, place, message);
            }
            Some(ms)
        }
        Err(problem) => {
            report.invalid(place, format!("{field} {problem}"));
            None
        }
    }
}

/// Seconds as a plain number, whole or not, to milliseconds.
pub(super) fn seconds(value: &Value, field: &str, place: &str, report: &mut Report) -> Option<i64> {
    let float = value.as_f64().map_or(Value::Null, Value::from);
    match parse_duration(&float) {
        Ok(ms) => Some(ms),
        Err(TimeProblem::NotANumber) => {
            report.invalid(place, format!("{field} must be a number of seconds"));
            None
        }
        Err(problem) => {
            report.invalid(place, format!("{field} {problem}"));
            None
        }
    }
}

/// What a value is, for people.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn is_float(value: &Value) -> bool {
    value.as_u64().is_none() && value.as_i64().is_none()
}

/// Blocks, or lists of blocks: an array in which an object says `type` or `handler`.
fn holds_blocks(value: &Value) -> bool {
    let block = |value: &Value| value.get("type").is_some() || value.get("handler").is_some();
    let elements = value.as_array().into_iter().flatten();
    elements.into_iter().any(|element| block(element) || element.as_array().into_iter().flatten().any(block))
}

fn same_letters(key: &str, field: &str) -> bool {
    let fold = |b: &u8| !matches!(b, b'_' | b'-');
    let key = key.bytes().filter(fold).map(|b| b.to_ascii_lowercase());
    key.eq(field.bytes().filter(fold))
}
