//! One string with templates in it: literal pieces and chains.

use std::sync::Arc;

use orch8_model::{json, limits::TEMPLATE_BYTES_MAX};
use serde_json::Value;

use super::{Chain, Close, closing};
use crate::expr::{BlockIds, Budget, Cursor, EvalError, Notes, SyntaxError, World};

/// A parsed string.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pieces: Vec<Piece>,
    /// It has a `{{}}`, which is text.
    empty: bool,
    /// It has a `{{` that never closes, which is text.
    unclosed: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Arc<str>),
    Chain(Box<Chain>),
}

impl Text {
    /// Parses all of a cursor's text. Errors: the first one.
    pub fn parse(cursor: Cursor<'_>, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        let fallback = cursor.clone();
        Self::parse_all(cursor, blocks).map_err(|errors| {
            errors.into_iter().next().unwrap_or_else(|| fallback.error("is not a template"))
        })
    }

    /// Parses all of a cursor's text, at most 64 KiB. Errors: one for each template that does not parse.
    pub fn parse_all(cursor: Cursor<'_>, blocks: &BlockIds) -> Result<Self, Vec<SyntaxError>> {
        let bytes = cursor.rest().len();
        if bytes > TEMPLATE_BYTES_MAX {
            let message =
                format!("a template string of {bytes} bytes, at most {TEMPLATE_BYTES_MAX} are allowed");
            return Err(vec![cursor.error(message)]);
        }
        let mut text = Self { pieces: Vec::new(), empty: false, unclosed: false };
        let mut errors = Vec::new();
        let source = cursor.text(0, cursor.end());
        let (mut literal_from, mut at) = (cursor.at(), cursor.at());
        while let Some(found) = source[at..].find("{{") {
            let start = at + found;
            let open = start + 2;
            let nests = source[open..].trim_start().starts_with('=');
            match closing(source, open, nests) {
                Close::At(close) if source[open..close].trim().is_empty() => {
                    text.empty = true;
                    at = close + 2;
                }
                Close::At(close) => {
                    text.literal(&source[literal_from..start]);
                    match Chain::parse(cursor.part(open, close), blocks) {
                        Ok(chain) => text.pieces.push(Piece::Chain(Box::new(chain))),
                        Err(error) => errors.push(error),
                    }
                    at = close + 2;
                    literal_from = at;
                }
                Close::Reopened(next) => {
                    text.unclosed = true;
                    at = next;
                }
                Close::Never => {
                    text.unclosed = true;
                    break;
                }
            }
        }
        text.literal(&source[literal_from..]);
        if errors.is_empty() { Ok(text) } else { Err(errors) }
    }

    fn literal(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Piece::Literal(text.into()));
        }
    }

    /// The chain, when the string is exactly one: its value keeps its type.
    pub fn typed(&self) -> Option<&Chain> {
        match &*self.pieces {
            [Piece::Chain(chain)] => Some(chain),
            _ => None,
        }
    }

    /// As text: strings verbatim, all else as compact JSON.
    pub fn render(&self, world: &World<'_>, budget: &mut Budget) -> Result<String, EvalError> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => append(&mut out, text, budget)?,
                Piece::Chain(chain) => append_value(&mut out, &*chain.eval(world, budget)?, budget)?,
            }
        }
        Ok(out)
    }

    pub fn note(&self, notes: &mut Notes<'_>) {
        if self.empty {
            notes.add("EMPTY_TEMPLATE", "an empty '{{}}' is text".to_owned());
        }
        if self.unclosed {
            notes.add("UNCLOSED_TEMPLATE", "a '{{' that is never closed is text".to_owned());
        }
        for piece in &self.pieces {
            match piece {
                Piece::Literal(_) => {}
                Piece::Chain(chain) => chain.note(notes),
            }
        }
    }
}

/// Adds a value in the form that templates give it inside text.
pub(super) fn append_value(out: &mut String, value: &Value, budget: &mut Budget) -> Result<(), EvalError> {
    match value {
        Value::String(text) => append(out, text, budget),
        value => {
            let size = json::size(value);
            budget.text_grown(out.len() + size, size)?;
            out.push_str(&json::print(value));
            Ok(())
        }
    }
}

pub(super) fn append(out: &mut String, text: &str, budget: &mut Budget) -> Result<(), EvalError> {
    budget.text_grown(out.len() + text.len(), text.len())?;
    out.push_str(text);
    Ok(())
}
