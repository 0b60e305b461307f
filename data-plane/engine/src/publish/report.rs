//! What is wrong with a document, and what is worth telling, gathered while it is read. Bounded: a hostile document
//! cannot make the answer larger than these limits.

use orch8_model::{Reason, limits::PROBLEMS_MAX};

use super::{Problem, Warning};

/// Warnings in one answer: enough for any document a person wrote, and small beside a response message.
const WARNINGS_MAX: usize = 1_000;
/// Bytes of one pointer: above what 64 nested blocks need, so only pointers through giant keys are cut.
const POINTER_BYTES_MAX: usize = 4 << 10;
/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 1 << 10;
/// Bytes of somebody's text quoted inside a message.
const QUOTE_BYTES_MAX: usize = 64;

/// Problems and warnings in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Report {
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Report {
    /// A field breaks a rule.
    pub(super) fn invalid(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problem(Reason::InvalidField.as_str(), path, message);
    }

    /// A field is over its limit.
    pub(super) fn too_large(&mut self, path: &str, field: &str, size: usize, limit: usize, unit: &str) {
        let message = format!("{field} has {size} {unit}, at most {limit} are allowed");
        self.problem(Reason::TooLarge.as_str(), path, message);
    }

    /// Something is wrong; nothing is published.
    pub(super) fn problem(
        &mut self,
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        if self.problems.len() < PROBLEMS_MAX {
            let (path, message) = bounded(path.into(), message.into());
            self.problems.push(Problem { code, path, message });
        }
    }

    /// Something is worth telling.
    pub(super) fn warn(&mut self, code: &'static str, path: impl Into<String>, message: impl Into<String>) {
        if self.warnings.len() < WARNINGS_MAX {
            let (path, message) = bounded(path.into(), message.into());
            self.warnings.push(Warning { code, path, message });
        }
    }

    /// A last word for a document that cannot be read although nothing was reported.
    pub(super) fn problem_if_none(&mut self, message: &str) {
        if self.problems.is_empty() {
            self.invalid("", message);
        }
    }

    /// The warnings, when nothing is wrong. Errors: everything that is.
    pub(super) fn close(self) -> Result<Vec<Warning>, Vec<Problem>> {
        if self.problems.is_empty() { Ok(self.warnings) } else { Err(self.problems) }
    }
}

/// Somebody's text, short enough for a message and without control characters.
pub(super) fn quote(text: &str) -> String {
    let clean: String = text.chars().take(QUOTE_BYTES_MAX + 1).collect();
    format!("{:?}", cut(clean, QUOTE_BYTES_MAX))
}

/// The pointer of a member of the object at `place`. A giant key is cut: it would be cut in the answer anyway, and many
/// pointers through it would multiply it.
pub(super) fn member(place: &str, key: &str) -> String {
    let key = &key[..key.floor_char_boundary(POINTER_BYTES_MAX)];
    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The pointer of an element of the array at `place`.
pub(super) fn element(place: &str, index: usize) -> String {
    format!("{place}/{index}")
}

fn bounded(path: String, message: String) -> (String, String) {
    (cut(path, POINTER_BYTES_MAX), cut(message, MESSAGE_BYTES_MAX))
}

fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_bounded_whatever_the_document_holds() {
        let mut report = Report::default();
        for _ in 0..5_000 {
            report.invalid("/é".repeat(100_000), "é".repeat(100_000));
            report.warn("W", "/x".repeat(100_000), "x".repeat(100_000));
        }
        assert_eq!(report.warnings.len(), WARNINGS_MAX);
        let problems = report.close().unwrap_err();
        assert_eq!(problems.len(), PROBLEMS_MAX);
        assert!(problems.iter().all(|p| p.path.len() <= POINTER_BYTES_MAX));
        assert!(problems.iter().all(|p| p.message.len() <= MESSAGE_BYTES_MAX && p.message.ends_with('…')));
    }

    #[test]
    fn a_pointer_escapes_what_pointers_are_made_of() {
        assert_eq!(member("/params", "a/b~c"), "/params/a~1b~0c");
        assert_eq!(quote("a\nb"), r#""a\nb""#);
        assert_eq!(member("", &"é".repeat(1 << 20)).len(), 1 + POINTER_BYTES_MAX);
    }
}
