//! What a caller sees of a refusal: the way back from a status to its parts. For the command line and worker SDKs.

use std::{collections::BTreeMap, error::Error, fmt, time::Duration};

use orch8_model::FieldProblem;
use tonic::{Status, TimeoutExpired};
use tonic_types::StatusExt;

pub use orch8_model::Reason;
pub use tonic::Code;

use crate::status::DOMAIN;

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The gRPC code.
    pub code: Code,
    /// `ErrorInfo.reason`; empty when the answer is not ours (a proxy, an unreachable server).
    pub reason: String,
    /// For people.
    pub message: String,
    /// Which fields are wrong.
    pub fields: Vec<FieldProblem>,
    /// More facts: the existing id, the limit.
    pub metadata: BTreeMap<String, String>,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// The reason, when this build knows it.
    pub fn known(&self) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.as_str() == self.reason)
    }

    /// What this side found wrong by itself: no answer of a server.
    pub fn here(code: Code, why: impl Into<String>) -> Self {
        Self {
            code,
            reason: String::new(),
            message: why.into(),
            fields: Vec::new(),
            metadata: BTreeMap::new(),
            retry_after: None,
        }
    }

    /// Whether the same request may work later, without any change.
    pub fn may_pass(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::ResourceExhausted)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN).cloned();
        let (reason, metadata) = info.map(|info| (info.reason, info.metadata)).unwrap_or_default();
        let fields = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
        let retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
        Failure {
            code: if gave_up(&status) { Code::DeadlineExceeded } else { status.code() },
            reason,
            message: status.message().to_owned(),
            fields: fields
                .into_iter()
                .map(|f| FieldProblem { field: f.field, code: f.reason, description: f.description })
                .collect(),
            metadata: metadata.into_iter().collect(),
            retry_after,
        }
    }
}

/// Whether our own side stopped waiting; tonic calls that CANCELLED.
fn gave_up(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<TimeoutExpired>() {
            return true;
        }
        cause = error.source();
    }
    false
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.reason.is_empty() { self.code.description() } else { &self.reason };
        write!(f, "{name}: {}", self.message)
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_ours_has_no_reason() {
        let failure = Failure::from(Status::new(Code::Unavailable, "tcp connect error"));
        assert_eq!((failure.known(), failure.reason.as_str()), (None, ""));
        assert!(failure.may_pass());
        assert!(failure.to_string().contains("tcp connect error"));
    }

    #[test]
    fn garbage_in_the_details_is_ignored() {
        let status = Status::with_details(Code::NotFound, "no", bytes::Bytes::from_static(&[0xff; 40]));
        assert_eq!(Failure::from(status).reason, "");
    }
}
