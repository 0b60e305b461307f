//! The caller as the server sees it, and the tenant he speaks for.

use orch8_model::{Fault, Reason, Role, Roles, TenantId};
use orch8_seal::Digest;
use tonic::Request;

use crate::door;

/// A caller whose credential was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant of the credential; `None` for one of the deployment itself.
    pub tenant: Option<TenantId>,
    /// What he may do.
    pub roles: Roles,
    /// Which credential it was.
    pub key: Digest,
}

impl Principal {
    /// First 16 hex digits of the key's SHA-256: what logs and lists call a key.
    pub fn key_id(&self) -> String {
        let mut id = self.key.hex();
        id.truncate(16);
        id
    }
}

/// The right to touch one tenant's rows. Store methods ask for it first; only [`TenantScope::of`] makes one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TenantScope(TenantId);

impl TenantScope {
    /// The tenant of a request: the credential's own, or the one an operator names. `requested` is the field
    /// `tenant_id`, empty when absent.
    ///
    /// Errors: not a name; another tenant's (`TENANT_MISMATCH`); none at all, when the credential has none either.
    pub fn of(principal: &Principal, requested: &str) -> Result<Self, Fault> {
        let requested: Option<TenantId> = door::optional_name("tenant_id", requested)?;
        match (requested, &principal.tenant) {
            (None, Some(own)) => Ok(Self(own.clone())),
            (None, None) => {
                Err(Fault::invalid("tenant_id", "is required, since the credential belongs to no tenant"))
            }
            (Some(named), Some(own)) if named == *own => Ok(Self(named)),
            (Some(named), _) if principal.roles.has(Role::Operator) => Ok(Self(named)),
            (Some(_), _) => {
                Err(Fault::new(Reason::TenantMismatch, "tenant_id is not the tenant of the credential"))
            }
        }
    }

    /// The tenant.
    pub fn tenant(&self) -> &TenantId {
        &self.0
    }
}

/// The caller of a request. Errors: the request did not pass [`super::Authenticate`].
pub fn principal<T>(request: &Request<T>) -> Result<&Principal, Fault> {
    request.extensions().get().ok_or_else(unauthenticated)
}

/// [`TenantScope::of`] the caller of a request.
pub fn scope<T>(request: &Request<T>, requested: &str) -> Result<TenantScope, Fault> {
    TenantScope::of(principal(request)?, requested)
}

/// Missing, unknown, expired and revoked answer the same bytes.
pub(super) fn unauthenticated() -> Fault {
    Fault::new(Reason::CredentialInvalid, "a valid key is required: authorization: Bearer <key>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(tenant: Option<&str>, roles: &[Role]) -> Principal {
        Principal {
            tenant: tenant.map(|t| TenantId::parse(t).expect("a name")),
            roles: roles.iter().copied().collect(),
            key: orch8_seal::sha256(b"k"),
        }
    }

    #[test]
    fn the_tenant_is_the_credentials_unless_an_operator_names_one() {
        let client = caller(Some("acme"), &[Role::Client]);
        let dev = caller(Some("acme"), &[Role::Client, Role::Operator]);
        let operator = caller(None, &[Role::Operator]);
        let node = caller(None, &[Role::Node]);
        for (who, requested, expected) in [
            (&client, "", Ok("acme")),
            (&client, "acme", Ok("acme")),
            (&client, "globex", Err(Reason::TenantMismatch)),
            (&client, "ACME", Err(Reason::TenantMismatch)),
            (&client, "\0", Err(Reason::InvalidField)),
            (&dev, "", Ok("acme")),
            (&dev, "globex", Ok("globex")),
            (&operator, "globex", Ok("globex")),
            (&operator, "", Err(Reason::InvalidField)),
            (&node, "globex", Err(Reason::TenantMismatch)),
        ] {
            let scope = TenantScope::of(who, requested);
            let seen = scope.as_ref().map(|s| s.tenant().as_str()).map_err(|f| f.reason);
            assert_eq!(seen, expected, "{requested:?}");
        }
    }

    #[test]
    fn a_request_that_met_no_guard_has_no_caller() {
        assert_eq!(principal(&Request::new(())).expect_err("nobody").reason, Reason::CredentialInvalid);
    }
}
