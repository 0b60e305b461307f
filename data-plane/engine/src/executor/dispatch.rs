//! The one place where a try leaves for the workers.

use orch8_model::{Millis, json, limits::PARAMS_BYTES_MAX};
use orch8_seal::{EffectPath, effect_key, idempotency_key, task_id};
use serde_json::Value;

use super::{
    Run,
    rng::Rng,
    view::{Place, View},
};
use crate::{
    action::{Action, Dispatch},
    instance::{Instance, NodeNo, Phase},
    program::{BlockIx, Handler, Program, Step},
    record::Change,
};

/// Tries of one instance that are before the workers at a time; the others queue. So that a wide instance leaves room
/// for the rest of its tenant.
pub const IN_FLIGHT_MAX: usize = 256;

impl Run<'_> {
    /// Sends the next step that is ready: the one whose delivery was handed back, else the first in activation order.
    /// `false`: there is none, or no place for it.
    pub(super) fn send_one(&mut self) -> bool {
        if let Some(no) = self.resend.take() {
            self.send(no);
            return true;
        }
        if self.instance.index.sent.len() >= IN_FLIGHT_MAX {
            return false;
        }
        let first = [self.fresh.first(), self.instance.index.queued.first()].into_iter().flatten().min();
        let Some(no) = first.copied() else { return false };
        self.fresh.remove(&no);
        self.send(no);
        true
    }

    fn send(&mut self, no: NodeNo) {
        let Some(step) = self.step_of(no) else { return };
        if self.deadline_passed(no) {
            return self.deadline_breached(no);
        }
        let first = self.step_node(no).is_some_and(|step| step.params.is_none());
        let params = match first.then(|| self.frozen_params(no, step)) {
            None => Value::Null,
            Some(Ok(params)) => params,
            Some(Err((code, message))) => return self.refuse_step(no, code, &message),
        };
        self.commit(Change::Send { node: no, params });
        self.actions.extend(
            dispatch_of(self.program, self.instance, no).map(|task| Action::Dispatch(Box::new(task))),
        );
    }

    /// The params of a try: those of the first one, or rendered now. Errors: code and message of a permanent failure.
    pub(super) fn frozen_params(&self, no: NodeNo, step: &Step) -> Result<Value, (&'static str, String)> {
        if let Some(params) = self.step_node(no).and_then(|step| step.params.as_deref()) {
            return Ok(params.clone());
        }
        let params =
            self.render(Place::node(no), &step.params).map_err(|error| (error.code, error.message))?;
        let bytes = json::size(&params);
        if bytes > PARAMS_BYTES_MAX {
            let message = format!("the params have {bytes} bytes, at most {PARAMS_BYTES_MAX} are allowed");
            return Err(("PARAMS_TOO_LARGE", message));
        }
        if let Err(problem) = json::check_value(&params) {
            return Err(("INVALID_PARAMS", format!("{} of the params {}", problem.pointer, problem.message)));
        }
        Ok(params)
    }

    /// Takes a try back from the workers, if it is with them. One that this very turn would send is not sent at all.
    pub(super) fn withdraw(&mut self, no: NodeNo, reason: &'static str) {
        let Some(step) = self.step_node(no) else { return };
        if step.phase != Phase::Sent {
            return;
        }
        let (attempt, claim_epoch) = (step.attempt, step.claim_epoch());
        let sends = self.actions.len();
        self.actions.retain(|action| !matches!(action, Action::Dispatch(task) if task.node == no));
        if sends == self.actions.len() {
            let task = task_id(self.instance.birth().instance, no.0, attempt);
            self.actions.push(Action::CancelTask { node: no, task, attempt, claim_epoch, reason });
        }
    }
}

/// The task of a step whose try is before the workers; `None` for any other node.
pub(crate) fn dispatch_of(program: &Program, instance: &Instance, no: NodeNo) -> Option<Dispatch> {
    let node = instance.state.nodes.get(&no)?;
    let frame = instance.state.frames.get(&node.frame)?;
    let block = program.block(BlockIx(node.block));
    let (state, step) = (node.step()?, block.kind.step()?);
    let Handler::Worker(handler) = &step.handler else { return None };
    if state.phase != Phase::Sent {
        return None;
    }
    let path: Vec<&str> = block.path.iter().map(|id| id.as_ref()).collect();
    let effect = effect_key(EffectPath { tree: "main", path: &path, iteration: &frame.path, ordinal: 0 });
    let birth = instance.birth();
    // Only what lies over data is asked for: neither the clock nor chance can be seen through it.
    let rng = Rng::new(0);
    let view = View::new(program, instance, Place::node(no), Millis::default(), &rng, None);
    Some(Dispatch {
        node: no,
        task: task_id(birth.instance, no.0, state.attempt),
        attempt: state.attempt,
        claim_epoch: state.claim_epoch(),
        handler: handler.to_string(),
        block_id: block.id.to_string(),
        block_path: path.iter().map(|id| (*id).to_owned()).collect(),
        iteration: frame.iteration_text(),
        params: state.params.as_deref().cloned().unwrap_or(Value::Null),
        context: serde_json::json!({ "data": view.data_with_overlay(), "config": instance.config() }),
        idempotency_key: idempotency_key(&birth.tenant, birth.continuity, &effect).hex(),
        at_most_once: step.at_most_once,
        timeout_ms: step.timeout_ms,
        schedule_to_start_ms: step.schedule_to_start_ms,
    })
}
