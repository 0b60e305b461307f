//! Codes of what publishing says, beside the reasons of [`orch8_model::Reason`]: one list, so that a reader of an
//! answer can look each of them up.

/// Problem: known to the language, not run by this version. Refused, because it would silently never run.
pub const NOT_IN_THIS_VERSION: &str = "NOT_IN_THIS_VERSION";

/// Warning: an accepted spelling of a canonical field.
pub const SPELLING: &str = "SPELLING";
/// Warning: a key that means nothing here; kept and ignored.
pub const UNKNOWN_FIELD: &str = "UNKNOWN_FIELD";
/// Warning: the handler looks like a misspelt built-in; it will wait for a worker of that very name.
pub const UNKNOWN_HANDLER: &str = "UNKNOWN_HANDLER";
/// Warning: the step fails permanently with `HANDLER_NOT_SUPPORTED` when reached.
pub const HANDLER_NOT_IN_THIS_VERSION: &str = "HANDLER_NOT_IN_THIS_VERSION";
/// Warning: `when` does not parse; the step fails permanently with `EXPRESSION_SYNTAX` when reached.
pub const WHEN_SYNTAX: &str = "WHEN_SYNTAX";
/// Warning: the first name of a path in a template is no known root; the step fails with `TEMPLATE_UNKNOWN_ROOT`.
pub const UNKNOWN_ROOT: &str = "UNKNOWN_ROOT";
/// Warning: a word behind a value in a template is no filter; it is ignored.
pub const UNKNOWN_FILTER: &str = "UNKNOWN_FILTER";
/// Warning: `{{}}` is literal text.
pub const EMPTY_TEMPLATE: &str = "EMPTY_TEMPLATE";
/// Warning: `{{` without `}}` is literal text.
pub const UNCLOSED_TEMPLATE: &str = "UNCLOSED_TEMPLATE";
/// Warning: a path to the output of a block that does not exist.
pub const UNKNOWN_BLOCK: &str = "UNKNOWN_BLOCK";
/// Warning: a single name compared with a path stands for its own spelling when nothing resolves it.
pub const BARE_WORD: &str = "BARE_WORD";
/// Warning: a duration of 1000 or more written with a fraction is seconds, not milliseconds.
pub const FLOAT_DURATION: &str = "FLOAT_DURATION";
/// Warning: a branch of a parallel without blocks.
pub const EMPTY_BRANCH: &str = "EMPTY_BRANCH";
/// Warning: a route without blocks.
pub const EMPTY_ROUTE: &str = "EMPTY_ROUTE";
/// Warning: an empty catch swallows every error.
pub const EMPTY_CATCH: &str = "EMPTY_CATCH";
/// Warning: a limit that can never act, because another one is shorter.
pub const TIMEOUT_OVER_DEADLINE: &str = "TIMEOUT_OVER_DEADLINE";
/// Warning: blocks behind an unconditional `fail`.
pub const UNREACHABLE_BLOCKS: &str = "UNREACHABLE_BLOCKS";
/// Warning: a built-in lacks a required param; the step fails permanently with `INVALID_PARAMS` when reached.
pub const MISSING_PARAMS: &str = "MISSING_PARAMS";
/// Warning: params of `transform` that look like an evaluation but are passed through as they are.
pub const TRANSFORM_AS_IS: &str = "TRANSFORM_AS_IS";
/// Warning: a local time that cannot be used; the delay is its `duration`.
pub const INVALID_LOCAL_TIME: &str = "INVALID_LOCAL_TIME";
/// Warning: a time zone that is not in the IANA list; the delay is its `duration`.
pub const INVALID_TIMEZONE: &str = "INVALID_TIMEZONE";
/// Warning: a field that does nothing for this handler or beside these other fields.
pub const NO_EFFECT: &str = "NO_EFFECT";
/// Warning: an escalation handler that is not in-process is recorded and not called.
pub const EXTERNAL_ESCALATION: &str = "EXTERNAL_ESCALATION";
/// Warning: a name that is also a root of the language.
pub const ROOT_NAME: &str = "ROOT_NAME";
