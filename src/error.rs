//! What a command says when it cannot do its work: a sentence, what to type next, and an exit code.
//!
//! Use [`CliError`] for everything a person at the keyboard can act on. Whatever else breaks travels as an ordinary
//! error and ends as exit code 1.

use std::{fmt, io, process::ExitCode};

use orch8_proto::client::Failure;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::{human, screen::Mode};

/// How a command ends. The numbers are part of the interface; `orch8 --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    /// The work failed, or something broke on this side.
    Failed,
    /// The command line is wrong.
    Usage,
    NotFound,
    /// Invalid, or the state says no.
    Refused,
    /// Not reachable, or no room now.
    Unavailable,
    /// Credential missing, wrong, or without the role.
    Denied,
    InstanceFailed,
    InstanceCancelled,
    /// The time limit passed first.
    TimedOut,
    /// A measurement that says nothing.
    Noisy,
    /// Ctrl-c, as shells count it.
    Interrupted,
}

impl Exit {
    /// All of them, for tables and tests.
    #[cfg(test)]
    pub const ALL: &[Exit] = &[
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::NotFound,
        Exit::Refused,
        Exit::Unavailable,
        Exit::Denied,
        Exit::InstanceFailed,
        Exit::InstanceCancelled,
        Exit::TimedOut,
        Exit::Noisy,
        Exit::Interrupted,
    ];

    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Refused => 4,
            Exit::Unavailable => 5,
            Exit::Denied => 6,
            Exit::InstanceFailed => 10,
            Exit::InstanceCancelled => 11,
            Exit::TimedOut => 12,
            Exit::Noisy => 13,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// A refusal to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliError {
    pub exit: Exit,
    /// `NOT_FOUND`, `INVALID_FIELD`, …; `USAGE` and the like when it arose here.
    pub reason: String,
    pub message: String,
    pub fields: Vec<Field>,
    /// What to type or do next.
    pub hint: Option<String>,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub description: String,
}

impl CliError {
    pub fn new(exit: Exit, reason: &str, message: impl Into<String>) -> Self {
        Self { exit, reason: reason.to_owned(), message: message.into(), fields: Vec::new(), hint: None }
    }

    /// The command line asks for something that makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        Failure::from(status).into()
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        let (exit, name, advice) = judge(failure.code);
        let reason = if failure.reason.is_empty() { name } else { &failure.reason };
        let mut error = Self::new(exit, reason, failure.message);
        error.fields = failure
            .fields
            .into_iter()
            .map(|problem| Field { name: problem.field, description: problem.description })
            .collect();
        error.hint = match failure.retry_after {
            Some(after) => Some(format!("try again in {}", human::duration(after))),
            None => advice.map(str::to_owned),
        };
        error
    }
}

/// Exit code, name and advice of a status without better details.
fn judge(code: Code) -> (Exit, &'static str, Option<&'static str>) {
    match code {
        Code::NotFound => (
            Exit::NotFound,
            "NOT_FOUND",
            Some("missing and not yours answer the same: see `orch8 instance list`, `orch8 sequence list`"),
        ),
        Code::InvalidArgument | Code::OutOfRange => (Exit::Refused, "INVALID_ARGUMENT", None),
        Code::FailedPrecondition => (Exit::Refused, "FAILED_PRECONDITION", None),
        Code::AlreadyExists => (Exit::Refused, "ALREADY_EXISTS", None),
        Code::Aborted => {
            (Exit::Refused, "ABORTED", Some("somebody else was faster: read again, then repeat"))
        }
        Code::Unavailable => (
            Exit::Unavailable,
            "UNAVAILABLE",
            Some("is it running? `orch8 dev` starts one here; --address names another"),
        ),
        Code::ResourceExhausted => (Exit::Unavailable, "RESOURCE_EXHAUSTED", Some("try again later")),
        Code::DeadlineExceeded => (Exit::TimedOut, "DEADLINE_EXCEEDED", None),
        Code::Unauthenticated => {
            (Exit::Denied, "UNAUTHENTICATED", Some("give a valid key with --key-file or ORCH8_KEY_FILE"))
        }
        Code::PermissionDenied => (
            Exit::Denied,
            "PERMISSION_DENIED",
            Some("this key has not the role, or speaks for another tenant"),
        ),
        Code::Unimplemented => (
            Exit::Refused,
            "UNIMPLEMENTED",
            Some("or the server is older than this command; compare `orch8 --version`"),
        ),
        Code::Ok | Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            (Exit::Failed, "INTERNAL", None)
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&human::foreign(&self.message, MESSAGE_CHARS_MAX))?;
        // One wrong field is often the whole message.
        for field in self.fields.iter().filter(|field| !self.message.ends_with(&field.description)) {
            let name = human::foreign(&field.name, 200);
            write!(f, "\n  {name}: {}", human::foreign(&field.description, 500))?;
        }
        Ok(())
    }
}

impl std::error::Error for CliError {}

/// A message longer than this helps nobody on a terminal.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Writes the error to standard error and answers the exit code. A reader that went away (`| head`) is no error.
pub fn report(error: &anyhow::Error, mode: Mode) -> Exit {
    if error.chain().any(is_broken_pipe) {
        return Exit::Ok;
    }
    let exit = match find(error) {
        Some(known) => known.exit,
        None => Exit::Failed,
    };
    let text = match mode {
        Mode::Human => for_people(error),
        Mode::Json => for_scripts(error).to_string(),
    };
    // Standard error closed: nobody is left to be told.
    let _unheard = io::Write::write_all(&mut io::stderr(), format!("{text}\n").as_bytes());
    exit
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The first error in the chain that knows its exit code.
fn find(error: &anyhow::Error) -> Option<CliError> {
    error.chain().find_map(|cause| {
        cause
            .downcast_ref::<CliError>()
            .cloned()
            .or_else(|| cause.downcast_ref::<Status>().cloned().map(CliError::from))
    })
}

fn for_people(error: &anyhow::Error) -> String {
    match find(error) {
        Some(known) => {
            let hint = known.hint.as_ref().map(|hint| format!("\n  → {hint}")).unwrap_or_default();
            format!("orch8: {known}{hint}")
        }
        None => format!("orch8: {}", human::foreign(&format!("{error:#}"), MESSAGE_CHARS_MAX)),
    }
}

fn for_scripts(error: &anyhow::Error) -> Value {
    let known = find(error).unwrap_or_else(|| CliError::new(Exit::Failed, "FAILED", format!("{error:#}")));
    let fields: Vec<Value> = known
        .fields
        .iter()
        .map(|field| json!({ "field": field.name, "description": field.description }))
        .collect();
    json!({ "error": {
        "reason": known.reason,
        "message": known.message,
        "fields": fields,
        "hint": known.hint,
        "exit": known.exit.code(),
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_exit_code() {
        for (code, exit) in [
            (Code::NotFound, 3),
            (Code::InvalidArgument, 4),
            (Code::FailedPrecondition, 4),
            (Code::AlreadyExists, 4),
            (Code::Aborted, 4),
            (Code::Unavailable, 5),
            (Code::ResourceExhausted, 5),
            (Code::Unauthenticated, 6),
            (Code::PermissionDenied, 6),
            (Code::DeadlineExceeded, 12),
            (Code::Internal, 1),
            (Code::Unknown, 1),
        ] {
            assert_eq!(CliError::from(Status::new(code, "x")).exit.code(), exit, "{code:?}");
        }
    }

    #[test]
    fn codes_are_distinct() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }

    #[test]
    fn people_read_fields_and_what_to_do_next() {
        let mut error = CliError::new(Exit::Refused, "INVALID_FIELD", "2 problems").hint("fix them");
        error.fields.push(Field { name: "document/blocks/0/id".into(), description: "is missing".into() });
        error.fields.push(Field { name: "document".into(), description: "2 problems".into() });
        let error = anyhow::Error::from(error).context("publishing");
        assert_eq!(for_people(&error), "orch8: 2 problems\n  document/blocks/0/id: is missing\n  → fix them");
        assert_eq!(
            for_scripts(&error).to_string(),
            r#"{"error":{"reason":"INVALID_FIELD","message":"2 problems","fields":[{"field":"document/blocks/0/id","description":"is missing"},{"field":"document","description":"2 problems"}],"hint":"fix them","exit":4}}"#
        );
    }

    #[test]
    fn a_closed_pipe_ends_quietly() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(report(&error, Mode::Human), Exit::Ok);
    }
}
