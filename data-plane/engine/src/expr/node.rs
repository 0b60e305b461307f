//! The tree of an expression. Chains are flat, so its depth is bounded by the nesting of the text, never by its length.

use serde_json::Value;

use super::{BlockIds, function::Function, path::Path};
use crate::template::{Chain, Text};

/// One operand or operation.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Literal(Value),
    /// A quoted string with templates inside: always text.
    Text(Text),
    /// `{{template}}` as an operand: typed.
    Template(Box<Chain>),
    Path(Path),
    Call(Function, Vec<Node>),
    /// `exists(path)`.
    Exists(Path),
    Array(Vec<Node>),
    Not(Box<Node>),
    Negative(Box<Node>),
    /// `a + b - c`, `a * b / c`: from the left.
    Sum(Box<Node>, Vec<(Arithmetic, Node)>),
    Compare(Comparison, Box<(Node, Node)>),
    All(Vec<Node>),
    Any(Vec<Node>),
    /// `c ? a : d ? b : e`: (condition, value) in order, and the last value.
    Choose(Vec<(Node, Node)>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Greater,
    AtLeast,
    Less,
    AtMost,
    In,
}

/// What a look at the tree may find worth telling.
pub(crate) struct Notes<'a> {
    pub blocks: &'a BlockIds,
    /// Item variables that are in scope where the text stands.
    pub scoped: &'a [&'a str],
    /// (code, message)
    pub found: Vec<(&'static str, String)>,
}

impl Notes<'_> {
    pub fn add(&mut self, code: &'static str, message: String) {
        self.found.push((code, message));
    }

    /// A reference to a block that the document does not have.
    pub fn block_of(&mut self, path: &Path) {
        if let Some(id) = path.block()
            && !self.blocks.contains(id)
        {
            self.add("UNKNOWN_BLOCK", format!("'{}': no block has the id '{id}'", path.text));
        }
    }
}

impl Node {
    /// Collects warnings: bare words that are compared, blocks that do not exist, and those of templates inside.
    pub fn note(&self, notes: &mut Notes<'_>) {
        match self {
            Node::Literal(_) => {}
            Node::Text(text) => text.note(notes),
            Node::Template(chain) => chain.note(notes),
            Node::Path(path) | Node::Exists(path) => notes.block_of(path),
            Node::Call(_, nodes) | Node::Array(nodes) | Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter().for_each(|node| node.note(notes));
            }
            Node::Not(node) | Node::Negative(node) => node.note(notes),
            Node::Sum(first, rest) => {
                first.note(notes);
                rest.iter().for_each(|(_, node)| node.note(notes));
            }
            Node::Compare(comparison, sides) => {
                note_bare_words(*comparison, &sides.0, &sides.1, notes);
                sides.0.note(notes);
                sides.1.note(notes);
            }
            Node::Choose(arms, last) => {
                for (condition, value) in arms {
                    condition.note(notes);
                    value.note(notes);
                }
                last.note(notes);
            }
        }
    }

    /// The path it is, if it is one.
    pub fn as_path(&self) -> Option<&Path> {
        match self {
            Node::Path(path) => Some(path),
            Node::Literal(_)
            | Node::Text(_)
            | Node::Template(_)
            | Node::Call(..)
            | Node::Exists(_)
            | Node::Array(_)
            | Node::Not(_)
            | Node::Negative(_)
            | Node::Sum(..)
            | Node::Compare(..)
            | Node::All(_)
            | Node::Any(_)
            | Node::Choose(..) => None,
        }
    }
}

/// `mode == fast`: which of both sides may be read as the word itself.
fn note_bare_words(comparison: Comparison, left: &Node, right: &Node, notes: &mut Notes<'_>) {
    let Some(path) = left.as_path() else { return };
    let others = match (comparison, right) {
        (Comparison::Equal | Comparison::Unequal, other) => std::slice::from_ref(other),
        (Comparison::In, Node::Array(items)) => items,
        _ => return,
    };
    for other in others.iter().filter_map(Node::as_path) {
        let bare = |path: &Path| path.is_bare_name() && !notes.scoped.contains(&&*path.name);
        // The right one, if it is a word at all; the left one only against a longer path, which may hold a text.
        let word = if bare(other) {
            other
        } else if bare(path) {
            path
        } else {
            continue;
        };
        let message = format!(
            "the bare word '{0}' in a comparison is the text \"{0}\" unless data has that key; quote it",
            word.name
        );
        notes.add("BARE_WORD", message);
    }
}
