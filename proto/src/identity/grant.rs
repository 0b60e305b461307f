//! What one key may do, and its form on the wire.

use orch8_model::{Fault, Millis, Role, Roles, TenantId};
use orch8_seal::Digest;

use crate::{door, v1};

/// What a key may do, from when it is known until it expires or is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The tenant it speaks for; `None` for one of the deployment itself.
    pub tenant: Option<TenantId>,
    /// What it may do.
    pub roles: Roles,
    /// The first instant at which it is no longer good.
    pub expires_at: Option<Millis>,
    /// Whether it was ended early.
    pub revoked: bool,
}

impl Grant {
    /// Whether the key is good at this instant.
    pub fn is_good(&self, now: Millis) -> bool {
        !self.revoked && self.expires_at.is_none_or(|end| now < end)
    }

    /// Reads a pushed grant. Roles that this build does not know are left out: less is allowed, never more.
    /// Errors: a hash that is not 32 bytes, a tenant that is no name, an instant outside the calendar.
    pub fn from_wire(wire: &v1::KeyGrant) -> Result<(Digest, Self), Fault> {
        let key = Digest::from_slice(&wire.key_sha256)
            .ok_or_else(|| Fault::invalid("key_sha256", "must have 32 bytes"))?;
        let grant = Self {
            tenant: door::optional_name("tenant_id", wire.tenant_id.as_str())?,
            roles: wire.roles.iter().filter_map(|n| role("roles", *n).ok()).collect(),
            expires_at: door::instant("expires_at", wire.expires_at)?,
            revoked: wire.revoked,
        };
        Ok((key, grant))
    }

    /// The grant as it is pushed.
    pub fn to_wire(&self, key: Digest) -> v1::KeyGrant {
        v1::KeyGrant {
            key_sha256: key.0.to_vec().into(),
            tenant_id: self.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
            roles: wire_roles(self.roles),
            expires_at: self.expires_at.map(door::wire_instant),
            revoked: self.revoked,
        }
    }
}

/// A role by its number. Errors: unspecified, unknown.
pub fn role(field: &str, number: i32) -> Result<Role, Fault> {
    let role = match door::required(field, door::choice::<v1::Role>(field, number)?)? {
        v1::Role::Unspecified => return Err(Fault::invalid(field, "is required")),
        v1::Role::Client => Role::Client,
        v1::Role::Worker => Role::Worker,
        v1::Role::Publisher => Role::Publisher,
        v1::Role::Operator => Role::Operator,
        v1::Role::PlacementAdmin => Role::PlacementAdmin,
        v1::Role::Node => Role::Node,
    };
    Ok(role)
}

/// A role on the wire.
pub fn wire_role(role: Role) -> v1::Role {
    match role {
        Role::Client => v1::Role::Client,
        Role::Worker => v1::Role::Worker,
        Role::Publisher => v1::Role::Publisher,
        Role::Operator => v1::Role::Operator,
        Role::PlacementAdmin => v1::Role::PlacementAdmin,
        Role::Node => v1::Role::Node,
    }
}

/// A set of roles on the wire.
pub fn wire_roles(roles: Roles) -> Vec<i32> {
    roles.iter().map(|role| wire_role(role).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_survives_the_wire() {
        let key = orch8_seal::sha256(b"secret");
        let grant = Grant {
            tenant: TenantId::parse("acme").ok(),
            roles: Role::ALL.iter().copied().collect(),
            expires_at: Some(Millis(5)),
            revoked: true,
        };
        assert_eq!(Grant::from_wire(&grant.to_wire(key)), Ok((key, grant)));
    }

    #[test]
    fn a_role_from_the_future_allows_nothing() {
        let wire =
            v1::KeyGrant { key_sha256: vec![0; 32].into(), roles: vec![0, 99, 2], ..Default::default() };
        let (_, grant) = Grant::from_wire(&wire).expect("readable");
        assert_eq!(grant.roles.iter().collect::<Vec<_>>(), [Role::Worker]);
    }

    #[test]
    fn a_grant_ends_at_its_instant() {
        let grant =
            Grant { tenant: None, roles: Roles::default(), expires_at: Some(Millis(10)), revoked: false };
        assert!(grant.is_good(Millis(9)) && !grant.is_good(Millis(10)));
        assert!(!Grant { revoked: true, ..grant }.is_good(Millis(0)));
    }
}
