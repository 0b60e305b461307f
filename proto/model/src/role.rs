//! What a credential may do.

use std::fmt;

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// One thing a credential may be allowed to be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Role { $($(#[$doc])* $name,)* }

        impl Role {
            /// Every role, for tables and tests.
            pub const ALL: &[Role] = &[$(Role::$name),*];

            /// The text in a store and for people.
            pub fn as_str(self) -> &'static str {
                match self { $(Role::$name => $text,)* }
            }
        }
    };
}

roles! {
    /// Starts, signals, reads.
    Client "client",
    /// Pulls steps.
    Worker "worker",
    /// Publishes sequences.
    Publisher "publisher",
    /// Everything within a deployment but placements.
    Operator "operator",
    /// Stores and placements.
    PlacementAdmin "placement-admin",
    /// A data-plane process.
    Node "node",
}

impl Role {
    /// The role with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.as_str() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of roles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Roles(u8);

impl Roles {
    /// Whether the role is in the set.
    pub fn has(self, role: Role) -> bool {
        self.0 & bit(role) != 0
    }

    /// Whether one of these roles is in the set.
    pub fn has_any(self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.has(*role))
    }

    /// No role at all.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles, in the order of [`Role::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.iter().copied().filter(move |role| self.has(*role))
    }
}

fn bit(role: Role) -> u8 {
    1 << (role as u8)
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |set, role| set | bit(role)))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let set: Roles = [Role::Node, Role::Client, Role::Node].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Role::Client, Role::Node]);
        assert!(set.has_any(&[Role::Operator, Role::Node]) && !set.has(Role::Operator));
        assert!(Roles::default().is_empty());
    }

    #[test]
    fn every_role_has_its_own_text() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(*role));
        }
        assert_eq!(Role::parse("admin"), None);
    }
}
