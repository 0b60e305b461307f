//! Every RPC of the control plane through a real server on loopback, on both databases: the happy path, hostile fields,
//! foreign against missing, roles, pages, the watch, and nodes that join.

#![allow(clippy::duplicate_mod, reason = "the suite runs on each database")]

/// The suite on one database. A macro, because each copy of the modules has to know which.
macro_rules! suite {
    ($name:ident, $on:expr) => {
        #[path = "."]
        mod $name {
            use crate::Kind;

            /// The database under this copy of the suite.
            pub const ON: Kind = $on;

            #[path = "access.rs"]
            mod access;
            #[path = "fleet.rs"]
            mod fleet;
            #[path = "join.rs"]
            mod join;
            #[path = "keys.rs"]
            mod keys;
            #[path = "node.rs"]
            pub mod node;
            #[path = "placements.rs"]
            mod placements;
            #[path = "rig.rs"]
            pub mod rig;
            #[path = "stores.rs"]
            mod stores;
            #[path = "tenants.rs"]
            mod tenants;
        }
    };
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

suite!(sqlite, Kind::Sqlite);
suite!(postgres, Kind::Postgres);

mod file;
mod replicas;
