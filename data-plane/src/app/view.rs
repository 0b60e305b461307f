//! A run as it stands in the store, rebuilt the way its owner would: what every read of one run shows.

use std::sync::Arc;

use orch8_engine::{
    Instance, TurnRecord,
    timeline::{Timeline, TimelineNode},
};
use orch8_model::{Fault, InstanceId, Reason};
use orch8_proto::v1;

use super::{missing, still_placed, store_fault};
use crate::{
    router::Routed,
    shard::{Compiled, rebuild},
    store::{InstanceRow, JournalRow},
};

/// Turns read at a time.
const TURNS_PER_READ: u32 = 512;

/// A run and its state.
#[derive(Debug)]
pub struct InstanceView {
    pub row: InstanceRow,
    pub compiled: Arc<Compiled>,
    pub state: Instance,
}

/// A node with what is known about it beyond the journal.
#[derive(Debug)]
pub struct NodeView {
    pub node: TimelineNode,
    /// One sentence, when a worker step waits and nobody offers its handler.
    pub note: String,
}

/// The run. Errors: `NOT_FOUND`, missing and foreign alike.
pub(super) async fn instance_view(routed: &Routed, id: InstanceId) -> Result<InstanceView, Fault> {
    let store = routed.room.store();
    let Some(loaded) = store.load_one(&routed.tenant, id).await.map_err(store_fault)? else {
        return Err(missing(routed).await);
    };
    let compiled = compiled_of(routed, &loaded.row).await?;
    let state = rebuild(&loaded, &compiled).map_err(store_fault)?;
    Ok(InstanceView { row: loaded.row, compiled, state })
}

pub(super) async fn compiled_of(routed: &Routed, row: &InstanceRow) -> Result<Arc<Compiled>, Fault> {
    let programs = routed.room.programs();
    let found =
        programs.get(routed.room.store(), &routed.tenant, row.birth.sequence).await.map_err(store_fault)?;
    found.ok_or_else(|| Fault::new(Reason::Internal, "the sequence of this instance is gone"))
}

/// Every turn of a run, in order.
pub(super) async fn each_turn(
    routed: &Routed,
    id: InstanceId,
    visit: impl FnMut(&JournalRow, TurnRecord),
) -> Result<(), Fault> {
    each_turn_after(routed, id, None, visit).await
}

/// The turns of a run that came after one.
async fn each_turn_after(
    routed: &Routed,
    id: InstanceId,
    mut after: Option<u64>,
    mut visit: impl FnMut(&JournalRow, TurnRecord),
) -> Result<(), Fault> {
    loop {
        let rows = routed
            .room
            .store()
            .turns(&routed.tenant, id, after, TURNS_PER_READ)
            .await
            .map_err(store_fault)?;
        for row in &rows {
            let record = TurnRecord::parse(&row.body)
                .map_err(|_| Fault::new(Reason::Internal, "a turn of this instance cannot be read"))?;
            visit(row, record);
        }
        match rows.last() {
            Some(last) if rows.len() as u32 == TURNS_PER_READ => after = Some(last.turn_no),
            Some(_) | None => return still_placed(routed).await,
        }
    }
}

/// The tree of a run as far as it was read: looking again reads only what was added.
#[derive(Debug, Default)]
pub(super) struct History {
    timeline: Timeline,
    last: Option<u64>,
}

impl History {
    /// Reads the turns that were committed since the last look.
    pub async fn catch_up(
        &mut self,
        routed: &Routed,
        id: InstanceId,
        compiled: &Compiled,
    ) -> Result<(), Fault> {
        let Self { timeline, last } = self;
        let after = *last;
        each_turn_after(routed, id, after, |turn, record| {
            timeline.fold(&compiled.program, &record);
            *last = Some(turn.turn_no);
        })
        .await
    }

    /// Its nodes in activation order, with what is known beyond the journal.
    pub fn nodes(&self, routed: &Routed) -> Vec<NodeView> {
        let offered = routed.room.sessions().handlers(&routed.tenant.tenant);
        self.timeline
            .nodes()
            .map(|node| NodeView { note: note_of(node, &offered), node: node.clone() })
            .collect()
    }
}

/// The whole tree of a run.
pub(super) async fn nodes_of(
    routed: &Routed,
    id: InstanceId,
    compiled: &Compiled,
) -> Result<Vec<NodeView>, Fault> {
    let mut history = History::default();
    history.catch_up(routed, id, compiled).await?;
    Ok(history.nodes(routed))
}
/// What to do about a worker step that nobody will take.
fn note_of(node: &TimelineNode, offered: &[v1::HandlerStatus]) -> String {
    let Some(orch8_engine::timeline::Wait::Worker { handler, .. }) = &node.wait else { return String::new() };
    let live = |name: &str| offered.iter().any(|h| h.handler == name && h.sessions > 0);
    if live(handler) {
        return String::new();
    }
    let names = offered.iter().filter(|h| h.sessions > 0).map(|h| h.handler.as_str());
    match orch8_engine::nearest::nearest(handler, names) {
        Some(near) => format!("no live worker offers `{handler}`; the nearest name offered is `{near}`"),
        None => format!("no live worker offers `{handler}`"),
    }
}
