//! May a node serve a store under the name it offers? Only if it is the store that is meant.

use std::fmt;

/// What keeps the rows of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreKind {
    /// A Postgres database, or a service that speaks its protocol.
    Postgres,
    /// A SQLite file of one process.
    Sqlite,
}

impl StoreKind {
    /// Every kind, for tables and tests.
    pub const ALL: &[StoreKind] = &[StoreKind::Postgres, StoreKind::Sqlite];

    /// The text in a database and for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }

    /// The kind with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A registered store, or one that a node offers to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreShape {
    pub kind: StoreKind,
    /// Fixed when the store was made; 0: no node has told it yet.
    pub shard_count: u32,
}

/// Why a node may not serve what it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferProblem {
    #[error("is not registered")]
    Unknown,
    #[error("is registered as {registered}, and the node has opened a {offered} store")]
    Kind { registered: StoreKind, offered: StoreKind },
    /// Another store under this name, or an empty one in its place.
    #[error("has {known} shards, and the store that the node has opened has {offered}: it is another store")]
    Shards { known: u32, offered: u32 },
}

/// Judges an offer. `registered`: what is known under that name.
pub fn judge_offer(registered: Option<StoreShape>, offered: StoreShape) -> Result<(), OfferProblem> {
    let registered = registered.ok_or(OfferProblem::Unknown)?;
    if registered.kind != offered.kind {
        return Err(OfferProblem::Kind { registered: registered.kind, offered: offered.kind });
    }
    match registered.shard_count {
        0 => Ok(()),
        known if known == offered.shard_count => Ok(()),
        known => Err(OfferProblem::Shards { known, offered: offered.shard_count }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_store_that_is_meant_is_served() {
        use StoreKind::{Postgres, Sqlite};
        let shape = |kind, shard_count| StoreShape { kind, shard_count };
        for (registered, offered, expected) in [
            (None, shape(Sqlite, 4), Err(OfferProblem::Unknown)),
            (Some(shape(Sqlite, 0)), shape(Sqlite, 4), Ok(())),
            (Some(shape(Sqlite, 4)), shape(Sqlite, 4), Ok(())),
            (Some(shape(Sqlite, 4)), shape(Sqlite, 8), Err(OfferProblem::Shards { known: 4, offered: 8 })),
            (
                Some(shape(Postgres, 0)),
                shape(Sqlite, 4),
                Err(OfferProblem::Kind { registered: Postgres, offered: Sqlite }),
            ),
        ] {
            assert_eq!(judge_offer(registered, offered), expected, "{registered:?} {offered:?}");
        }
    }

    #[test]
    fn every_kind_has_its_own_text() {
        for kind in StoreKind::ALL {
            assert_eq!(StoreKind::parse(kind.as_str()), Some(*kind));
        }
        assert_eq!(StoreKind::parse("mysql"), None);
    }
}
