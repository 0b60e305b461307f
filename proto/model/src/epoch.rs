//! Numbers that only rise. Each fence has its own type, so that one cannot be compared with another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! epoch {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The largest epoch: what a signed 64-bit column holds.
            pub const MAX: u64 = i64::MAX as u64;

            /// An epoch, or `None` above [`Self::MAX`].
            pub fn new(value: u64) -> Option<Self> {
                (value <= Self::MAX).then_some(Self(value))
            }

            /// The number.
            pub fn get(self) -> u64 {
                self.0
            }

            /// The next epoch, or `None` when there is none left.
            pub fn checked_next(self) -> Option<Self> {
                self.0.checked_add(1).and_then(Self::new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

epoch!(
    /// Which placement of a tenant: which store its rows are in.
    PlacementEpoch
);
epoch!(
    /// Which owner of a shard.
    LeaseEpoch
);
epoch!(
    /// Which delivery of a try.
    ClaimEpoch
);

/// A slice of a store's instances, owned by one node at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shard(pub u16);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
