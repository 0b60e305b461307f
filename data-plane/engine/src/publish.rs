//! From a submitted document to a [`Program`], or to everything that is wrong with it.

use orch8_model::{Namespace, SequenceName, StepError};

use crate::program::Program;

/// What a document says, checked.
#[derive(Debug)]
pub struct Published {
    pub program: Program,
    /// `id` of the document, when given.
    pub id: Option<orch8_model::SequenceId>,
    /// `tenant_id` of the document, when given; the caller compares it.
    pub tenant_id: Option<String>,
    pub namespace: Namespace,
    pub name: SequenceName,
    /// When given.
    pub version: Option<i32>,
    pub deprecated: bool,
    pub warnings: Vec<Warning>,
}

/// Worth telling; never blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    pub message: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    pub message: String,
}

/// Parses and checks a document of at most 1 MiB. Errors: all problems together (≤ 100).
pub fn check(document: &[u8]) -> Result<Published, Vec<Problem>> {
    let _ = document;
    let _: Option<StepError> = None;
    unimplemented!()
}
