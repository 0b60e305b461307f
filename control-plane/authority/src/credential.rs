//! Which credentials may exist.

use orch8_model::{Role, Roles};

/// Why a credential may not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialProblem {
    /// It could do nothing.
    #[error("must have at least one role")]
    NoRole,
    /// The role acts on a tenant's rows, and there is no tenant.
    #[error("must name a tenant, since the role {0} acts for one")]
    TenantNeeded(Role),
    /// The role acts for the deployment; bound to a tenant it would promise a boundary that it does not have.
    #[error("must not name a tenant, since the role {0} acts for the whole deployment")]
    TenantForbidden(Role),
}

/// Judges the roles of a new credential. Errors: see [`CredentialProblem`].
pub fn judge_credential(roles: Roles, has_tenant: bool) -> Result<(), CredentialProblem> {
    if roles.is_empty() {
        return Err(CredentialProblem::NoRole);
    }
    for role in roles.iter() {
        match (role, has_tenant) {
            (Role::Client | Role::Worker | Role::Publisher, false) => {
                return Err(CredentialProblem::TenantNeeded(role));
            }
            (Role::Operator | Role::PlacementAdmin | Role::Node, true) => {
                return Err(CredentialProblem::TenantForbidden(role));
            }
            (Role::Client | Role::Worker | Role::Publisher, true)
            | (Role::Operator | Role::PlacementAdmin | Role::Node, false) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_of_the_deployment_has_no_tenant_and_every_other_role_has_one() {
        for role in Role::ALL.iter().copied() {
            let roles = [role].into_iter().collect();
            let of_deployment = matches!(role, Role::Operator | Role::PlacementAdmin | Role::Node);
            assert_eq!(judge_credential(roles, false).is_ok(), of_deployment, "{role}");
            assert_eq!(judge_credential(roles, true).is_ok(), !of_deployment, "{role}");
        }
        assert_eq!(judge_credential(Roles::default(), true), Err(CredentialProblem::NoRole));
    }
}
