//! From a submitted document to a [`Program`], or to everything that is wrong with it.
//!
//! A document is read twice: `outline` finds the blocks and their ids, then the fields of each block are read with all
//! ids known. Readers report and go on, so one answer names every problem. What is unambiguous is accepted and warned
//! of; what would silently never run is refused.
//!
//! This room does not know tenants, stores or workers: whether a name is free or a handler served is asked elsewhere.

mod builtin;
pub mod code;
mod composite;
mod delay;
mod document;
mod gate;
mod handler;
mod object;
mod outline;
mod report;
mod retry;
mod shape;
mod step;
mod target;
mod texts;

#[cfg(test)]
mod tests;

use orch8_model::{
    Millis, Namespace, Reason, SequenceId, SequenceName, json,
    limits::{BLOCK_NESTING_MAX, DOCUMENT_BYTES_MAX, JSON_DEPTH_MAX},
};

use crate::program::Program;

/// What a document says, checked.
#[derive(Debug)]
pub struct Published {
    pub program: Program,
    /// `id` of the document, when given.
    pub id: Option<SequenceId>,
    /// `tenant_id` of the document, when given; the caller compares it.
    pub tenant_id: Option<String>,
    pub namespace: Namespace,
    pub name: SequenceName,
    /// When given; at least 1.
    pub version: Option<i32>,
    /// Said so, or labelled [`Label::Unpublished`].
    pub deprecated: bool,
    /// `status` of the document.
    pub label: Label,
    /// When given; informative.
    pub created_at: Option<Millis>,
    pub warnings: Vec<Warning>,
}

/// `status` of a version: for people, never consulted by look-up or execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    Draft,
    Staging,
    #[default]
    Production,
    Unpublished,
}

impl Label {
    /// The default first.
    pub const ALL: [Label; 4] = [Label::Production, Label::Draft, Label::Staging, Label::Unpublished];

    /// As written in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Label::Draft => "draft",
            Label::Staging => "staging",
            Label::Production => "production",
            Label::Unpublished => "unpublished",
        }
    }
}

/// Worth telling; never blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// One of [`code`].
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    pub message: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A [`Reason`] of `INVALID_ARGUMENT`, or [`code::NOT_IN_THIS_VERSION`].
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    /// Names the field and its limit; for texts of the language also byte offset, line and column.
    pub message: String,
}

/// Parses and checks a document of at most 1 MiB. Errors: all problems together (≤ 100).
pub fn check(document: &[u8]) -> Result<Published, Vec<Problem>> {
    if document.len() > DOCUMENT_BYTES_MAX {
        let mut report = report::Report::default();
        report.too_large("", "document", document.len(), DOCUMENT_BYTES_MAX, "bytes");
        report.close()?;
    }
    let value =
        json::parse_nested(document, DOCUMENT_DEPTH_MAX).map_err(|problem| vec![unreadable(problem)])?;
    document::check(&value)
}

/// Depth of JSON that nested blocks and the deepest field of the innermost can need. A block inside a router takes four
/// levels: routes, route, blocks, block. Each field then counts from its own root.
const DOCUMENT_DEPTH_MAX: usize = 2 + 4 * BLOCK_NESTING_MAX + JSON_DEPTH_MAX;

/// Names of handlers that are not a worker's: built in, or known and not in this version.
pub fn known_handlers() -> impl Iterator<Item = &'static str> {
    handler::known()
}

fn unreadable(problem: json::JsonProblem) -> Problem {
    let json::JsonProblem { reason, pointer, offset, message } = problem;
    Problem { code: Reason::as_str(reason), path: pointer, message: format!("{message} (byte {offset})") }
}
