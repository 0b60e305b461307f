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

/// A role that the caller may not hand out, since he does not have it himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only a key with the role {0} may hand it out")]
pub struct NotYours(pub Role);

/// May a key with the roles `granter` make one with the roles `wanted`? Operators do, but placements are not theirs:
/// an operator who could make a placement-admin would be one.
pub fn judge_granter(granter: Roles, wanted: Roles) -> Result<(), NotYours> {
    let beyond = wanted.has(Role::PlacementAdmin) && !granter.has(Role::PlacementAdmin);
    if beyond { Err(NotYours(Role::PlacementAdmin)) } else { Ok(()) }
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
    use proptest::prelude::*;

    use super::*;

    const OF_DEPLOYMENT: [Role; 3] = [Role::Operator, Role::PlacementAdmin, Role::Node];

    fn any_roles() -> impl Strategy<Value = Roles> {
        prop::sample::subsequence(Role::ALL, 0..=Role::ALL.len())
            .prop_map(|roles| roles.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_role_of_the_deployment_has_no_tenant_and_every_other_role_has_one(roles in any_roles(), tenant: bool) {
            let fits = roles.iter().all(|role| OF_DEPLOYMENT.contains(&role) != tenant);
            prop_assert_eq!(judge_credential(roles, tenant).is_ok(), fits && !roles.is_empty());
        }

        #[test]
        fn nobody_reaches_placements_through_a_key_he_made(granter in any_roles(), wanted in any_roles()) {
            let gained = wanted.has(Role::PlacementAdmin) && !granter.has(Role::PlacementAdmin);
            prop_assert_eq!(judge_granter(granter, wanted).is_err(), gained);
        }
    }
}
