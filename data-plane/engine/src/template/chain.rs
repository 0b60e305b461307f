//! What stands between `{{` and `}}`: `first | second | …`, or `= expression`.
//!
//! A filter acts on the current value; any other segment is a value that is taken only while the current one is null.

use std::sync::Arc;

use orch8_model::json;
use serde_json::Value;

use super::filter::Filter;
use crate::expr::{
    BlockIds, Budget, Cursor, EvalError, Grammar, Held, Node, Notes, Path, Root, SyntaxError, World, made,
    null, parse_part, shorten,
};

/// A parsed template.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// The first segment as written, for messages.
    text: Arc<str>,
    first: Operand,
    links: Vec<Link>,
}

#[derive(Clone, Debug)]
enum Operand {
    Path(Path),
    Literal(Value),
    /// `json(…)`: compact text.
    Json(Box<Operand>),
    /// `len(…)`: elements, members or bytes; 0 for everything else.
    Len(Box<Operand>),
    Expression(Box<Node>),
}

#[derive(Clone, Debug)]
enum Link {
    Filter(Filter),
    Value(Operand),
    /// A path if its first name is a root where it is read, otherwise its own text.
    Word(Path, Value),
}

impl Chain {
    /// Parses all of a cursor's text. Errors: syntax, an unknown function, an unknown filter in call form, arguments.
    pub fn parse(mut cursor: Cursor<'_>, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        cursor.space();
        let start = cursor.at();
        if cursor.eat("=") {
            let node = cursor.nested(|cursor| parse_part(cursor.part(cursor.at(), cursor.end()), blocks))?;
            let text = cursor.rest().trim().into();
            return Ok(Self { text, first: Operand::Expression(Box::new(node)), links: Vec::new() });
        }
        let first = operand(&mut cursor, blocks)?;
        let text = cursor.text(start, cursor.at()).trim().into();
        let mut links = Vec::new();
        loop {
            cursor.space();
            if cursor.eat("|") {
                links.push(link(&mut cursor, blocks)?);
            } else if cursor.peek().is_none() {
                return Ok(Self { text, first, links });
            } else {
                return Err(cursor.unexpected());
            }
        }
    }

    /// The value. Errors: an unknown root, `required()` of null, bad input of a filter, limits.
    pub fn eval<'w>(&'w self, world: &'w World<'_>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
        let mut value = self.first.eval(world, budget)?;
        for link in &self.links {
            budget.step()?;
            value = match link {
                Link::Filter(filter) => filter.apply(value, &self.text, budget)?,
                Link::Value(_) | Link::Word(..) if !value.is_null() => value,
                Link::Value(operand) => operand.eval(world, budget)?,
                Link::Word(path, _) if world.is_root(path) => {
                    world.in_template(path)?.map_or_else(null, Held::Borrowed)
                }
                Link::Word(_, text) => Held::Borrowed(text),
            };
        }
        Ok(value)
    }

    pub fn note(&self, notes: &mut Notes<'_>) {
        self.first.note(notes);
        for link in &self.links {
            match link {
                Link::Filter(_) => {}
                Link::Value(operand) => operand.note(notes),
                Link::Word(path, _) if path.root == Root::Name && !is_scoped(path, notes) => {
                    let word = shorten(&path.text);
                    notes.add("UNKNOWN_FILTER", format!("'{word}' is no filter and no root: it is a text"));
                }
                Link::Word(path, _) => note_path(path, notes),
            }
        }
    }
}

impl Operand {
    fn eval<'w>(&'w self, world: &'w World<'_>, budget: &mut Budget) -> Result<Held<'w>, EvalError> {
        budget.step()?;
        match self {
            Operand::Path(path) => Ok(world.in_template(path)?.map_or_else(null, Held::Borrowed)),
            Operand::Literal(value) => Ok(Held::Borrowed(value)),
            Operand::Json(inner) => {
                let value = inner.eval(world, budget)?;
                budget.text(json::size(&value))?;
                Ok(made(json::print(&value)))
            }
            Operand::Len(inner) => Ok(made(match &*inner.eval(world, budget)? {
                Value::String(text) => text.len(),
                Value::Array(items) => items.len(),
                Value::Object(map) => map.len(),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            })),
            Operand::Expression(node) => budget.share(|budget| node.eval(world, budget)),
        }
    }

    fn note(&self, notes: &mut Notes<'_>) {
        match self {
            Operand::Path(path) => note_path(path, notes),
            Operand::Literal(_) => {}
            Operand::Json(inner) | Operand::Len(inner) => inner.note(notes),
            Operand::Expression(node) => node.note(notes),
        }
    }
}

fn note_path(path: &Path, notes: &mut Notes<'_>) {
    let text = shorten(&path.text);
    if &*path.name == "error" && !path.segments.is_empty() && !is_scoped(path, notes) {
        notes.add("SPELLING", format!("'{text}': the error that is being handled is '_error'"));
    } else if path.root == Root::Context || path.root == Root::Name && !is_scoped(path, notes) {
        notes.add("UNKNOWN_ROOT", format!("'{text}' begins with no known root; the step will fail here"));
    }
    notes.block_of(path);
}

fn is_scoped(path: &Path, notes: &Notes<'_>) -> bool {
    notes.scoped.contains(&&*path.name)
}

/// A path, a call or a literal.
fn operand(cursor: &mut Cursor<'_>, blocks: &BlockIds) -> Result<Operand, SyntaxError> {
    cursor.space();
    if let Some(quote @ ('"' | '\'')) = cursor.peek() {
        return text(cursor, quote).map(Operand::Literal);
    }
    if let Some((at, name)) = call(cursor) {
        return call_operand(cursor, at, name, blocks);
    }
    if let Some(value) = unquoted(cursor, word(cursor))? {
        return Ok(Operand::Literal(value));
    }
    Path::parse(cursor, Grammar::Template, blocks).map(Operand::Path)
}

/// A segment after the first.
fn link(cursor: &mut Cursor<'_>, blocks: &BlockIds) -> Result<Link, SyntaxError> {
    cursor.space();
    if let Some(quote @ ('"' | '\'')) = cursor.peek() {
        return text(cursor, quote).map(|text| Link::Value(Operand::Literal(text)));
    }
    let start = cursor.at();
    if let Some((at, name)) = call(cursor) {
        if !Filter::is_name(name) {
            return call_operand(cursor, at, name, blocks).map(Link::Value);
        }
        let arguments = arguments(cursor)?;
        return Filter::new(name, arguments)
            .map(Link::Filter)
            .map_err(|message| cursor.error_at(start, message));
    }
    let word = word(cursor);
    if Filter::is_name(word) {
        cursor.skip(word.len());
        let filter = Filter::new(word, Vec::new());
        return filter.map(Link::Filter).map_err(|message| cursor.error_at(start, message));
    }
    if let Some(value) = unquoted(cursor, word)? {
        return Ok(Link::Value(Operand::Literal(value)));
    }
    let path = Path::parse(cursor, Grammar::Template, blocks)?;
    let text = Value::from(&*path.text);
    Ok(Link::Word(path, text))
}

/// `name(`: takes both. Answers where it begins, and the name.
fn call<'s>(cursor: &mut Cursor<'s>) -> Option<(usize, &'s str)> {
    let mut ahead = cursor.clone();
    let name = ahead.take(|c| c.is_ascii_alphanumeric() || c == '_');
    ahead.space();
    if name.is_empty() || !ahead.eat("(") {
        return None;
    }
    let at = cursor.at();
    *cursor = ahead;
    Some((at, name))
}

/// Behind `json(` or `len(`.
fn call_operand(
    cursor: &mut Cursor<'_>,
    at: usize,
    name: &str,
    blocks: &BlockIds,
) -> Result<Operand, SyntaxError> {
    let wrap = match name {
        "json" => Operand::Json,
        "len" => Operand::Len,
        _ => {
            let name = shorten(name);
            let message = if Filter::is_name(&name) {
                format!("the filter '{name}' needs a value before it")
            } else {
                format!("unknown function or filter '{name}'")
            };
            return Err(cursor.error_at(at, message));
        }
    };
    let inner = cursor.nested(|cursor| operand(cursor, blocks))?;
    if let Operand::Path(path) = &inner
        && path.text.contains(',')
        && !path.text.contains(['"', '\'', '`'])
    {
        return Err(
            cursor.error_at(at, format!("{name}() takes one argument; a key with a comma needs quotes"))
        );
    }
    cursor.space();
    if cursor.eat(")") { Ok(wrap(Box::new(inner))) } else { Err(cursor.error("expected ')'")) }
}

/// Behind `filter(`: literals up to `)`.
fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<Value>, SyntaxError> {
    let mut arguments = Vec::new();
    cursor.space();
    if cursor.eat(")") {
        return Ok(arguments);
    }
    loop {
        cursor.space();
        arguments.push(match cursor.peek() {
            Some(quote @ ('"' | '\'')) => text(cursor, quote)?,
            Some(_) | None => {
                let rest = cursor.rest();
                let word = rest[..rest.find([',', ')']).unwrap_or(rest.len())].trim_end();
                let missing = cursor.error("expected a literal; texts need quotes");
                unquoted(cursor, word)?.ok_or(missing)?
            }
        });
        cursor.space();
        if cursor.eat(")") {
            return Ok(arguments);
        }
        if !cursor.eat(",") {
            return Err(cursor.error("expected ',' or ')'"));
        }
    }
}

fn text(cursor: &mut Cursor<'_>, quote: char) -> Result<Value, SyntaxError> {
    let (from, to) = cursor.quoted(quote)?;
    Ok(cursor.text(from, to).into())
}

/// The text up to the end of the segment.
fn word<'s>(cursor: &Cursor<'s>) -> &'s str {
    let rest = cursor.rest();
    rest[..rest.find(['|', ')']).unwrap_or(rest.len())].trim_end()
}

/// Takes `word` if it is a number, `true`, `false` or `null`. Errors: a number out of range or badly written.
fn unquoted(cursor: &mut Cursor<'_>, word: &str) -> Result<Option<Value>, SyntaxError> {
    let value = match word {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        word if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            match json::parse_number(word) {
                Some(number) => Value::Number(number),
                None if word.parse::<f64>().is_ok() => {
                    let word = shorten(word);
                    return Err(cursor.error(format!("'{word}' is not a number, or out of range")));
                }
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    cursor.skip(word.len());
    Ok(Some(value))
}
