//! What goes wrong: a text that does not parse, a value that cannot be had.

/// Where and why a text does not parse. Position: byte offset, and line and column from 1 (column in characters).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct SyntaxError {
    pub message: String,
    pub offset: usize,
    pub line: usize,
    pub column: usize,
}

impl SyntaxError {
    /// An error at a byte offset of `source`.
    pub(crate) fn new(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = &source[..source.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            message: message.into(),
            offset,
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
        }
    }
}

/// A run-time failure of an expression or template: always a permanent step failure with this code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct EvalError {
    /// `EXPRESSION_LIMIT`, `TEMPLATE_UNKNOWN_ROOT`, `TEMPLATE_MISSING`, `EXPRESSION_SYNTAX` or `INVALID_PARAMS`.
    pub code: &'static str,
    pub message: String,
}

impl EvalError {
    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self { code: "EXPRESSION_LIMIT", message: message.into() }
    }

    pub(crate) fn unknown_root(path: &str) -> Self {
        let path = shorten(path);
        Self {
            code: "TEMPLATE_UNKNOWN_ROOT",
            message: format!("'{path}' begins with no known root; data of the run is under 'data.'"),
        }
    }

    pub(crate) fn missing(path: &str) -> Self {
        Self { code: "TEMPLATE_MISSING", message: format!("'{}' is required and null", shorten(path)) }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: "INVALID_PARAMS", message: message.into() }
    }
}

/// A piece of a document, short enough to stand in a message.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
