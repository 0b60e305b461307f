//! How a step fails, and why a worker stops.

use std::{error::Error, fmt, time::Duration};

use orch8_proto::{client::Failure, door, v1};
use serde::Serialize;

/// How a step failed. Any `std::error::Error` becomes a retryable one through `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct StepError {
    message: String,
    code: String,
    details: Option<Vec<u8>>,
    retryable: bool,
    retry_after: Option<Duration>,
}

impl StepError {
    /// Another try may help, if the step's retry policy allows one.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: String::new(),
            details: None,
            retryable: true,
            retry_after: None,
        }
    }

    /// No other try can help.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::retryable(message) }
    }

    /// A stable upper-case code, at most 256 bytes, for `non_retryable_codes` and catch blocks. `FAILED` when not given.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// More facts, as JSON; at most 16 KiB, more is left out. What cannot be serialised is left out too.
    pub fn details(mut self, details: impl Serialize) -> Self {
        self.details = serde_json::to_vec(&details).ok();
        self
    }

    /// No other try before this long; at most 24 h.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Whether another try may help.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    pub(crate) fn into_wire(self) -> v1::TaskFailure {
        v1::TaskFailure {
            message: self.message,
            code: self.code,
            details: self
                .details
                .map(|details| v1::Payload { data: details.into(), content_type: String::new() }),
            retryable: self.retryable,
            retry_after: self.retry_after.map(door::wire_duration),
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// A `StepError` is no `std::error::Error` itself, or this would clash with `From<T> for T`.
impl<E: Error> From<E> for StepError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::retryable(message)
    }
}

/// Why a worker stopped.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A setting that cannot work; nothing was tried.
    #[error("{0}")]
    Setting(String),
    /// The server refused the first session for a reason that time does not heal: the credential, a limit.
    #[error("the server refused this worker: {0}")]
    Refused(Failure),
    /// The drain time passed with steps still running, or results not committed.
    #[error("stopped with {unfinished} steps unfinished: the drain time has passed")]
    Unfinished {
        /// How many.
        unfinished: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn a_foreign_error_is_retryable_and_keeps_its_causes() {
        let error: StepError = Outer(std::fmt::Error).into();
        assert!(error.is_retryable());
        assert!(error.to_string().starts_with("outer: "), "{error}");
    }

    #[test]
    fn everything_said_reaches_the_wire() {
        let error = StepError::permanent("no")
            .code("CARD_DECLINED")
            .details(serde_json::json!({ "bank": 7 }))
            .retry_after(Duration::from_millis(1_500));
        let wire = error.into_wire();
        assert_eq!(
            (wire.message.as_str(), wire.code.as_str(), wire.retryable),
            ("no", "CARD_DECLINED", false)
        );
        assert_eq!(wire.details.map(|d| d.data.to_vec()), Some(br#"{"bank":7}"#.to_vec()));
        assert_eq!(wire.retry_after.map(|d| (d.seconds, d.nanos)), Some((1, 500_000_000)));
    }
}
