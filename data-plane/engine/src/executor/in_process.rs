//! The handlers that run inside a turn. They are pure: a turn that is run again does the same again.

use orch8_model::{
    StepError,
    limits::{CONTEXT_BYTES_MAX, JSON_DEPTH_MAX},
    parse_duration,
};
use serde_json::{Value, json};

use super::{Run, depth::depth, view::Place};
use crate::{
    expr::Expr,
    instance::NodeNo,
    program::{Handler, Step},
    record::Change,
};

/// Pause of a `sleep` without a duration, in milliseconds.
const SLEEP_MS_DEFAULT: i64 = 100;

/// What a handler says.
enum Said {
    Output(Value),
    Failed(StepError),
    SleepFor(i64),
}

impl Run<'_> {
    /// One try of an in-process handler.
    pub(super) fn run_in_process(&mut self, no: NodeNo, step: &Step) {
        let params = match self.frozen_params(no, step) {
            Ok(params) => params,
            Err((code, message)) => return self.refuse_step(no, code, &message),
        };
        let said = match &step.handler {
            Handler::Noop => Said::Output(json!({})),
            Handler::Log => log(&params),
            Handler::Sleep => sleep(&params),
            Handler::Fail => fail(&params),
            Handler::Transform(None) => Said::Output(params.clone()),
            Handler::Transform(Some((expression, target))) => self.transform(no, expression, target),
            Handler::Assert { text, condition } => self.assert(no, text, condition, &params),
            Handler::Invalid { message, .. } => permanent("INVALID_PARAMS", message),
            Handler::Unsupported(name) | Handler::Worker(name) => {
                return self.refuse_step(
                    no,
                    "HANDLER_NOT_SUPPORTED",
                    &format!("there is no handler {name} here"),
                );
            }
        };
        match said {
            Said::Output(output) => drop(self.completed(no, output, false)),
            Said::Failed(error) => {
                self.freeze(no, step, params);
                self.failed(no, error, None, false);
            }
            Said::SleepFor(ms) => {
                self.freeze(no, step, params);
                self.set_timer(no, Change::Sleep(no, self.now.plus(ms)));
            }
        }
    }

    /// The sleep is over.
    pub(super) fn slept(&mut self, no: NodeNo) {
        let Some(step) = self.step_of(no) else { return };
        let ms = match self.frozen_params(no, step).map(|params| sleep(&params)) {
            Ok(Said::SleepFor(ms)) => ms,
            Ok(Said::Output(_) | Said::Failed(_)) | Err(_) => SLEEP_MS_DEFAULT,
        };
        self.completed(no, json!({ "slept_ms": ms }), false);
    }

    /// Keeps the params where they are asked for again: by the next try, or at the end of a sleep.
    fn freeze(&mut self, no: NodeNo, step: &Step, params: Value) {
        let again = step.retry.is_some() || matches!(step.handler, Handler::Sleep);
        if again && self.step_node(no).is_some_and(|step| step.params.is_none()) {
            self.commit(Change::Freeze(no, params));
        }
    }

    fn transform(&mut self, no: NodeNo, expression: &Expr, target: &[std::sync::Arc<str>]) -> Said {
        let value = match self.eval(Place::node(no), expression) {
            Ok(value) => value,
            Err(error) => return permanent(error.code, &error.message),
        };
        let path: Vec<String> = target.iter().map(|key| key.to_string()).collect();
        let shown = path.join(".");
        if depth(&value) + path.len() > JSON_DEPTH_MAX {
            return permanent(
                "INVALID_OUTPUT",
                &format!("data.{shown} would be nested deeper than {JSON_DEPTH_MAX}"),
            );
        }
        match self.instance.state.data.bytes_after_write(&path, &value) {
            Err(at) => {
                let at = path[..=at.0].join(".");
                permanent("INVALID_PARAMS", &format!("data.{at} is not an object"))
            }
            Ok(bytes) => match self.over_context_limit(bytes) {
                Some(message) => permanent("CONTEXT_TOO_LARGE", &message),
                None => {
                    self.commit(Change::Write { path, value: value.clone() });
                    Said::Output(json!({ "target": shown, "value": value }))
                }
            },
        }
    }

    fn assert(&self, no: NodeNo, text: &str, condition: &Expr, params: &Value) -> Said {
        match self.holds(Place::node(no), condition) {
            Err(error) => permanent(error.code, &error.message),
            Ok(true) => Said::Output(json!({ "condition": text, "passed": true })),
            Ok(false) => {
                let message = params.get("message").and_then(Value::as_str);
                permanent("ASSERTION", message.unwrap_or(&format!("does not hold: {text}")))
            }
        }
    }

    /// Both numbers, when `data` of that many bytes would be more than a context may have.
    pub(super) fn over_context_limit(&self, data_bytes: usize) -> Option<String> {
        let bytes = data_bytes + self.instance.config_bytes();
        (bytes > CONTEXT_BYTES_MAX)
            .then(|| format!("the context would have {bytes} bytes, at most {CONTEXT_BYTES_MAX} are allowed"))
    }
}

fn log(params: &Value) -> Said {
    let level = params.get("level").filter(|level| !level.is_null());
    match level.map(Value::as_str) {
        None | Some(Some("debug" | "info" | "warn")) => {}
        Some(Some(_) | None) => return permanent("INVALID_PARAMS", "level must be debug, info or warn"),
    }
    Said::Output(json!({ "message": params.get("message").cloned().unwrap_or_else(|| json!("no message")) }))
}

fn sleep(params: &Value) -> Said {
    let given = |key| params.get(key).filter(|value: &&Value| !value.is_null());
    match (given("duration_ms"), given("duration")) {
        (None, None) => Said::SleepFor(SLEEP_MS_DEFAULT),
        (Some(ms), _) if !ms.is_u64() && !ms.is_i64() => {
            permanent("INVALID_PARAMS", "duration_ms must be a whole number of milliseconds")
        }
        (Some(value), _) => duration("duration_ms", value),
        (None, Some(value)) => duration("duration", value),
    }
}

fn duration(name: &str, value: &Value) -> Said {
    match parse_duration(value) {
        Ok(ms) => Said::SleepFor(ms),
        Err(problem) => permanent("INVALID_PARAMS", &format!("{name} {problem}")),
    }
}

fn fail(params: &Value) -> Said {
    let text = |key, default| match params.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("{key} must be text")),
    };
    let retryable = match params.get("retryable") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(retryable)) => Ok(*retryable),
        Some(_) => Err("retryable must be true or false".to_owned()),
    };
    match (text("message", "forced failure"), text("code", "FORCED"), retryable) {
        (Ok(message), Ok(code), Ok(retryable)) => {
            let details = params.get("details").cloned().unwrap_or(Value::Null);
            Said::Failed(super::outcome::error(code, message, retryable, details))
        }
        (Err(message), _, _) | (_, Err(message), _) | (_, _, Err(message)) => {
            permanent("INVALID_PARAMS", &message)
        }
    }
}

fn permanent(code: &str, message: &str) -> Said {
    Said::Failed(StepError::new(code, message, false, Value::Null))
}
