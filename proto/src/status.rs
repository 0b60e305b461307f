//! `Fault` → `tonic::Status`: the one place that chooses codes and writes error details.
//!
//! Details travel in HTTP/2 trailers, and common clients drop an answer whose header list passes 8 KiB. So everything
//! variable is cut to a budget here, and what was left out is counted; an answer that is too long to be read is none.

use std::{collections::HashMap, time::Duration};

use orch8_model::{Fault, FieldProblem, Reason, StatusClass, limits::REQUEST_BYTES_MAX};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// `ErrorInfo.domain` of every fault.
pub const DOMAIN: &str = "orch8";
/// What callers read when something broke inside; the cause is in the log.
pub const INTERNAL_TEXT: &str = "internal error";
/// Metadata key: how many field problems did not fit.
pub const PROBLEMS_OMITTED: &str = "problems_omitted";

/// Told when a fault that may pass says nothing itself.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);
/// Sent twice, once percent-encoded (three bytes for one): 4 × 400 of the 8 KiB.
const MESSAGE_BYTES_MAX: usize = 400;
/// Field problems, before base64 (four bytes for three): 8 KiB minus message, metadata and fixed headers.
const FIELDS_BYTES_MAX: usize = 2_600;
/// A field path; names are 256 bytes, so a path of a few segments fits.
const FIELD_BYTES_MAX: usize = 512;
/// What is wrong with a field.
const DESCRIPTION_BYTES_MAX: usize = 512;
/// All values of the metadata together.
const METADATA_BYTES_MAX: usize = 800;
/// Tags and lengths around one field problem.
const VIOLATION_OVERHEAD: usize = 16;

/// The status a caller receives: code by [`Reason::class`], `ErrorInfo` always, `BadRequest` when fields are wrong,
/// `RetryInfo` when trying again can help. For use as `.map_err(status::of)`.
pub fn of(fault: Fault) -> Status {
    let class = fault.reason.class();
    if class == StatusClass::Internal {
        return write(Code::Internal, Fault::new(Reason::Internal, INTERNAL_TEXT), None);
    }
    let retry = match class {
        StatusClass::Unavailable | StatusClass::ResourceExhausted => {
            Some(fault.retry_after.unwrap_or(RETRY_AFTER_DEFAULT))
        }
        StatusClass::InvalidArgument
        | StatusClass::NotFound
        | StatusClass::AlreadyExists
        | StatusClass::FailedPrecondition
        | StatusClass::Aborted
        | StatusClass::PermissionDenied
        | StatusClass::Unauthenticated
        | StatusClass::Internal => None,
    };
    write(code(class), fault, retry)
}

/// The caller's own deadline passed before there was an answer.
pub fn deadline_exceeded() -> Status {
    Status::new(Code::DeadlineExceeded, "the deadline of the request has passed")
}

/// No method of ours has this path.
pub fn unknown_method() -> Status {
    Status::new(Code::Unimplemented, "unknown method")
}

/// One of ours, but of the other kind of process.
pub fn not_served_here() -> Status {
    Status::new(
        Code::Unimplemented,
        "not served here: tenants, keys, placements and the fleet are the control plane's, the rest the data planes'",
    )
}

/// The status that an answer carries in its headers; `None` when it has a body to read first.
pub fn read(headers: &http::HeaderMap) -> Option<Status> {
    Status::from_header_map(headers)
}

/// Our status for one that the transport made of a request it could not read; `None` when it may pass as it is. Also
/// for the errors of a stream of requests.
pub fn of_transport(said: &Status) -> Option<Status> {
    unreadable(said).map(of)
}

/// Why a frame of a stream of requests could not be read; `None` when the stream broke and nobody is to blame.
pub fn unreadable_frame(said: &Status) -> Option<Fault> {
    // What the connection did has a source; what the message was has none.
    std::error::Error::source(said).is_none().then(|| unreadable(said)).flatten()
}

fn unreadable(said: &Status) -> Option<Fault> {
    if !said.details().is_empty() {
        return None;
    }
    let limit = REQUEST_BYTES_MAX;
    match said.code() {
        Code::Internal | Code::Unknown | Code::DataLoss => {
            Some(Fault::new(Reason::InvalidField, "the request is not a well-formed message"))
        }
        Code::OutOfRange | Code::ResourceExhausted => {
            let text = format!("the request is too large, at most {limit} bytes are allowed");
            Some(Fault::new(Reason::TooLarge, text).with("limit", limit))
        }
        Code::Ok
        | Code::Cancelled
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unimplemented
        | Code::Unavailable
        | Code::Unauthenticated => None,
    }
}

/// The gRPC code of a class.
pub fn code(class: StatusClass) -> Code {
    match class {
        StatusClass::InvalidArgument => Code::InvalidArgument,
        StatusClass::NotFound => Code::NotFound,
        StatusClass::AlreadyExists => Code::AlreadyExists,
        StatusClass::FailedPrecondition => Code::FailedPrecondition,
        StatusClass::Aborted => Code::Aborted,
        StatusClass::Unavailable => Code::Unavailable,
        StatusClass::ResourceExhausted => Code::ResourceExhausted,
        StatusClass::PermissionDenied => Code::PermissionDenied,
        StatusClass::Unauthenticated => Code::Unauthenticated,
        StatusClass::Internal => Code::Internal,
    }
}

fn write(code: Code, fault: Fault, retry: Option<Duration>) -> Status {
    let total = fault.fields.len();
    let violations = violations(fault.fields);
    let mut metadata = metadata(fault.metadata);
    if violations.len() < total {
        metadata.insert(PROBLEMS_OMITTED.to_owned(), (total - violations.len()).to_string());
    }

    let mut details = ErrorDetails::new();
    details.set_error_info(fault.reason.as_str(), DOMAIN, metadata);
    if !violations.is_empty() {
        details.set_bad_request(violations);
    }
    if let Some(after) = retry {
        details.set_retry_info(Some(after));
    }
    Status::with_error_details(code, cut(&fault.message, MESSAGE_BYTES_MAX), details)
}

/// The problems that fit, first come first.
fn violations(problems: Vec<FieldProblem>) -> Vec<FieldViolation> {
    let mut left = FIELDS_BYTES_MAX;
    let mut kept = Vec::new();
    for problem in problems {
        let field = cut(&problem.field, FIELD_BYTES_MAX);
        let description = cut(&problem.description, DESCRIPTION_BYTES_MAX);
        let size = VIOLATION_OVERHEAD + field.len() + description.len() + problem.code.len();
        let Some(rest) = left.checked_sub(size) else { break };
        left = rest;
        kept.push(FieldViolation { field, description, reason: problem.code, localized_message: None });
    }
    kept
}

fn metadata(facts: Vec<(&'static str, String)>) -> HashMap<String, String> {
    let mut left = METADATA_BYTES_MAX;
    let mut kept = HashMap::new();
    for (key, value) in facts {
        let value = cut(&value, left.saturating_sub(key.len()));
        left = left.saturating_sub(key.len() + value.len());
        kept.insert(key.to_owned(), value);
    }
    kept
}

/// At most `max` bytes; longer text ends in `…`.
fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::client::Failure;

    #[test]
    fn every_reason_arrives_as_itself_and_only_internal_is_internal() {
        for reason in Reason::ALL {
            let status = of(Fault::new(*reason, "said"));
            assert_ne!(status.code(), Code::Unknown, "{reason:?}");
            assert_eq!(status.code() == Code::Internal, *reason == Reason::Internal, "{reason:?}");
            let failure = Failure::from(status);
            assert_eq!(failure.known(), Some(*reason));
            assert_eq!(failure.code, code(reason.class()));
            let may_pass =
                matches!(reason.class(), StatusClass::Unavailable | StatusClass::ResourceExhausted);
            assert_eq!(failure.retry_after.is_some(), may_pass, "{reason:?}");
        }
    }

    #[test]
    fn nothing_of_an_internal_fault_is_told() {
        let fault = Fault::field(Reason::Internal, "dsn", "postgres://user:secret@host").with("sql", "DROP");
        let status = of(fault);
        assert_eq!(status.message(), INTERNAL_TEXT);
        let failure = Failure::from(status);
        assert!(failure.fields.is_empty() && failure.metadata.is_empty());
    }

    #[test]
    fn field_and_limit_arrive() {
        let failure = Failure::from(of(Fault::too_large("display_name", 300, 256, "bytes")));
        assert_eq!(failure.fields[0].field, "display_name");
        assert_eq!(failure.fields[0].code, "TOO_LARGE");
        assert_eq!(failure.metadata["limit"], "256");
        assert_eq!(failure.metadata["size"], "300");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// 8 KiB is what grpcio and grpc-java accept by default.
        #[test]
        fn trailers_stay_readable_whatever_the_fault_holds(
            message in ".{0,3000}",
            fields in prop::collection::vec((".{0,900}", ".{0,900}"), 0..100),
            fact in ".{0,2000}",
        ) {
            let mut fault = Fault::new(Reason::InvalidField, message).with("existing", fact);
            fault.fields = fields
                .iter()
                .map(|(field, description)| FieldProblem {
                    field: field.clone(),
                    code: "INVALID_FIELD".to_owned(),
                    description: description.clone(),
                })
                .collect();
            let status = of(fault);
            let mut headers = http::HeaderMap::new();
            status.add_header(&mut headers).expect("a status is a header");
            let bytes: usize = headers.iter().map(|(k, v)| k.as_str().len() + v.len() + 32).sum();
            prop_assert!(bytes < 8 << 10, "{bytes}");

            let failure = Failure::from(status);
            let omitted = failure.metadata.get(PROBLEMS_OMITTED).map_or(0, |n| n.parse().expect("a number"));
            prop_assert_eq!(failure.fields.len() + omitted, fields.len());
        }
    }
}
