//! A place in a text that is being parsed, shared by expressions and templates, with the one bound on nesting.

use super::SyntaxError;

/// Parentheses, brackets, calls, unary operators and inner templates around one operand. The parser and the evaluator
/// recurse once per level, so this is also what bounds their stacks.
pub(crate) const NESTING_MAX: usize = 64;

/// Reads `source[at..end]`; positions in errors are positions in `source`.
#[derive(Clone)]
pub(crate) struct Cursor<'s> {
    source: &'s str,
    at: usize,
    end: usize,
    nesting: usize,
}

impl<'s> Cursor<'s> {
    pub fn new(source: &'s str) -> Self {
        Self { source, at: 0, end: source.len(), nesting: 0 }
    }

    /// A cursor over a part of the same source, as deeply nested as this one.
    pub fn part(&self, at: usize, end: usize) -> Self {
        Self { source: self.source, at, end, nesting: self.nesting }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn end(&self) -> usize {
        self.end
    }

    pub fn rest(&self) -> &'s str {
        &self.source[self.at..self.end]
    }

    /// The text between two places.
    pub fn text(&self, from: usize, to: usize) -> &'s str {
        &self.source[from..to]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Takes `text` if it comes next.
    pub fn eat(&mut self, text: &str) -> bool {
        let hit = self.rest().starts_with(text);
        if hit {
            self.at += text.len();
        }
        hit
    }

    /// Takes characters as long as they are of a kind.
    pub fn take(&mut self, of: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !of(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    pub fn space(&mut self) {
        self.take(char::is_whitespace);
    }

    /// Takes `"…"` or `'…'`, or with back-ticks; the text inside has no escapes. Answers where it begins and ends.
    pub fn quoted(&mut self, quote: char) -> Result<(usize, usize), SyntaxError> {
        let open = self.at;
        self.skip(quote.len_utf8());
        let from = self.at;
        match self.rest().find(quote) {
            Some(len) => {
                self.at = from + len + quote.len_utf8();
                Ok((from, from + len))
            }
            None => Err(self.error_at(open, format!("{quote} is never closed"))),
        }
    }

    /// Runs `inner` one level deeper.
    pub fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.enter()?;
        let answer = inner(self);
        self.leave();
        answer
    }

    /// One level deeper, until [`Self::leave`].
    pub fn enter(&mut self) -> Result<(), SyntaxError> {
        if self.nesting >= NESTING_MAX {
            return Err(self.error(format!("nested deeper than {NESTING_MAX} levels")));
        }
        self.nesting += 1;
        Ok(())
    }

    pub fn leave(&mut self) {
        self.nesting -= 1;
    }

    pub fn error(&self, message: impl Into<String>) -> SyntaxError {
        self.error_at(self.at, message)
    }

    pub fn error_at(&self, offset: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.source, offset, message)
    }

    /// "unexpected 'x'", or "… ends too early".
    pub fn unexpected(&self) -> SyntaxError {
        match self.peek() {
            Some(c) => self.error(format!("unexpected '{c}'")),
            None => self.error("the text ends where more is expected"),
        }
    }
}
