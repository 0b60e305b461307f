//! What one block sees: the [`Scope`] of an evaluation, looked at from its place in the tree.

use std::{cell::OnceCell, collections::BTreeMap};

use orch8_model::Millis;
use serde_json::{Map, Value, json};

use super::rng::Rng;
use crate::{
    instance::{Frame, FrameNo, Instance, NodeKind, NodeNo},
    program::{BlockIx, Kind, Program},
    scope::Scope,
};

/// Names that are roots everywhere: an item variable of such a name is reachable behind `data.` only.
const ROOTS: [&str; 10] =
    ["context", "data", "config", "outputs", "steps", "runtime", "input", "instance_id", "state", "errors"];

/// Where somebody looks from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The block that looks.
    pub node: NodeNo,
    /// It is a loop that looks at this iteration of itself.
    pub iteration: Option<u32>,
}

impl Place {
    pub(crate) fn node(node: NodeNo) -> Self {
        Self { node, iteration: None }
    }
}

/// The world seen from a place.
pub(crate) struct View<'a> {
    program: &'a Program,
    instance: &'a Instance,
    node: NodeNo,
    frame: FrameNo,
    now: Millis,
    rng: &'a Rng,
    /// Item variables and `_error`, outermost first.
    overlay: Vec<(&'a str, &'a Value)>,
    /// Enclosing iterations, outermost first.
    loops: Vec<Iteration<'a>>,
    loop_value: OnceCell<Option<Value>>,
    item_index: Option<Value>,
    instance_id: OnceCell<String>,
    /// Rows of running loops, computed when one is asked for.
    live_rows: OnceCell<BTreeMap<u32, Value>>,
    state: Map<String, Value>,
}

/// One enclosing iteration.
struct Iteration<'a> {
    index: u32,
    /// Of a for_each: its variable, the element, and how many there are.
    item: Option<(&'a str, &'a Value, usize)>,
}

impl<'a> View<'a> {
    /// `error`: `_error` for this evaluation alone.
    pub(crate) fn new(
        program: &'a Program,
        instance: &'a Instance,
        place: Place,
        now: Millis,
        rng: &'a Rng,
        error: Option<&'a Value>,
    ) -> Self {
        let frame = instance.state.nodes.get(&place.node).map(|node| node.frame).unwrap_or_default();
        let mut view = Self {
            program,
            instance,
            node: place.node,
            frame,
            now,
            rng,
            overlay: Vec::new(),
            loops: Vec::new(),
            loop_value: OnceCell::new(),
            item_index: None,
            instance_id: OnceCell::new(),
            live_rows: OnceCell::new(),
            state: Map::new(),
        };
        view.overlay.extend(error.map(|error| ("_error", error)));
        if let Some(index) = place.iteration {
            view.enter(place.node, index);
        }
        view.look_outwards();
        view.overlay.reverse();
        view.loops.reverse();
        view.item_index = view.loops.iter().rev().find(|at| at.item.is_some()).map(|at| json!(at.index));
        view
    }

    /// Collects what the enclosing bodies lay over data, innermost first.
    fn look_outwards(&mut self) {
        let instance = self.instance;
        let mut at = Some(self.frame);
        while let Some(frame) = at.and_then(|at| instance.state.frames.get(&at)) {
            if let Some(error) = &frame.error {
                self.overlay.push(("_error", error));
            }
            if let (true, Some(index)) = (frame.iteration, frame.path.last()) {
                self.enter(frame.owner, *index);
            }
            at = instance.state.nodes.get(&frame.owner).map(|owner| owner.frame);
        }
    }

    fn enter(&mut self, owner: NodeNo, index: u32) {
        let Some(node) = self.instance.state.nodes.get(&owner) else { return };
        let mut iteration = Iteration { index, item: None };
        if let (NodeKind::ForEach(each), Kind::ForEach(block)) =
            (&node.kind, &self.program.block(BlockIx(node.block)).kind)
            && let Some(item) = each.items.values.get(index as usize)
        {
            iteration.item = Some((&block.item_var, item, each.items.values.len()));
            self.overlay.push((&block.item_var, item));
        }
        self.loops.push(iteration);
    }

    fn homes(&self) -> impl Iterator<Item = &'a Frame> {
        self.instance.homes(self.frame)
    }

    fn block_no(&self, block_id: &str) -> Option<u32> {
        self.program.by_id.get(block_id).map(|ix| ix.0)
    }

    /// The row of the newest running loop of that block in this home.
    fn live_row(&self, home: &Frame, block: u32) -> Option<&Value> {
        home.live.get(&block)?;
        self.live_rows.get_or_init(|| self.compute_live_rows()).get(&block)
    }

    fn compute_live_rows(&self) -> BTreeMap<u32, Value> {
        let mut rows = BTreeMap::new();
        for (block, nodes) in self.homes().flat_map(|home| &home.live) {
            let Some(node) = nodes.last().and_then(|no| self.instance.state.nodes.get(no)) else { continue };
            let item_var = match &self.program.block(BlockIx(*block)).kind {
                Kind::ForEach(each) => each.item_var.as_ref(),
                Kind::Step(_)
                | Kind::Parallel { .. }
                | Kind::Router { .. }
                | Kind::TryCatch { .. }
                | Kind::Loop(_) => "",
            };
            if let Some(row) = node.live_row(false, item_var) {
                rows.entry(*block).or_insert(row);
            }
        }
        rows
    }

    /// `context.data` with scoped variables laid over it.
    pub(crate) fn data_with_overlay(&self) -> Map<String, Value> {
        let mut data = self.instance.data().clone();
        for (name, value) in &self.overlay {
            data.insert((*name).to_owned(), (*value).clone());
        }
        data
    }

    fn describe_loop(&self) -> Option<Value> {
        self.loops.iter().fold(None, |parent, at| {
            let mut value = Map::new();
            value.insert("index".to_owned(), json!(at.index));
            if let Some((_, item, total)) = at.item {
                value.insert("total".to_owned(), json!(total));
                value.insert("item".to_owned(), item.clone());
            }
            value.insert("parent".to_owned(), parent.unwrap_or(Value::Null));
            Some(Value::Object(value))
        })
    }
}

impl Scope for View<'_> {
    fn data(&self) -> &Map<String, Value> {
        self.instance.data()
    }

    fn config(&self) -> &Map<String, Value> {
        self.instance.config()
    }

    fn scoped(&self, name: &str) -> Option<&Value> {
        match name {
            "loop" => self.loop_value.get_or_init(|| self.describe_loop()).as_ref(),
            "item_index" => self.item_index.as_ref(),
            _ if ROOTS.contains(&name) => None,
            _ => self.overlay.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| *value),
        }
    }

    fn overlay(&self) -> Vec<(&str, &Value)> {
        self.overlay.clone()
    }

    fn output(&self, block_id: &str) -> Option<&Value> {
        let block = self.block_no(block_id)?;
        for home in self.homes() {
            if let Some(row) = self.live_row(home, block) {
                return Some(row);
            }
            if let Some(row) = home.rows.get(&block) {
                return Some(row);
            }
        }
        None
    }

    fn outputs(&self) -> Map<String, Value> {
        let mut seen = BTreeMap::new();
        for home in self.homes() {
            for block in home.live.keys() {
                if let Some(row) = self.live_row(home, *block) {
                    seen.entry(*block).or_insert(row);
                }
            }
            for (block, row) in &home.rows {
                seen.entry(*block).or_insert(row);
            }
        }
        let named =
            seen.into_iter().map(|(block, row)| (self.program.block(BlockIx(block)).id.as_ref(), row));
        named.map(|(id, row)| (id.to_owned(), row.clone())).collect()
    }

    fn error(&self, block_id: &str) -> Option<&Value> {
        let block = self.block_no(block_id)?;
        self.homes().find_map(|home| home.errors.get(&block)).map(|error| &**error)
    }

    fn errors(&self) -> Map<String, Value> {
        let mut seen = BTreeMap::new();
        for (block, error) in self.homes().flat_map(|home| &home.errors) {
            seen.entry(*block).or_insert(error);
        }
        let named =
            seen.into_iter().map(|(block, error)| (self.program.block(BlockIx(block)).id.as_ref(), error));
        named.map(|(id, error)| (id.to_owned(), Value::clone(error))).collect()
    }

    fn runtime(&self) -> Value {
        let node = self.instance.state.nodes.get(&self.node);
        let block = node.map(|node| self.program.block(BlockIx(node.block)).id.as_ref());
        let attempt = node.and_then(|node| node.step()).map_or(0, |step| step.attempt);
        let started_at = self.instance.state.started_at.unwrap_or(self.now);
        json!({
            "attempt": attempt,
            "tries": u64::from(attempt) + 1,
            "dry_run": false,
            "dry_run_auto_approve": false,
            "instance_id": self.instance_id(),
            "continuity_id": self.instance.birth().continuity.to_string(),
            "current_step": block,
            "started_at": started_at.to_string(),
            "run_no": 1,
            "total_steps_executed": self.instance.state.rows_made,
            "scheduled_at": Value::Null,
        })
    }

    fn state(&self) -> &Map<String, Value> {
        &self.state
    }

    fn instance_id(&self) -> &str {
        self.instance_id.get_or_init(|| self.instance.birth().instance.to_string())
    }

    fn now(&self) -> Millis {
        self.now
    }

    fn random(&self) -> u64 {
        self.rng.next()
    }
}
