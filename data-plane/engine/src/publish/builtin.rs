//! Built-in handlers: what can be said of their params before anything runs.
//!
//! A param that holds a template is not judged here: only the run knows its value.

use std::{borrow::Cow, sync::Arc};

use orch8_model::{HandlerName, limits::DURATION_MS_MAX};
use serde_json::{Map, Value};

use super::{
    code,
    object::{duration, kind_of},
    report::{Report, member, quote},
    target,
    texts::{Texts, is_dynamic},
};
use crate::{nearest::nearest, program::Handler};

/// A handler that runs in-process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltIn {
    Noop,
    Log,
    Sleep,
    Fail,
    Transform,
    Assert,
}

const NAMED: &[(&str, BuiltIn)] = &[
    ("noop", BuiltIn::Noop),
    ("log", BuiltIn::Log),
    ("sleep", BuiltIn::Sleep),
    ("fail", BuiltIn::Fail),
    ("transform", BuiltIn::Transform),
    ("assert", BuiltIn::Assert),
];

const LOG_LEVELS: &[&str] = &["debug", "info", "warn"];

impl BuiltIn {
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, built_in)| *built_in)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }
}

/// Judges the params of a built-in. Answers the handler, and the params that are rendered at run time.
pub(super) fn read<'d>(
    built_in: BuiltIn,
    params: &'d Value,
    place: &str,
    texts: &Texts<'_>,
    report: &mut Report,
) -> (Option<Handler>, Cow<'d, Value>) {
    let handler = match built_in {
        BuiltIn::Noop => Some(Handler::Noop),
        BuiltIn::Log => {
            log(params, place, report);
            Some(Handler::Log)
        }
        BuiltIn::Sleep => {
            sleep(params, place, report);
            Some(Handler::Sleep)
        }
        BuiltIn::Fail => {
            fail(params, place, report);
            Some(Handler::Fail)
        }
        BuiltIn::Transform => return transform(params, place, texts, report),
        BuiltIn::Assert => return assert(params, place, texts, report),
    };
    (handler, Cow::Borrowed(params))
}

fn log(params: &Value, place: &str, report: &mut Report) {
    let Some(map) = members("log", &["message", "level"], params, place, report) else { return };
    if let Some(level) = literal(map, "level")
        && !level.as_str().is_some_and(|level| LOG_LEVELS.contains(&level))
    {
        report.invalid(member(place, "level"), format!("level must be one of {}", LOG_LEVELS.join(", ")));
    }
}

fn sleep(params: &Value, place: &str, report: &mut Report) {
    let Some(map) = members("sleep", &["duration_ms", "duration"], params, place, report) else { return };
    let given = |key| map.get(key).is_some_and(|value| !value.is_null());
    if given("duration_ms") && given("duration") {
        let message = "duration and duration_ms are two ways to say one thing; give one of the two";
        report.invalid(member(place, "duration"), message);
    }
    if let Some(value) = literal(map, "duration_ms")
        && !value.as_i64().is_some_and(|ms| (0..=DURATION_MS_MAX).contains(&ms))
    {
        let message = format!("duration_ms must be an integer from 0 to {DURATION_MS_MAX} (10 years)");
        report.invalid(member(place, "duration_ms"), message);
    }
    if let Some(value) = literal(map, "duration") {
        duration(value, "duration", &member(place, "duration"), report);
    }
}

fn fail(params: &Value, place: &str, report: &mut Report) {
    let known = ["message", "retryable", "code", "details"];
    let Some(map) = members("fail", &known, params, place, report) else { return };
    if let Some(value) = literal(map, "message")
        && !value.is_string()
    {
        report.invalid(member(place, "message"), format!("message must be text, not {}", kind_of(value)));
    }
    if let Some(value) = literal(map, "retryable")
        && !value.is_boolean()
    {
        let message = format!("retryable must be true or false, not {}", kind_of(value));
        report.invalid(member(place, "retryable"), message);
    }
    if let Some(value) = literal(map, "code") {
        // An error code is a name like any other: short, and printable in one line.
        match value.as_str().map(HandlerName::parse) {
            Some(Ok(_)) => {}
            Some(Err(problem)) => report.invalid(member(place, "code"), format!("code {problem}")),
            None => {
                report.invalid(member(place, "code"), format!("code must be text, not {}", kind_of(value)))
            }
        }
    }
}

/// Exactly `expression` and `target` are an evaluation; anything else is passed through.
fn transform<'d>(
    params: &'d Value,
    place: &str,
    texts: &Texts<'_>,
    report: &mut Report,
) -> (Option<Handler>, Cow<'d, Value>) {
    let as_is = (Some(Handler::Transform(None)), Cow::Borrowed(params));
    let Some(map) = params.as_object() else { return as_is };
    let (Some(expression), Some(path)) = (map.get("expression"), map.get("target")) else {
        if map.contains_key("expression") {
            let message = "without target beside expression nothing is evaluated: the output is the params";
            report.warn(code::TRANSFORM_AS_IS, place, message);
        }
        return as_is;
    };
    if map.len() > 2 {
        let message = "with more than expression and target nothing is evaluated: the output is the params";
        report.warn(code::TRANSFORM_AS_IS, place, message);
        return as_is;
    }
    let at = member(place, "expression");
    let expression = verbatim(expression, "expression", &at, report)
        .and_then(|text| texts.expression(text, "expression", &at, report));
    let at = member(place, "target");
    let path = verbatim(path, "target", &at, report).and_then(|text| target::read(text, &at, report));
    (expression.zip(path).map(|parts| Handler::Transform(Some(parts))), Cow::Owned(Value::Null))
}

/// `condition` is taken verbatim; what is left of the params is rendered.
fn assert<'d>(
    params: &'d Value,
    place: &str,
    texts: &Texts<'_>,
    report: &mut Report,
) -> (Option<Handler>, Cow<'d, Value>) {
    let known = ["condition", "message"];
    let map = members("assert", &known, params, place, report);
    let Some((map, condition)) = map.and_then(|map| Some((map, map.get("condition")?))) else {
        let message = "assert needs condition; the step will fail with INVALID_PARAMS";
        report.warn(code::MISSING_PARAMS, place, message);
        let handler = Handler::Invalid { name: "assert".into(), message: "condition is required".into() };
        return (Some(handler), Cow::Borrowed(params));
    };
    let at = member(place, "condition");
    let text = verbatim(condition, "condition", &at, report);
    let condition = text.and_then(|text| texts.expression(text, "condition", &at, report));
    let text: Arc<str> = text.unwrap_or_default().into();
    let rest = map.iter().filter(|(key, _)| *key != "condition");
    let rest = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    (condition.map(|condition| Handler::Assert { text, condition }), Cow::Owned(Value::Object(rest)))
}

/// The members of literal params. `None` when there are none, or when only the run knows them.
fn members<'d>(
    handler: &str,
    known: &[&'static str],
    params: &'d Value,
    place: &str,
    report: &mut Report,
) -> Option<&'d Map<String, Value>> {
    if params.is_null() || is_dynamic(params) {
        return None;
    }
    let Some(map) = params.as_object() else {
        report.invalid(place, format!("params of {handler} must be an object, not {}", kind_of(params)));
        return None;
    };
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        let meant = nearest(key, known.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        let message = format!("{} is no param of {handler} and is ignored{meant}", quote(key));
        report.warn(code::UNKNOWN_FIELD, member(place, key), message);
    }
    Some(map)
}

/// A member whose value is known before the run. Null is absent.
fn literal<'d>(map: &'d Map<String, Value>, key: &str) -> Option<&'d Value> {
    map.get(key).filter(|value| !value.is_null() && !is_dynamic(value))
}

fn verbatim<'d>(value: &'d Value, field: &str, place: &str, report: &mut Report) -> Option<&'d str> {
    if value.as_str().is_none() {
        report.invalid(place, format!("{field} must be text, not {}", kind_of(value)));
    }
    value.as_str()
}
