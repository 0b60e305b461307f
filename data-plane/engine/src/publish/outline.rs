//! The first pass: which blocks there are, of which type, under which id, in which body. Reads no expression, so that
//! the second pass knows every block id before it reads the first path.
//!
//! Recursion is bounded by the nesting limit; the work is linear in the document.

use std::{
    collections::{HashMap, hash_map},
    sync::Arc,
};

use orch8_model::{
    BlockId, Reason,
    limits::{BLOCK_NESTING_MAX, BLOCKS_MAX, BRANCHES_MAX},
};
use serde_json::Value;

use super::{
    code,
    object::{Object, kind_of},
    report::{Report, element, member, quote},
    shape::{self, BlockType, LATER_TYPES},
};
use crate::{
    expr::BlockIds,
    nearest::nearest,
    program::{BlockIx, Body, BodyIx},
};

/// Beginnings of ids that rows of the engine itself use.
const RESERVED_PREFIXES: &[&str] = &["_interceptor:", "_sla:", "_cache:"];

/// The structure of a document.
#[derive(Debug, Default)]
pub(super) struct Outline<'d> {
    /// In document order: a block stands before the blocks inside it.
    pub blocks: Vec<Entry<'d>>,
    pub bodies: Vec<Body>,
    pub by_id: HashMap<Arc<str>, BlockIx>,
    pub ids: BlockIds,
}

/// A block whose fields are still to be read.
#[derive(Debug)]
pub(super) struct Entry<'d> {
    pub id: Arc<str>,
    pub body: BodyIx,
    pub position: u32,
    pub path: Vec<Arc<str>>,
    pub loops: Vec<BlockIx>,
    pub object: Object<'d>,
    pub form: Form<'d>,
}

/// The type of a block and its bodies.
#[derive(Debug)]
pub(super) enum Form<'d> {
    Step,
    Parallel { branches: Vec<BodyIx> },
    Router { routes: Vec<(Object<'d>, BodyIx)>, default: Option<BodyIx> },
    TryCatch { try_: BodyIx, catch: BodyIx, finally: Option<BodyIx> },
    Loop { body: BodyIx },
    ForEach { body: BodyIx },
}

/// Walks the blocks of a document.
pub(super) fn survey<'d>(root: &Object<'d>, report: &mut Report) -> Outline<'d> {
    let mut survey = Survey { outline: Outline::default(), report, blocks_seen: 0, too_deep: false };
    let blocks = survey.required_list(root, "blocks", true);
    survey.body(None, 0, &Trail::default(), blocks);
    if survey.blocks_seen > BLOCKS_MAX {
        let (place, field) = (root.at("blocks"), root.spelt("blocks"));
        survey.report.too_large(&place, field, survey.blocks_seen, BLOCKS_MAX, "blocks in all");
    }
    survey.outline
}

/// What encloses a body.
#[derive(Clone, Default)]
struct Trail {
    path: Vec<Arc<str>>,
    loops: Vec<BlockIx>,
}

/// A block's place and value, before anything is known about it.
type Raw<'d> = (String, &'d Value);

struct Survey<'d, 'r> {
    outline: Outline<'d>,
    report: &'r mut Report,
    blocks_seen: usize,
    too_deep: bool,
}

impl<'d> Survey<'d, '_> {
    fn body(&mut self, owner: Option<BlockIx>, branch: u32, trail: &Trail, blocks: Vec<Raw<'d>>) -> BodyIx {
        let ix = BodyIx(self.outline.bodies.len() as u32);
        self.outline.bodies.push(Body { owner, branch, blocks: Vec::new() });
        if trail.path.len() >= BLOCK_NESTING_MAX && !blocks.is_empty() {
            self.report_too_deep(&blocks[0].0);
            return ix;
        }
        for (place, value) in blocks {
            self.blocks_seen += 1;
            self.block(ix, trail, place, value);
        }
        ix
    }

    /// Once: whatever is that deep is usually deep in many places.
    fn report_too_deep(&mut self, place: &str) {
        if !self.too_deep {
            self.too_deep = true;
            let message = format!("blocks are nested more than {BLOCK_NESTING_MAX} deep here");
            self.report.problem(Reason::TooLarge.as_str(), place, message);
        }
    }

    fn block(&mut self, body: BodyIx, trail: &Trail, place: String, value: &'d Value) {
        let Some(block_type) = self.type_of(&place, value) else { return };
        let Some(object) = Object::open(value, block_type.shape(), place, self.report) else { return };
        let ix = BlockIx(self.outline.blocks.len() as u32);
        let id = self.id(&object, ix);
        let siblings = &mut self.outline.bodies[body.0 as usize].blocks;
        let position = siblings.len() as u32;
        siblings.push(ix);
        let mut inside = trail.clone();
        inside.path.push(id.clone());
        let entry = Entry {
            id,
            body,
            position,
            path: inside.path.clone(),
            loops: trail.loops.clone(),
            object: object.clone(),
            form: Form::Step,
        };
        self.outline.blocks.push(entry);
        let form = self.form(ix, &object, block_type, inside);
        self.outline.blocks[ix.0 as usize].form = form;
    }

    /// The type of a block. Without `type` but with a `handler` it is a step.
    fn type_of(&mut self, place: &str, value: &Value) -> Option<BlockType> {
        let Value::Object(map) = value else {
            self.report.invalid(place, format!("a block must be an object, not {}", kind_of(value)));
            return None;
        };
        let at = member(place, "type");
        match map.get("type") {
            None if map.contains_key("handler") => {
                let message = "a block with a handler and no type is read as a step";
                self.report.warn(code::SPELLING, at, message);
                Some(BlockType::Step)
            }
            None => {
                let message = format!("type is required in a block: one of {}", listed_types());
                self.report.invalid(at, message);
                None
            }
            Some(Value::String(text)) => BlockType::named(text).or_else(|| {
                self.refuse_type(text, at);
                None
            }),
            Some(other) => {
                self.report.invalid(at, format!("type must be text, not {}", kind_of(other)));
                None
            }
        }
    }

    fn refuse_type(&mut self, text: &str, at: String) {
        if let Some((_, remedy)) = LATER_TYPES.iter().find(|(later, _)| *later == text) {
            let message = format!("type {text} is not in this version: {remedy}");
            self.report.problem(code::NOT_IN_THIS_VERSION, at, message);
            return;
        }
        let later = LATER_TYPES.iter().map(|(name, _)| *name);
        let meant = nearest(text, BlockType::names().chain(later));
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        let message = format!("type {} is unknown: one of {}{meant}", quote(text), listed_types());
        self.report.invalid(at, message);
    }

    /// The block's id, entered in the index. A bad one is reported and answered empty.
    fn id(&mut self, object: &Object<'_>, ix: BlockIx) -> Arc<str> {
        let Some(text) = object.required_text("id", self.report) else { return "".into() };
        if let Err(problem) = BlockId::parse(text) {
            object.invalid("id", problem, self.report);
            return "".into();
        }
        if let Some(prefix) = RESERVED_PREFIXES.iter().find(|prefix| text.starts_with(**prefix)) {
            object.invalid("id", format_args!("must not begin with {prefix}"), self.report);
        }
        let id: Arc<str> = text.into();
        match self.outline.by_id.entry(id.clone()) {
            hash_map::Entry::Vacant(free) => {
                free.insert(ix);
                self.outline.ids.insert(id.clone());
            }
            hash_map::Entry::Occupied(taken) => {
                let first = &self.outline.blocks[taken.get().0 as usize].object.place;
                let rule = format!("{} is already the id of the block at {first}", quote(text));
                object.invalid("id", rule, self.report);
            }
        }
        id
    }

    fn form(&mut self, ix: BlockIx, object: &Object<'d>, block_type: BlockType, inside: Trail) -> Form<'d> {
        match block_type {
            BlockType::Step => Form::Step,
            BlockType::Parallel => self.parallel(ix, object, &inside),
            BlockType::Router => self.router(ix, object, &inside),
            BlockType::TryCatch => self.try_catch(ix, object, &inside),
            BlockType::Loop => Form::Loop { body: self.iterated(ix, object, inside) },
            BlockType::ForEach => Form::ForEach { body: self.iterated(ix, object, inside) },
        }
    }

    fn parallel(&mut self, ix: BlockIx, object: &Object<'d>, inside: &Trail) -> Form<'d> {
        if object.get("branches").is_none() {
            object.missing("branches", self.report);
        }
        let list = object.list("branches", self.report);
        if list.is_some_and(<[Value]>::is_empty) {
            object.invalid("branches", format_args!("must hold 1 to {BRANCHES_MAX} branches"), self.report);
        }
        let list = self.limited(object, "branches", list.unwrap_or_default());
        let mut branches = Vec::with_capacity(list.len());
        for (i, branch) in list.iter().enumerate() {
            let place = element(&object.at("branches"), i);
            let blocks = self.branch(place, branch);
            branches.push(self.body(Some(ix), i as u32, inside, blocks));
        }
        Form::Parallel { branches }
    }

    /// A branch is an array of blocks, or one block.
    fn branch(&mut self, place: String, branch: &'d Value) -> Vec<Raw<'d>> {
        match branch {
            Value::Array(blocks) => {
                if blocks.is_empty() {
                    self.report.warn(code::EMPTY_BRANCH, place.as_str(), "a branch without blocks");
                }
                raw(&place, blocks)
            }
            Value::Object(map) if map.contains_key("type") || map.contains_key("handler") => {
                self.report.warn(code::SPELLING, place.as_str(), "a block is read as a branch of one block");
                vec![(place, branch)]
            }
            other => {
                let message = format!("a branch must be an array of blocks, not {}", kind_of(other));
                self.report.invalid(place, message);
                Vec::new()
            }
        }
    }

    fn router(&mut self, ix: BlockIx, object: &Object<'d>, inside: &Trail) -> Form<'d> {
        let list = object.list("routes", self.report).unwrap_or_default();
        if list.is_empty() && object.optional("default").is_none() {
            object.invalid("routes", "must hold a route, or default must be given", self.report);
        }
        let list = self.limited(object, "routes", list);
        let mut routes = Vec::with_capacity(list.len());
        for (i, route) in list.iter().enumerate() {
            let place = element(&object.at("routes"), i);
            let Some(route) = Object::open(route, &shape::ROUTE, place, self.report) else { continue };
            let blocks = self.required_list(&route, "blocks", false);
            if blocks.is_empty() && route.get("blocks").is_some() {
                self.report.warn(code::EMPTY_ROUTE, route.at("blocks"), "a route without blocks");
            }
            let body = self.body(Some(ix), i as u32, inside, blocks);
            routes.push((route, body));
        }
        let default = self.optional_list(object, "default");
        let default = default.map(|blocks| self.body(Some(ix), list.len() as u32, inside, blocks));
        Form::Router { routes, default }
    }

    fn try_catch(&mut self, ix: BlockIx, object: &Object<'d>, inside: &Trail) -> Form<'d> {
        let blocks = self.required_list(object, "try_block", true);
        let try_ = self.body(Some(ix), 0, inside, blocks);
        let blocks = self.required_list(object, "catch_block", false);
        if blocks.is_empty() && object.get("catch_block").is_some() {
            let message = "an empty catch swallows every error";
            self.report.warn(code::EMPTY_CATCH, object.at("catch_block"), message);
        }
        let catch = self.body(Some(ix), 1, inside, blocks);
        let finally = self.optional_list(object, "finally_block");
        let finally = finally.map(|blocks| self.body(Some(ix), 2, inside, blocks));
        Form::TryCatch { try_, catch, finally }
    }

    fn iterated(&mut self, ix: BlockIx, object: &Object<'d>, mut inside: Trail) -> BodyIx {
        inside.loops.push(ix);
        let blocks = self.required_list(object, "body", true);
        self.body(Some(ix), 0, &inside, blocks)
    }

    fn required_list(&mut self, object: &Object<'d>, key: &str, filled: bool) -> Vec<Raw<'d>> {
        match object.get(key) {
            None => object.missing(key, self.report),
            Some(Value::Array(blocks)) if blocks.is_empty() && filled => {
                object.invalid(key, "must hold at least one block", self.report);
            }
            Some(Value::Array(blocks)) => return raw(&object.at(key), blocks),
            Some(other) => {
                let rule = format!("must be an array of blocks, not {}", kind_of(other));
                object.invalid(key, rule, self.report);
            }
        }
        Vec::new()
    }

    fn optional_list(&mut self, object: &Object<'d>, key: &str) -> Option<Vec<Raw<'d>>> {
        object.optional(key)?;
        Some(self.required_list(object, key, false))
    }

    /// At most [`BRANCHES_MAX`] of them: the rest is counted, not walked.
    fn limited(&mut self, object: &Object<'_>, key: &str, list: &'d [Value]) -> &'d [Value] {
        if list.len() > BRANCHES_MAX {
            self.report.too_large(&object.at(key), object.spelt(key), list.len(), BRANCHES_MAX, key);
        }
        &list[..list.len().min(BRANCHES_MAX)]
    }
}

fn listed_types() -> String {
    BlockType::names().collect::<Vec<_>>().join(", ")
}

fn raw<'d>(place: &str, blocks: &'d [Value]) -> Vec<Raw<'d>> {
    blocks.iter().enumerate().map(|(i, block)| (element(place, i), block)).collect()
}
