//! Messages to a run. Each is consumed by the turn it comes with, whatever it does.

use serde_json::{Map, Value};

use super::Run;
use crate::{
    event::{Signal, SignalKind},
    record::Change,
};

impl Run<'_> {
    pub(super) fn receive(&mut self, signal: Signal) {
        if self.ended() {
            return;
        }
        self.consumed = true;
        match signal.kind {
            SignalKind::Pause => self.pause(),
            SignalKind::Resume => self.resume(),
            SignalKind::Cancel { reason } => self.cancel(reason),
            SignalKind::UpdateContext(patch) => self.update_context(patch),
            SignalKind::Custom { name, payload } => self.custom(&name, &payload),
        }
    }

    /// Nothing new starts and no timer acts; what is with the workers goes on. After a cancel there is no pause.
    fn pause(&mut self) {
        if !self.paused() && self.instance.state.cancel.is_none() {
            self.commit(Change::Pause);
        }
    }

    /// What was stored goes on, then what fell due.
    fn resume(&mut self) {
        if self.paused() {
            self.commit_to_work(Change::Resume);
            self.settle();
            self.fire_due_timers();
        }
    }

    fn cancel(&mut self, reason: String) {
        if self.instance.state.cancel.is_none() {
            self.cancel_instance(reason);
        }
    }

    /// Merges keys into data, all or none.
    fn update_context(&mut self, patch: Map<String, Value>) {
        if patch.is_empty() {
            return;
        }
        let bytes = self.instance.state.data.bytes_after(patch.iter());
        match self.over_context_limit(bytes) {
            Some(message) => self.note("UPDATE_SKIPPED", message),
            None => self.commit(Change::Update(patch)),
        }
    }
}
