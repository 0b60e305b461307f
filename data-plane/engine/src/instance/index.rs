//! What is derived from the state so that a turn need not look at all of it: timers, open tries, counts.

use std::collections::BTreeSet;

use orch8_model::Millis;

use super::{FrameNo, Node, NodeKind, NodeNo, Phase, State, node::Standing};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Index {
    /// Earliest first.
    pub timers: BTreeSet<(Millis, NodeNo)>,
    /// Steps whose try is before the workers.
    pub sent: BTreeSet<NodeNo>,
    /// Steps that wait for a place among the workers, in activation order.
    pub queued: BTreeSet<NodeNo>,
    /// Steps that wait for an answer.
    pub gates: BTreeSet<NodeNo>,
    /// Nodes that wait for something outside.
    pub waiting: usize,
}

impl Index {
    /// Builds the index, and the links that are derived within the state. Errors: links that lead nowhere.
    pub(crate) fn rebuild(state: &mut State) -> Result<Self, String> {
        let frames: Vec<(FrameNo, NodeNo)> =
            state.frames.iter().map(|(no, frame)| (*no, frame.owner)).collect();
        for (no, owner) in frames {
            if owner == NodeNo::default() {
                continue;
            }
            let node = state.nodes.get_mut(&owner).ok_or_else(|| format!("frame {} hangs loose", no.0))?;
            node.open.insert(no);
        }
        let mut index = Self::default();
        let nodes: Vec<NodeNo> = state.nodes.keys().copied().collect();
        for no in nodes {
            index.add(no, &state.nodes[&no]);
            link_live_row(state, no, true);
        }
        Ok(index)
    }

    /// Counts a node in.
    pub(crate) fn add(&mut self, no: NodeNo, node: &Node) {
        if let Some(at) = node.wake_at() {
            self.timers.insert((at, no));
        }
        self.waiting += usize::from(node.standing() == Standing::Waiting);
        match node.step().map(|step| step.phase) {
            Some(Phase::Sent) => drop(self.sent.insert(no)),
            Some(Phase::Queued) => drop(self.queued.insert(no)),
            Some(Phase::Gate(_)) => drop(self.gates.insert(no)),
            Some(
                Phase::Ready | Phase::Delay(_) | Phase::Sleep { .. } | Phase::Backoff { .. } | Phase::Parked,
            )
            | None => {}
        }
    }

    /// Counts a node out, as it was when it was counted in.
    pub(crate) fn remove(&mut self, no: NodeNo, node: &Node) {
        if let Some(at) = node.wake_at() {
            self.timers.remove(&(at, no));
        }
        self.waiting -= usize::from(node.standing() == Standing::Waiting);
        self.sent.remove(&no);
        self.queued.remove(&no);
        self.gates.remove(&no);
    }
}

/// Makes the computed row of a loop visible in every enclosing iteration, or takes it away.
pub(crate) fn link_live_row(state: &mut State, no: NodeNo, visible: bool) {
    let Some(node) = state.nodes.get(&no) else { return };
    match node.kind {
        NodeKind::Loop(_) | NodeKind::ForEach(_) => {}
        NodeKind::Step(_) | NodeKind::Parallel(_) | NodeKind::Router(_) | NodeKind::TryCatch(_) => return,
    }
    let (block, mut at) = (node.block, Some(node.frame));
    while let Some(home) = at.and_then(|at| state.frames.get(&at)).map(|frame| frame.home) {
        let Some(frame) = state.frames.get_mut(&home) else { return };
        if visible {
            frame.live.entry(block).or_default().insert(no);
        } else if let Some(nodes) = frame.live.get_mut(&block) {
            nodes.remove(&no);
            if nodes.is_empty() {
                frame.live.remove(&block);
            }
        }
        at = state.nodes.get(&frame.owner).map(|owner| owner.frame);
    }
}
