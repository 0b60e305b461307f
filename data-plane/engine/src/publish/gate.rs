//! `wait_for_input`: a step that waits for a human decision before it runs.

use std::{collections::HashSet, sync::Arc};

use orch8_model::{BlockId, HandlerName, json};
use serde_json::{Value, json};

use super::{
    code,
    handler::{self, Standing},
    object::Object,
    report::{Report, element},
    shape,
};
use crate::program::Gate;

pub(super) fn read(step: &Object<'_>, report: &mut Report) -> Option<Gate> {
    let object = step.inner("wait_for_input", &shape::GATE, report)?;
    let gate = Gate {
        prompt: object.text("prompt", report).unwrap_or_default().to_owned(),
        timeout_ms: object.duration("timeout", report),
        escalation_handler: escalation(&object, report),
        choices: choices(&object, report),
        store_as: store_as(&object, report),
        allow_comment: object.flag("allow_comment", false, report),
    };
    if gate.escalation_handler.is_some() && object.optional("timeout").is_none() {
        let message = "escalation_handler does nothing without timeout";
        report.warn(code::NO_EFFECT, object.at("escalation_handler"), message);
    }
    Some(gate)
}

/// It takes the place of the block id as a key of `context.data`, so it obeys the same rule.
fn store_as(object: &Object<'_>, report: &mut Report) -> Option<Arc<str>> {
    let text = object.text("store_as", report)?;
    if let Err(problem) = BlockId::parse(text) {
        object.invalid("store_as", problem, report);
    }
    Some(text.into())
}

fn escalation(object: &Object<'_>, report: &mut Report) -> Option<String> {
    let name = object.text("escalation_handler", report)?;
    if let Err(problem) = HandlerName::parse(name) {
        object.invalid("escalation_handler", problem, report);
        return None;
    }
    let place = object.at("escalation_handler");
    match handler::standing(name) {
        Standing::BuiltIn(_) => {}
        Standing::Later(remedy) => {
            let message = format!("escalation_handler {name} is not in this version: {remedy}");
            report.problem(code::NOT_IN_THIS_VERSION, place, message);
        }
        Standing::Unsupported | Standing::Worker => {
            let message = "escalation_handler is not in-process: it is recorded, not called";
            report.warn(code::EXTERNAL_ESCALATION, place, message);
        }
    }
    Some(name.to_owned())
}

fn choices(object: &Object<'_>, report: &mut Report) -> Vec<(String, Value)> {
    let Some(list) = object.list("choices", report) else {
        return vec![("Yes".to_owned(), json!("yes")), ("No".to_owned(), json!("no"))];
    };
    let place = object.at("choices");
    if list.is_empty() {
        object.invalid("choices", "must hold at least one choice", report);
    }
    let mut values = HashSet::new();
    let mut choices = Vec::new();
    for (i, choice) in list.iter().enumerate() {
        let Some(choice) = Object::open(choice, &shape::CHOICE, element(&place, i), report) else { continue };
        let label = choice.required_text("label", report);
        let Some(value) = choice.get("value") else {
            choice.missing("value", report);
            continue;
        };
        if !values.insert(json::canonical(value)) {
            choice.invalid("value", "must be unique among the choices", report);
        }
        choices.extend(label.map(|label| (label.to_owned(), value.clone())));
    }
    choices
}
