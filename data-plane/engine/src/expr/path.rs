//! Paths: `data.items[0]["any key"]`. One noun, two spellings: a plain segment is wide in templates, narrow in expressions.

use std::{ops::Bound, sync::Arc};

use super::{BlockIds, SyntaxError, cursor::Cursor};

/// What may stand in a plain segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// Anything but `. [ ] | { } ( ) " '` and the back-tick.
    Template,
    /// `[A-Za-z_][A-Za-z0-9_]*` or digits.
    Expression,
}

/// What a path begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    Data,
    Config,
    Audit,
    Runtime,
    Outputs,
    Errors,
    InstanceId,
    State,
    /// `loop`, `item_index`, `item`, `_error`: null outside their place.
    Place,
    /// `context` alone or with an unknown section.
    Context,
    /// Any other name: an item variable, a key of data, or nothing.
    Name,
}

/// A parsed path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// As written.
    pub text: Arc<str>,
    /// The first name.
    pub name: Arc<str>,
    pub root: Root,
    /// Behind the root.
    pub segments: Vec<Segment>,
}

/// One step into a value.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub key: Arc<str>,
    /// What it means in an array; `None` for quoted keys and for what is not a plain index.
    pub index: Option<usize>,
}

impl Path {
    /// Reads the path at the cursor.
    pub fn parse(cursor: &mut Cursor<'_>, grammar: Grammar, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        let from = cursor.at();
        let name: Arc<str> = plain(cursor, grammar)?.into();
        let of_blocks = matches!(&*name, "outputs" | "steps" | "errors");
        let mut segments = Vec::new();
        loop {
            if cursor.eat(".") {
                if of_blocks
                    && segments.is_empty()
                    && let Some(id) = longest_block(cursor, grammar, blocks)
                {
                    cursor.skip(id.len());
                    segments.push(Segment::key(id));
                    continue;
                }
                segments.push(match cursor.peek() {
                    Some('`') => quoted(cursor, '`')?,
                    _ => Segment::plain(plain(cursor, grammar)?),
                });
            } else if cursor.eat("[") {
                segments.push(bracket(cursor)?);
            } else {
                break;
            }
        }
        let text = cursor.text(from, cursor.at()).trim().into();
        Ok(Self::rooted(text, name, segments))
    }

    fn rooted(text: Arc<str>, name: Arc<str>, mut segments: Vec<Segment>) -> Self {
        let section = segments.first().map(|s| &*s.key);
        let root = match (&*name, section) {
            ("context", Some("data")) => Root::Data,
            ("context", Some("config")) => Root::Config,
            ("context", Some("audit")) => Root::Audit,
            ("context", Some("runtime")) => Root::Runtime,
            ("context", _) => Root::Context,
            ("data" | "input", _) => Root::Data,
            ("config", _) => Root::Config,
            ("runtime", _) => Root::Runtime,
            ("outputs" | "steps", _) => Root::Outputs,
            ("errors", _) => Root::Errors,
            ("instance_id", _) => Root::InstanceId,
            ("state", _) => Root::State,
            ("loop" | "item_index" | "item" | "_error", _) => Root::Place,
            (_, _) => Root::Name,
        };
        if &*name == "context" && root != Root::Context {
            segments.remove(0);
        }
        if &*name == "input" {
            segments.insert(0, Segment::key("input"));
        }
        Self { text, name, root, segments }
    }

    /// A single name that is no root: a bare word, unless something resolves it.
    pub fn is_bare_name(&self) -> bool {
        self.root == Root::Name && self.segments.is_empty()
    }

    /// The block id after `outputs.` or `errors.`.
    pub fn block(&self) -> Option<&str> {
        match self.root {
            Root::Outputs | Root::Errors => self.segments.first().map(|s| &*s.key),
            Root::Data
            | Root::Config
            | Root::Audit
            | Root::Runtime
            | Root::InstanceId
            | Root::State
            | Root::Place
            | Root::Context
            | Root::Name => None,
        }
    }
}

impl Segment {
    fn key(key: &str) -> Self {
        Self { key: key.into(), index: None }
    }

    fn plain(key: &str) -> Self {
        let canonical = key == "0" || key.bytes().all(|b| b.is_ascii_digit()) && !key.starts_with('0');
        Self { key: key.into(), index: if canonical { key.parse().ok() } else { None } }
    }
}

fn plain<'s>(cursor: &mut Cursor<'s>, grammar: Grammar) -> Result<&'s str, SyntaxError> {
    let at = cursor.at();
    let text = match grammar {
        Grammar::Template => cursor.take(is_wide).trim(),
        Grammar::Expression if cursor.peek().is_some_and(|c| c.is_ascii_digit()) => {
            cursor.take(|c| c.is_ascii_digit())
        }
        Grammar::Expression => cursor.take(is_narrow),
    };
    if text.is_empty() {
        return Err(match cursor.peek() {
            Some('.') => cursor.error("a path has an empty segment"),
            _ => cursor.unexpected(),
        });
    }
    if text.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(cursor.error_at(at, "an index cannot be negative"));
    }
    Ok(text)
}

fn is_wide(c: char) -> bool {
    !matches!(c, '.' | '[' | ']' | '|' | '{' | '}' | '(' | ')' | '"' | '\'' | '`')
}

pub(super) fn is_narrow(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn quoted(cursor: &mut Cursor<'_>, quote: char) -> Result<Segment, SyntaxError> {
    let (from, to) = cursor.quoted(quote)?;
    Ok(Segment::key(cursor.text(from, to)))
}

/// Behind `[`: a quoted key or an index, and `]`.
fn bracket(cursor: &mut Cursor<'_>) -> Result<Segment, SyntaxError> {
    cursor.space();
    let segment = match cursor.peek() {
        Some(quote @ ('"' | '\'')) => quoted(cursor, quote)?,
        Some('0'..='9') => Segment::plain(cursor.take(|c| c.is_ascii_digit())),
        Some('-') => return Err(cursor.error("an index cannot be negative")),
        Some(_) | None => return Err(cursor.error("expected an index or a quoted key")),
    };
    cursor.space();
    if cursor.eat("]") { Ok(segment) } else { Err(cursor.error("expected ']'")) }
}

/// The longest block id that comes next and ends where a segment may end.
///
/// The greatest id not above the text is the longest candidate if it is a prefix; if not, every prefix that is an id is
/// a prefix of what the two have in common. So each look-up either answers or shortens the text.
fn longest_block<'b>(cursor: &Cursor<'_>, grammar: Grammar, blocks: &'b BlockIds) -> Option<&'b str> {
    let rest = cursor.rest();
    let mut text = rest;
    while !text.is_empty() {
        let below = (Bound::Unbounded, Bound::Included(text));
        let id: &str = blocks.range::<str, _>(below).next_back()?;
        let common = id.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        if common == id.len() && common > 0 && segment_ends(&rest[common..], grammar) {
            return Some(id);
        }
        // A whole id that ends inside a longer word: look for shorter ones only.
        let shorter = if common == id.len() { common.saturating_sub(1) } else { common };
        text = &text[..text.floor_char_boundary(shorter)];
    }
    None
}

fn segment_ends(rest: &str, grammar: Grammar) -> bool {
    match grammar {
        Grammar::Expression => !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'),
        Grammar::Template => {
            rest.starts_with(['.', '[']) || matches!(rest.trim_start().chars().next(), None | Some('|' | ')'))
        }
    }
}
