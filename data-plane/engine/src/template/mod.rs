//! Templates in params: `{{ path | filter }}` inside strings of a JSON value. Compiled at publish; data is never parsed.
//!
//! What a template renders is not looked at again, whatever it holds; keys are never templates. A string without `{{`
//! costs nothing.

mod chain;
mod filter;
mod scan;
mod text;

use orch8_model::{
    json,
    limits::{PARAMS_BYTES_MAX, PROBLEMS_MAX},
};
use serde_json::{Map, Value};

pub(crate) use chain::Chain;
pub(crate) use scan::{Close, closing};
pub(crate) use text::Text;

use crate::{
    expr::{BlockIds, Budget, Cursor, EvalError, Grammar, Notes, Path, SyntaxError, World, owned},
    scope::Scope,
};

/// Bytes (as JSON text) that one rendering may produce. Twice the limit of params, so that the caller's own check can
/// name the size; nothing larger ever stands in memory.
const RENDER_BYTES_MAX: usize = 2 * PARAMS_BYTES_MAX;

/// A JSON value of a published document with its templates compiled.
#[derive(Clone, Debug)]
pub struct Template {
    root: Node,
}

#[derive(Clone, Debug)]
enum Node {
    /// No templates inside; with its size as JSON text.
    Same(Value, usize),
    Text(Text),
    /// A path whose first name is resolved as in expressions.
    Collection(Path),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// A publish error inside a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// JSON pointer within the value, `""` for the root.
    pub pointer: String,
    pub error: SyntaxError,
}

/// Warnings of one value: a few tell the author what a thousand would.
const WARNINGS_MAX: usize = 100;

/// Bytes of a key that a pointer shows. Keys may be as long as the document; a pointer through one for each of many
/// mistakes would multiply it.
const SEGMENT_BYTES_MAX: usize = 1 << 10;

/// A publish warning inside a template: (code, pointer within the value, message).
pub type TemplateWarning = (&'static str, String, String);

impl Template {
    /// Compiles every string of `value`. Errors: all of them (≤ 100), with pointers.
    pub fn compile(value: &Value, blocks: &BlockIds) -> Result<Self, Vec<TemplateProblem>> {
        let mut problems = Vec::new();
        let root = compile(value, blocks, &mut String::new(), &mut problems);
        if problems.is_empty() { Ok(Self { root }) } else { Err(problems) }
    }

    /// Renders: a string that is exactly one `{{…}}` keeps its JSON type; otherwise pieces become text.
    /// Errors: unknown roots, `required()`, bad input of a filter, limits of work and size.
    pub fn render(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        if let Node::Same(value, _) = &self.root {
            return Ok(value.clone());
        }
        let world = World::new(scope);
        let mut rendering = Rendering { world: &world, budget: Budget::render(), left: RENDER_BYTES_MAX };
        let value = rendering.node(&self.root)?;
        json::check_value(&value)
            .map_err(|problem| EvalError::invalid(format!("'{}' {}", problem.pointer, problem.message)))?;
        Ok(value)
    }

    /// A template of the path form that `for_each.collection` takes without `{{`: `items`, `data.items`, `outputs.x.list`.
    /// With `{{` it is an ordinary template string.
    pub fn collection(text: &str, blocks: &BlockIds) -> Result<Self, SyntaxError> {
        if text.contains("{{") {
            let root = Text::parse(Cursor::new(text), blocks)?;
            return Ok(Self { root: Node::Text(root) });
        }
        let mut cursor = Cursor::new(text);
        cursor.space();
        let path = Path::parse(&mut cursor, Grammar::Template, blocks)?;
        cursor.space();
        match cursor.peek() {
            None => Ok(Self { root: Node::Collection(path) }),
            Some(_) => Err(cursor.unexpected()),
        }
    }

    /// The value itself, when it has no templates.
    pub fn constant(&self) -> Option<&Value> {
        match &self.root {
            Node::Same(value, _) => Some(value),
            Node::Text(_) | Node::Collection(_) | Node::Array(_) | Node::Object(_) => None,
        }
    }

    /// `UNKNOWN_ROOT`, `UNKNOWN_FILTER`, `EMPTY_TEMPLATE`, `UNCLOSED_TEMPLATE`, `UNKNOWN_BLOCK`.
    pub fn warnings(&self, blocks: &BlockIds) -> Vec<TemplateWarning> {
        self.warnings_within(blocks, &[])
    }

    /// As [`Self::warnings`], where `scoped` are the item variables of the loops around: they are known roots too.
    /// Also `BARE_WORD` of expressions inside, and `SPELLING` for `error` instead of `_error`.
    pub fn warnings_within(&self, blocks: &BlockIds, scoped: &[&str]) -> Vec<TemplateWarning> {
        let mut warnings = Vec::new();
        note(&self.root, blocks, scoped, &mut String::new(), &mut warnings);
        warnings
    }
}

fn compile(
    value: &Value,
    blocks: &BlockIds,
    pointer: &mut String,
    problems: &mut Vec<TemplateProblem>,
) -> Node {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => same(value),
        Value::String(text) if !text.contains("{{") => same(value),
        Value::String(text) => match Text::parse_all(Cursor::new(text), blocks) {
            Ok(text) => Node::Text(text),
            Err(errors) => {
                let room = PROBLEMS_MAX.saturating_sub(problems.len());
                let at = |error| TemplateProblem { pointer: pointer.clone(), error };
                problems.extend(errors.into_iter().take(room).map(at));
                same(value)
            }
        },
        Value::Array(items) => {
            let mut nodes = Vec::with_capacity(items.len());
            for (i, item) in items.iter().enumerate() {
                nodes
                    .push(below(pointer, &i.to_string(), |pointer| compile(item, blocks, pointer, problems)));
            }
            array(nodes)
        }
        Value::Object(map) => {
            let mut nodes = Vec::with_capacity(map.len());
            for (key, item) in map {
                let node = below(pointer, key, |pointer| compile(item, blocks, pointer, problems));
                nodes.push((key.clone(), node));
            }
            object(nodes)
        }
    }
}

fn same(value: &Value) -> Node {
    Node::Same(value.clone(), json::size(value))
}

/// An array; constant if all of it is. Its parts are moved, so that nesting does not multiply the work.
fn array(nodes: Vec<Node>) -> Node {
    let (mut items, mut bytes) = (Vec::with_capacity(nodes.len()), "[]".len());
    if !nodes.iter().all(is_same) {
        return Node::Array(nodes);
    }
    for node in nodes {
        if let Node::Same(item, size) = node {
            bytes += size + ",".len();
            items.push(item);
        }
    }
    Node::Same(Value::Array(items), bytes)
}

/// An object; constant if all of it is.
fn object(nodes: Vec<(String, Node)>) -> Node {
    let (mut map, mut bytes) = (Map::with_capacity(nodes.len()), "{}".len());
    if !nodes.iter().all(|(_, node)| is_same(node)) {
        return Node::Object(nodes);
    }
    for (key, node) in nodes {
        if let Node::Same(item, size) = node {
            bytes += key.len() + size + "\"\":,".len();
            map.insert(key, item);
        }
    }
    Node::Same(Value::Object(map), bytes)
}

fn is_same(node: &Node) -> bool {
    matches!(node, Node::Same(..))
}

/// Runs `inner` with one more segment on the pointer.
fn below<T>(pointer: &mut String, segment: &str, inner: impl FnOnce(&mut String) -> T) -> T {
    let len = pointer.len();
    pointer.push('/');
    let shown = &segment[..segment.floor_char_boundary(SEGMENT_BYTES_MAX)];
    pointer.push_str(&shown.replace('~', "~0").replace('/', "~1"));
    let answer = inner(pointer);
    pointer.truncate(len);
    answer
}

fn note(
    node: &Node,
    blocks: &BlockIds,
    scoped: &[&str],
    pointer: &mut String,
    warnings: &mut Vec<TemplateWarning>,
) {
    let mut notes = Notes { blocks, scoped, found: Vec::new() };
    match node {
        Node::Same(..) => {}
        Node::Text(text) => text.note(&mut notes),
        Node::Collection(path) => notes.block_of(path),
        Node::Array(nodes) => {
            for (i, node) in nodes.iter().enumerate() {
                below(pointer, &i.to_string(), |pointer| note(node, blocks, scoped, pointer, warnings));
            }
        }
        Node::Object(nodes) => {
            for (key, node) in nodes {
                below(pointer, key, |pointer| note(node, blocks, scoped, pointer, warnings));
            }
        }
    }
    let room = WARNINGS_MAX.saturating_sub(warnings.len());
    let at = |(code, message)| (code, pointer.clone(), message);
    warnings.extend(notes.found.into_iter().take(room).map(at));
}

/// One rendering under way.
struct Rendering<'r, 's> {
    world: &'r World<'s>,
    budget: Budget,
    left: usize,
}

impl Rendering<'_, '_> {
    fn node(&mut self, node: &Node) -> Result<Value, EvalError> {
        match node {
            Node::Same(value, size) => {
                self.produce(*size)?;
                Ok(value.clone())
            }
            Node::Text(text) => match text.typed() {
                Some(chain) => {
                    let value = chain.eval(self.world, &mut self.budget)?;
                    self.produce(json::size(&value))?;
                    owned(value, &mut self.budget)
                }
                None => {
                    let text = Value::String(text.render(self.world, &mut self.budget)?);
                    self.produce(json::size(&text))?;
                    Ok(text)
                }
            },
            Node::Collection(path) => {
                let Some(value) = self.world.in_expression(path) else { return Ok(Value::Null) };
                self.produce(json::size(value))?;
                self.budget.copy(value)
            }
            Node::Array(nodes) => nodes.iter().map(|node| self.node(node)).collect(),
            Node::Object(nodes) => {
                let mut map = Map::with_capacity(nodes.len());
                for (key, node) in nodes {
                    self.produce(key.len())?;
                    map.insert(key.clone(), self.node(node)?);
                }
                Ok(Value::Object(map))
            }
        }
    }

    fn produce(&mut self, bytes: usize) -> Result<(), EvalError> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(EvalError::limit(format!("rendering makes more than {RENDER_BYTES_MAX} bytes"))),
        }
    }
}

#[cfg(test)]
mod tests;
