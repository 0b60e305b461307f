//! for_each: one iteration per element of a snapshot, at most `concurrency` at a time.

use orch8_model::{json, limits::OUTPUT_BYTES_MAX};
use serde_json::Value;

use super::{Run, view::Place};
use crate::{
    instance::{NodeKind, NodeNo},
    program::{ForEach, Kind},
    record::Change,
};

impl<'a> Run<'a> {
    /// Takes the snapshot: later changes of the collection are not seen.
    pub(super) fn activate_each(&mut self, no: NodeNo, each: &ForEach) {
        let mut items = match self.render(Place::node(no), &each.collection) {
            Err(error) => return self.fail_composite(no, error.code, &error.message),
            Ok(Value::Null) => Vec::new(),
            Ok(Value::Array(items)) => items,
            Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                return self.fail_composite(no, "NOT_AN_ARRAY", "the collection is not an array");
            }
        };
        let (found, max) = (items.len(), each.max_iterations as usize);
        if found > max && each.fail_on_max {
            let message = format!("the collection has {found} items, at most {max} are allowed");
            return self.fail_composite(no, "MAX_ITERATIONS", &message);
        }
        items.truncate(max);
        let bytes: usize = items.iter().map(json::size).sum();
        if bytes > OUTPUT_BYTES_MAX {
            let message = format!("the collection has {bytes} bytes, at most {OUTPUT_BYTES_MAX} are allowed");
            return self.fail_composite(no, "OUTPUT_TOO_LARGE", &message);
        }
        if items.is_empty() {
            return self.end_iterations(no, false);
        }
        self.commit(Change::Items { node: no, items, capped: found > max });
        self.begin_items(no, each);
    }

    /// An iteration has ended: others begin in its place, unless one has failed.
    pub(super) fn item_ended(&mut self, no: NodeNo, each: &ForEach) {
        let Some(node) = self.node(no) else { return };
        let NodeKind::ForEach(state) = &node.kind else { return };
        let stopped = !state.ended.is_fine() || self.doomed(no);
        let (idle, left) = (node.open.is_empty(), (state.next as usize) < state.items.values.len());
        if left && !stopped {
            self.begin_items(no, each);
        } else if idle && stopped {
            self.end_composite(no);
        } else if idle {
            self.end_iterations(no, false);
        }
    }

    fn begin_items(&mut self, no: NodeNo, each: &ForEach) {
        let Some(node) = self.node(no) else { return };
        let NodeKind::ForEach(state) = &node.kind else { return };
        let (running, next) = (node.open.len(), state.next);
        let left = state.items.values.len().saturating_sub(next as usize);
        let wanted = (each.concurrency.max(1) as usize).saturating_sub(running).min(left);
        let count = (0..=wanted).rev().find(|count| self.has_room(*count)).unwrap_or(0);
        if count == 0 && running == 0 {
            return self.refuse_room(no);
        }
        self.open_all(no, (next..).take(count).map(|index| (0, Some(index))));
    }

    /// The item variable of a for_each; empty for any other block.
    pub(super) fn item_var(&self, no: NodeNo) -> &'a str {
        match self.block_of(no).map(|block| &block.kind) {
            Some(Kind::ForEach(each)) => &each.item_var,
            Some(
                Kind::Step(_)
                | Kind::Parallel { .. }
                | Kind::Router { .. }
                | Kind::TryCatch { .. }
                | Kind::Loop(_),
            )
            | None => "",
        }
    }
}
