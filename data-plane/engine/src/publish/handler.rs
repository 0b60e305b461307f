//! Who runs a step: which names are built in, which belong to a later version. Any other name is a worker's.

use std::borrow::Cow;

use orch8_model::HandlerName;
use serde_json::Value;

use super::{
    builtin::{self, BuiltIn},
    code,
    object::Object,
    report::{Report, quote},
    texts::Texts,
};
use crate::{nearest::nearest, program::Handler, template::Template};

/// (built-in of a later version, what to do instead). Refused: as worker steps they would wait for ever.
const LATER: &[(&str, &str)] = &[
    ("set_state", "write to context.data with a transform step"),
    ("get_state", "read context.data"),
    ("delete_state", "write null to context.data with a transform step"),
    ("merge_state", "write to context.data with a transform step"),
    ("emit_event", "let a worker start the other sequence"),
    ("send_signal", "let a worker send the signal"),
    ("query_instance", "let a worker read the other instance"),
    ("self_modify", "put the blocks into a router or a loop of the document"),
    ("human_review", "use a noop step with wait_for_input"),
    ("wait_for_event", "use a noop step with wait_for_input and answer it by signal"),
    ("http_request", "let a worker make the request"),
    ("llm_call", "let a worker make the call"),
];

/// Schemes of a later version, refused like [`LATER`].
const LATER_SCHEMES: &[(&str, &str)] = &[("grpc://", "run the sidecar's code as a worker")];

/// Known names that no version runs yet: the step fails permanently when reached, and never waits for a worker.
const UNSUPPORTED: &[&str] = &[
    "agent",
    "tool_call",
    "mcp_call",
    "embed",
    "memory_store",
    "memory_search",
    "memory_delete",
    "blob_put",
    "blob_get",
];

/// Like [`UNSUPPORTED`].
const UNSUPPORTED_SCHEMES: &[&str] = &["wasm://", "ap://"];

/// What a handler name is in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    BuiltIn(BuiltIn),
    /// With what to do instead.
    Later(&'static str),
    Unsupported,
    Worker,
}

pub(super) fn standing(name: &str) -> Standing {
    let scheme = |scheme: &str| name.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    if let Some(built_in) = BuiltIn::named(name) {
        return Standing::BuiltIn(built_in);
    }
    if let Some((_, remedy)) = LATER.iter().find(|(later, _)| *later == name) {
        return Standing::Later(remedy);
    }
    if let Some((_, remedy)) = LATER_SCHEMES.iter().find(|(prefix, _)| scheme(prefix)) {
        return Standing::Later(remedy);
    }
    if UNSUPPORTED.contains(&name) || UNSUPPORTED_SCHEMES.iter().any(|prefix| scheme(prefix)) {
        return Standing::Unsupported;
    }
    Standing::Worker
}

/// Every name that is not a worker's: what a misspelt one is compared with.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    let later = LATER.iter().map(|(name, _)| *name);
    BuiltIn::names().chain(later).chain(UNSUPPORTED.iter().copied())
}

/// A handler, and the params that are left to render at run time: texts taken verbatim are not among them.
pub(super) fn read(step: &Object<'_>, texts: &Texts<'_>, report: &mut Report) -> Option<(Handler, Template)> {
    let params = step.get("params").unwrap_or(&Value::Null);
    let place = step.at("params");
    let (handler, params) = match name(step, report) {
        Some(name) => judge(name, params, step, texts, report),
        None => (None, Cow::Borrowed(params)),
    };
    let params = texts.template(&params, "params", &place, report);
    Some((handler?, params?))
}

fn name<'d>(step: &Object<'d>, report: &mut Report) -> Option<&'d str> {
    let name = step.required_text("handler", report)?;
    if let Err(problem) = HandlerName::parse(name) {
        step.invalid("handler", problem, report);
        return None;
    }
    Some(name)
}

fn judge<'d>(
    name: &str,
    params: &'d Value,
    step: &Object<'_>,
    texts: &Texts<'_>,
    report: &mut Report,
) -> (Option<Handler>, Cow<'d, Value>) {
    let at = step.at("handler");
    let handler = match standing(name) {
        Standing::BuiltIn(built_in) => {
            return builtin::read(built_in, params, &step.at("params"), texts, report);
        }
        Standing::Later(remedy) => {
            let message = format!("handler {} is not in this version: {remedy}", quote(name));
            report.problem(code::NOT_IN_THIS_VERSION, at, message);
            None
        }
        Standing::Unsupported => {
            let message = format!("handler {} is not in this version: the step will fail", quote(name));
            report.warn(code::HANDLER_NOT_IN_THIS_VERSION, at, message);
            Some(Handler::Unsupported(name.into()))
        }
        Standing::Worker => {
            warn_if_near_a_known_name(name, at, report);
            Some(Handler::Worker(name.into()))
        }
    };
    (handler, Cow::Borrowed(params))
}

fn warn_if_near_a_known_name(name: &str, at: String, report: &mut Report) {
    let lower = name.trim().to_ascii_lowercase();
    if let Some(meant) = nearest(&lower, known()) {
        let message = format!(
            "handler {} is no built-in and will wait for a worker; did you mean {meant}?",
            quote(name)
        );
        report.warn(code::UNKNOWN_HANDLER, at, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_later_version_never_becomes_a_workers() {
        for name in LATER.iter().map(|(name, _)| *name).chain(["grpc://x", "GRPC://x", "grpc://"]) {
            assert!(matches!(standing(name), Standing::Later(_)), "{name}");
        }
        for name in UNSUPPORTED.iter().copied().chain(["wasm://m", "Wasm://m", "ap://"]) {
            assert_eq!(standing(name), Standing::Unsupported, "{name}");
        }
        for name in ["charge", "memory_", "grpc:/x", "grpc", "ap", "é://", "noop2"] {
            assert_eq!(standing(name), Standing::Worker, "{name}");
        }
    }
}
