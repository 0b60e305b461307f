//! The fields of blocks that hold blocks.

use orch8_model::limits::ITERATIONS_MAX;

use super::{
    code,
    object::{Object, seconds},
    outline::{Entry, Form},
    report::{Report, quote},
    step,
    target::ROOTS,
    texts::Texts,
};
use crate::program::{BodyIx, ForEach, Kind, Loop};

const ITERATIONS: u32 = 1_000;
const CONCURRENCY_MAX: u32 = 100;
/// The item variable of a for_each that names none.
pub(super) const ITEM_VAR: &str = "item";
const ON_MAX_ITERATIONS: &[&str] = &["complete", "fail"];

/// Reads the fields of a block whose bodies are known. `None`: something was reported.
pub(super) fn read(entry: &Entry<'_>, texts: &Texts<'_>, report: &mut Report) -> Option<Kind> {
    let object = &entry.object;
    match &entry.form {
        Form::Step => step::read(object, texts, report).map(|step| Kind::Step(Box::new(step))),
        Form::Parallel { branches } => Some(Kind::Parallel {
            branches: branches.clone(),
            fail_fast: object.flag("fail_fast", false, report),
        }),
        Form::Router { routes, default } => router(routes, *default, texts, report),
        Form::TryCatch { try_, catch, finally } => {
            Some(Kind::TryCatch { try_: *try_, catch: *catch, finally: *finally })
        }
        Form::Loop { body } => repeated(object, *body, texts, report),
        Form::ForEach { body } => for_each(object, *body, texts, report),
    }
}

fn router(
    routes: &[(Object<'_>, BodyIx)],
    default: Option<BodyIx>,
    texts: &Texts<'_>,
    report: &mut Report,
) -> Option<Kind> {
    let read = routes.iter().map(|(route, body)| (texts.required(route, "condition", report), *body));
    let read: Vec<_> = read.collect();
    let routes = read.into_iter().map(|(condition, body)| Some((condition?, body)));
    Some(Kind::Router { routes: routes.collect::<Option<_>>()?, default })
}

fn repeated(object: &Object<'_>, body: BodyIx, texts: &Texts<'_>, report: &mut Report) -> Option<Kind> {
    let condition = texts.required(object, "condition", report);
    let poll = object.optional("poll_interval");
    let read = Loop {
        break_on: texts.optional(object, "break_on", report),
        body,
        max_iterations: max_iterations(object, report),
        continue_on_error: object.flag("continue_on_error", false, report),
        poll_ms: poll.and_then(|v| seconds(v, "poll_interval", &object.at("poll_interval"), report)),
        retain_iterations: object.integer("retain_iterations", 0..=u32::MAX, report).unwrap_or(0),
        fail_on_max: object.word("on_max_iterations", ON_MAX_ITERATIONS, report) == 1,
        condition: condition?,
    };
    Some(Kind::Loop(Box::new(read)))
}

fn for_each(object: &Object<'_>, body: BodyIx, texts: &Texts<'_>, report: &mut Report) -> Option<Kind> {
    let collection = texts.collection(object, report);
    let read = ForEach {
        item_var: item_var(object, report).into(),
        body,
        max_iterations: max_iterations(object, report),
        concurrency: object.integer("concurrency", 1..=CONCURRENCY_MAX, report).unwrap_or(1),
        continue_on_error: object.flag("continue_on_error", false, report),
        retain_iterations: object.integer("retain_iterations", 0..=u32::MAX, report).unwrap_or(0),
        fail_on_max: object.word("on_max_iterations", ON_MAX_ITERATIONS, report) == 1,
        collection: collection?,
    };
    Some(Kind::ForEach(Box::new(read)))
}

fn max_iterations(object: &Object<'_>, report: &mut Report) -> u32 {
    object.integer("max_iterations", 1..=ITERATIONS_MAX, report).unwrap_or(ITERATIONS)
}

fn item_var<'d>(object: &Object<'d>, report: &mut Report) -> &'d str {
    let Some(value) = object.get("item_var") else { return ITEM_VAR };
    let Some(text) = value.as_str().filter(|text| !text.trim().is_empty()) else {
        object.invalid("item_var", "must be text and not blank", report);
        return ITEM_VAR;
    };
    if let Err(problem) = orch8_model::BlockId::parse(text) {
        object.invalid("item_var", problem, report);
    }
    if ROOTS.contains(&text) {
        let message = format!("item_var {} is also a root: reach the item as data.{text}", quote(text));
        report.warn(code::ROOT_NAME, object.at("item_var"), message);
    }
    text
}
