//! Identities. Each is a UUID on the wire (lower-case text) and 16 bytes in a store.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Parses any UUID text form. Errors: not a UUID.
            pub fn parse(text: &str) -> Option<Self> {
                Uuid::try_parse(text).ok().map(Self)
            }

            /// The 16 bytes, big-endian, as stored.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Reads 16 stored bytes back. `None` when there are not 16.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Uuid::from_slice(bytes).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// One data-plane process: made anew at every start, so that two of one name are told apart.
    ProcessId
);
id!(
    /// One run of a sequence in one store.
    InstanceId
);
id!(
    /// One logical execution, wherever it runs. Equal to the instance id at birth.
    ContinuityId
);
id!(
    /// One published version of a sequence.
    SequenceId
);
id!(
    /// One try of one step, as a worker sees it.
    TaskId
);
