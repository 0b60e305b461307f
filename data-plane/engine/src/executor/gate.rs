//! A human's decision in front of a step.

use orch8_model::limits::JSON_DEPTH_MAX;
use serde_json::{Map, Value, json};

use super::{Run, depth::depth};
use crate::{
    instance::NodeNo,
    program::{BlockIx, Gate},
    record::{Change, How, KeptAnswer, Work},
};

/// Signals that answer a gate begin like this.
const PREFIX: &str = "human_input:";
/// Answers that wait for their gate to open. More than that is somebody's mistake: it is noted and dropped.
const KEPT_MAX: usize = 1_000;
/// Bytes of a comment that are kept.
const COMMENT_BYTES_MAX: usize = 4 << 10;

impl<'a> Run<'a> {
    pub(super) fn open_gate(&mut self, no: NodeNo, gate: &Gate) {
        self.set_timer(no, Change::Gate(no));
        let Some((block_id, iteration)) = self.address(no) else { return };
        let early = self.instance.state.answers.iter().position(|answer| {
            answer.block_id == block_id && answer.iteration.as_ref().is_none_or(|own| *own == iteration)
        });
        if let Some(place) = early {
            let answer = self.instance.state.answers[place].clone();
            self.accept(no, gate, answer, u32::try_from(place).ok());
        }
    }

    /// A custom signal. Only an answer to a gate of this sequence with one of its values has an effect.
    pub(super) fn custom(&mut self, name: &str, payload: &Value) {
        let Some((answer, gate)) = self.parse_answer(name, payload) else {
            return self.note("SIGNAL_IGNORED", "no gate takes it".to_owned());
        };
        let waiting = self.instance.index.gates.iter().copied().find(|no| {
            self.address(*no).is_some_and(|(block_id, iteration)| {
                answer.block_id == block_id && answer.iteration.as_ref().is_none_or(|own| *own == iteration)
            })
        });
        match waiting {
            Some(no) => self.accept(no, gate, answer, None),
            None if self.instance.state.answers.len() < KEPT_MAX => self.commit(Change::Keep(answer)),
            None => self.note("SIGNAL_IGNORED", format!("{KEPT_MAX} answers wait already")),
        }
    }

    /// The time for a decision is over.
    pub(super) fn gate_timed_out(&mut self, no: NodeNo) {
        let Some(gate) = self.step_of(no).and_then(|step| step.gate.as_ref()) else { return };
        let ms = gate.timeout_ms.unwrap_or(0);
        match &gate.escalation_handler {
            None => self.refuse_step(no, "HUMAN_TIMEOUT", &format!("nobody decided within {ms} ms")),
            Some(handler) => {
                let row = json!({
                    "_escalated": true,
                    "_escalation_handler": handler,
                    "_timeout_ms": ms,
                    "_timeout_seconds": ms as f64 / 1000.0,
                });
                self.end(no, How::Completed, Some(row), false);
            }
        }
    }

    fn accept(&mut self, no: NodeNo, gate: &Gate, answer: KeptAnswer, kept: Option<u32>) {
        let Some((_, value)) = gate.choices.get(answer.choice as usize) else { return };
        let key = gate.store_as.as_deref().unwrap_or(&answer.block_id);
        let patch: Map<String, Value> = [(key.to_owned(), value.clone())].into_iter().collect();
        let bytes = self.instance.state.data.bytes_after(patch.iter());
        if let Some(message) = self.over_context_limit(bytes) {
            return self.refuse_step(no, "CONTEXT_TOO_LARGE", &message);
        }
        if depth(value) >= JSON_DEPTH_MAX {
            return self.refuse_step(no, "INVALID_OUTPUT", "the chosen value is nested too deeply for data");
        }
        self.commit(Change::Answer { node: no, choice: answer.choice, comment: answer.comment, kept });
        self.go_on(Work::Run(no));
    }

    /// What a signal says, if it is an answer that a gate of this sequence could take. A block id may hold `#` itself:
    /// the whole name is tried first.
    fn parse_answer(&self, name: &str, payload: &Value) -> Option<(KeptAnswer, &'a Gate)> {
        let address = name.strip_prefix(PREFIX)?;
        let (block_id, iteration) = match self.gate_of(address) {
            Some(_) => (address, None),
            None => address.rsplit_once('#').map(|(id, iteration)| (id, Some(iteration)))?,
        };
        let gate = self.gate_of(block_id)?;
        let value = payload.get("value")?;
        let choice = gate.choices.iter().position(|(_, choice)| choice == value)?;
        let comment = payload.get("comment").and_then(Value::as_str).filter(|_| gate.allow_comment);
        let answer = KeptAnswer {
            block_id: block_id.to_owned(),
            iteration: iteration.map(str::to_owned),
            choice: u32::try_from(choice).ok()?,
            comment: comment.map(|text| cut(text, COMMENT_BYTES_MAX).to_owned()),
        };
        Some((answer, gate))
    }

    fn gate_of(&self, block_id: &str) -> Option<&'a Gate> {
        let ix = self.program.by_id.get(block_id)?;
        self.program.block(*ix).kind.step()?.gate.as_ref()
    }

    /// Block id and iteration of a node.
    fn address(&self, no: NodeNo) -> Option<(String, String)> {
        let node = self.node(no)?;
        let frame = self.instance.state.frames.get(&node.frame)?;
        Some((self.program.block(BlockIx(node.block)).id.to_string(), frame.iteration_text()))
    }
}

/// The longest start of a text that has at most `bytes` bytes.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=text.len().min(bytes)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
