//! Cancelling bodies: everything in them ends at once, except what is protected.
//!
//! Protected are an active step with `cancellable: false`, and the finally of a try_catch that was activated. A body
//! with something protected in it is *doomed*: nothing more starts in it, and it ends cancelled when the protected part
//! has ended. The same rules serve a cancel of the instance and the losers of a `fail_fast` parallel.

use super::Run;
use crate::{
    instance::{FINALLY, FrameNo, NodeKind, NodeNo},
    record::{Change, How, Work},
};

impl Run<'_> {
    /// A cancel was accepted.
    pub(super) fn cancel_instance(&mut self, reason: String) {
        self.commit_to_work(Change::Cancel(reason));
        let root = self.instance.state.frames.iter().find(|(_, frame)| frame.owner == NodeNo::default());
        match root.map(|(no, _)| *no) {
            Some(root) => self.cancel_frames(vec![root], "cancelled"),
            // It has not begun: there is nothing to protect.
            None => self.finish(crate::Status::Cancelled, None),
        }
    }

    /// Cancels the bodies of a block that are still open.
    pub(super) fn cancel_bodies(&mut self, no: NodeNo, reason: &'static str) {
        let frames = self.node(no).map(|node| node.open.iter().rev().copied().collect());
        self.cancel_frames(frames.unwrap_or_default(), reason);
    }

    /// Walks down with a list of its own. Each body is looked at once: a doomed one has been here before.
    fn cancel_frames(&mut self, mut frames: Vec<FrameNo>, reason: &'static str) {
        while let Some(no) = frames.pop() {
            let Some(frame) = self.instance.state.frames.get(&no) else { continue };
            if frame.doomed {
                continue;
            }
            let live = frame.node;
            self.commit(Change::Doom(no));
            match live {
                None => self.go_on(Work::Next(no)),
                Some(node) => self.cancel_node(node, reason, &mut frames),
            }
        }
    }

    fn cancel_node(&mut self, no: NodeNo, reason: &'static str, frames: &mut Vec<FrameNo>) {
        let Some(node) = self.node(no) else { return };
        match &node.kind {
            NodeKind::Step(step) => {
                let protected = self.step_of(no).is_some_and(|step| !step.cancellable) && step.is_active();
                if !protected {
                    self.withdraw(no, reason);
                    self.end(no, How::Cancelled, None, false);
                }
            }
            NodeKind::TryCatch(_) => {
                let open = node.open.iter().rev().copied();
                frames.extend(open.filter(|no| {
                    self.instance.state.frames.get(no).is_some_and(|frame| frame.branch != FINALLY)
                }));
            }
            // A loop between two iterations has no body to wait for.
            NodeKind::Loop(_) if node.open.is_empty() => self.end(no, How::Cancelled, None, false),
            NodeKind::Parallel(_) | NodeKind::Router(_) | NodeKind::Loop(_) | NodeKind::ForEach(_) => {
                frames.extend(node.open.iter().rev());
            }
        }
    }
}
