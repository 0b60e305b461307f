//! What can go wrong at an edge, as one closed list. `proto` maps it to a gRPC status in one file; nobody else does.
//!
//! Use a [`Fault`] wherever the caller of an RPC has to be told something. Use [`crate::StepError`] for what happens
//! *inside* a workflow. Errors of a room (a store, a socket) stay in their own enum and become a fault at the door,
//! where they are also logged.

use std::{fmt, time::Duration};

/// Which gRPC status a reason belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    FailedPrecondition,
    Aborted,
    Unavailable,
    ResourceExhausted,
    PermissionDenied,
    Unauthenticated,
    Internal,
}

macro_rules! reasons {
    ($($name:ident $text:literal $class:ident,)*) => {
        /// Stable reason of a fault; its text is `ErrorInfo.reason` on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason { $(
            #[doc = $text]
            $name,
        )* }

        impl Reason {
            /// Every reason, for tables and tests.
            pub const ALL: &[Reason] = &[$(Reason::$name),*];

            /// The text on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$name => $text,)* }
            }

            /// The status it belongs to.
            pub fn class(self) -> StatusClass {
                match self { $(Reason::$name => StatusClass::$class,)* }
            }
        }
    };
}

reasons! {
    InvalidJson "INVALID_JSON" InvalidArgument,
    JsonNul "JSON_NUL" InvalidArgument,
    JsonDepth "JSON_DEPTH" InvalidArgument,
    JsonDuplicateKey "JSON_DUPLICATE_KEY" InvalidArgument,
    JsonNumber "JSON_NUMBER" InvalidArgument,
    TooLarge "TOO_LARGE" InvalidArgument,
    InvalidField "INVALID_FIELD" InvalidArgument,
    ExpressionSyntax "EXPRESSION_SYNTAX" InvalidArgument,
    InputSchema "INPUT_SCHEMA" InvalidArgument,
    BadPageToken "BAD_PAGE_TOKEN" InvalidArgument,
    NotFound "NOT_FOUND" NotFound,
    TenantNotPlaced "TENANT_NOT_PLACED" NotFound,
    SequenceExists "SEQUENCE_EXISTS" AlreadyExists,
    IdempotencyMismatch "IDEMPOTENCY_MISMATCH" AlreadyExists,
    AlreadyExists "ALREADY_EXISTS" AlreadyExists,
    InstanceTerminal "INSTANCE_TERMINAL" FailedPrecondition,
    IllegalTransition "ILLEGAL_TRANSITION" FailedPrecondition,
    StaleLease "STALE_LEASE" FailedPrecondition,
    StoreUnsupported "STORE_UNSUPPORTED" FailedPrecondition,
    VersionConflict "VERSION_CONFLICT" Aborted,
    TenantMoving "TENANT_MOVING" Unavailable,
    ShardMoving "SHARD_MOVING" Unavailable,
    Draining "DRAINING" Unavailable,
    StoreUnavailable "STORE_UNAVAILABLE" Unavailable,
    QuotaExceeded "QUOTA_EXCEEDED" ResourceExhausted,
    InboxFull "INBOX_FULL" ResourceExhausted,
    Overloaded "OVERLOADED" ResourceExhausted,
    TenantMismatch "TENANT_MISMATCH" PermissionDenied,
    RoleMissing "ROLE_MISSING" PermissionDenied,
    CredentialInvalid "CREDENTIAL_INVALID" Unauthenticated,
    Internal "INTERNAL" Internal,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// Proto field path, or a JSON pointer inside a payload field: `data`, `document/blocks/0/id`.
    pub field: String,
    /// Stable code of this problem; for most fields the reason itself.
    pub code: String,
    /// What is wrong and what the limit is.
    pub description: String,
}

/// What the caller is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub reason: Reason,
    /// Public text, chosen; never the text of a database or a library.
    pub message: String,
    /// Which fields are wrong; at most [`crate::limits::PROBLEMS_MAX`].
    pub fields: Vec<FieldProblem>,
    /// More facts: the existing id, the limit.
    pub metadata: Vec<(&'static str, String)>,
    /// When to try again, for `UNAVAILABLE` and `RESOURCE_EXHAUSTED`.
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// A fault with a public sentence.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), fields: Vec::new(), metadata: Vec::new(), retry_after: None }
    }

    /// One wrong field.
    pub fn field(reason: Reason, field: impl Into<String>, description: impl fmt::Display) -> Self {
        let field = field.into();
        let description = description.to_string();
        let mut fault = Self::new(reason, format!("{field} {description}"));
        fault.fields.push(FieldProblem { field, code: reason.as_str().to_owned(), description });
        fault
    }

    /// A wrong field without a more telling reason.
    pub fn invalid(field: impl Into<String>, description: impl fmt::Display) -> Self {
        Self::field(Reason::InvalidField, field, description)
    }

    /// A field that is too large: names size and limit, in bytes or items.
    pub fn too_large(field: impl Into<String>, size: usize, limit: usize, unit: &str) -> Self {
        Self::field(Reason::TooLarge, field, format_args!("has {size} {unit}, at most {limit} are allowed"))
            .with("size", size)
            .with("limit", limit)
    }

    /// Missing or not yours: the same bytes, whatever `what` was.
    pub fn not_found() -> Self {
        Self::new(Reason::NotFound, "not found")
    }

    /// Adds a fact.
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// Says when to try again.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.message)
    }
}

impl std::error::Error for Fault {}
