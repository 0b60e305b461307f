//! Names: text with a byte limit, without control characters, not only spaces, compared byte for byte.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::limits::NAME_BYTES_MAX;

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// No text at all.
    #[error("must not be empty")]
    Empty,
    /// Nothing but white space.
    #[error("must not be only spaces")]
    Blank,
    /// Longer than the limit; bytes of UTF-8.
    #[error("is {bytes} bytes long, at most {max} are allowed")]
    TooLong {
        /// Length of the text, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// C0, DEL or C1, at this byte offset.
    #[error("has a control character at byte {offset}")]
    Control {
        /// Where.
        offset: usize,
    },
    /// A character outside the allowed set, at this byte offset.
    #[error("may hold only letters, digits, '.', '-' and '_' (byte {offset})")]
    Charset {
        /// Where.
        offset: usize,
    },
}

fn check(text: &str, max: usize) -> Result<(), NameProblem> {
    if text.is_empty() {
        return Err(NameProblem::Empty);
    }
    if text.len() > max {
        return Err(NameProblem::TooLong { bytes: text.len(), max });
    }
    if let Some((offset, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
        return Err(NameProblem::Control { offset });
    }
    if text.trim().is_empty() {
        return Err(NameProblem::Blank);
    }
    Ok(())
}

fn check_label(text: &str, max: usize) -> Result<(), NameProblem> {
    check(text, max)?;
    match text.char_indices().find(|(_, c)| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        Some((offset, _)) => Err(NameProblem::Charset { offset }),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:ident, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses a text. Errors: empty, blank, over the byte limit, control characters.
            pub fn parse(text: &str) -> Result<Self, NameProblem> {
                $check(text, $max)?;
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameProblem;
            fn try_from(text: String) -> Result<Self, NameProblem> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name!(
    /// Whose it is. The boundary of every shared resource.
    TenantId, check, NAME_BYTES_MAX
);
name!(
    /// A drawer within a tenant.
    Namespace, check, NAME_BYTES_MAX
);
name!(
    /// Name of a sequence; its versions share it.
    SequenceName, check, NAME_BYTES_MAX
);
name!(
    /// Name of the code that runs a step.
    HandlerName, check, NAME_BYTES_MAX
);
name!(
    /// Name of a block, unique within its tree.
    BlockId, check, NAME_BYTES_MAX
);
name!(
    /// The sender's own name for a signal; the same id is consumed once.
    SignalId, check, NAME_BYTES_MAX
);
name!(
    /// The caller's own name for a start; the same key starts once.
    IdempotencyKey, check, NAME_BYTES_MAX
);
name!(
    /// What a worker calls itself. Shown to people, never used for fencing.
    WorkerId, check, NAME_BYTES_MAX
);
name!(
    /// A data-plane process.
    NodeName, check, NAME_BYTES_MAX
);
name!(
    /// A store, by name; never an address. Letters, digits, dots, dashes, underscores.
    StoreName, check_label, 128
);

impl Namespace {
    /// The namespace `default`.
    pub fn default_namespace() -> Self {
        Self("default".into())
    }
}
