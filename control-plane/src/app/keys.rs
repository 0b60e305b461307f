//! Making, listing and ending keys.

use orch8_authority::{CredentialProblem, judge_credential, judge_granter};
use orch8_model::{Fault, Millis, Reason, Roles, TenantId};
use orch8_proto::identity;
use orch8_seal::{Digest, SecretText};

use super::{cut, store_fault, to_the_end};
use crate::{
    ControlPlane,
    store::{ApiKey, KeyCreated, KeyRevoked, LIVE_KEYS_MAX},
};

/// A key to make.
#[derive(Debug)]
pub struct NewKey {
    pub tenant: Option<TenantId>,
    pub roles: Roles,
    pub display_name: String,
    pub expires_at: Option<Millis>,
    pub request_id: Option<String>,
    /// SHA-256 of a client certificate that is to stand in for a secret.
    pub certificate: Option<Digest>,
}

/// The key and its secret, which nobody will see again; of a certificate there is none. `granter` is what the caller may do.
///
/// Errors: roles that do not fit or are not his to give, an end that has passed, `NOT_FOUND` for the tenant,
/// `ALREADY_EXISTS` for the request id or the certificate (with the key's id, so that it can be revoked),
/// `QUOTA_EXCEEDED`.
pub async fn create_key(
    plane: &ControlPlane,
    granter: Roles,
    new: NewKey,
    now: Millis,
) -> Result<(ApiKey, Option<SecretText>), Fault> {
    judge(granter, &new, now)?;
    if let Some(tenant) = &new.tenant
        && plane.store.tenant(tenant).await.map_err(store_fault)?.is_none()
    {
        return Err(Fault::not_found());
    }
    let (sha256, secret) = match &new.certificate {
        Some(fingerprint) => (identity::certificate_key(fingerprint), None),
        None => {
            let secret =
                SecretText::generate().ok_or_else(|| Fault::new(Reason::Internal, "no randomness"))?;
            (secret.digest(), Some(secret))
        }
    };
    let key = ApiKey {
        sha256,
        tenant: new.tenant,
        roles: new.roles,
        display_name: new.display_name,
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
        request_id: new.request_id,
    };
    let (store, written) = (plane.store.clone(), key.clone());
    match to_the_end(plane, async move { store.create_key(&written).await }).await? {
        KeyCreated::New => Ok((key, secret)),
        KeyCreated::Taken(id) if id == key.id() => Err(Fault::field(
            Reason::AlreadyExists,
            "certificate_sha256",
            format_args!("is registered as the key {id}"),
        )
        .with("key_id", id)),
        KeyCreated::Taken(id) => Err(Fault::field(
            Reason::AlreadyExists,
            "request_id",
            format_args!("made the key {id} before; its secret was shown then and cannot be shown again"),
        )
        .with("key_id", id)),
        KeyCreated::Full => {
            let text = format!("at most {LIVE_KEYS_MAX} keys may be good at once; revoke some");
            Err(Fault::new(Reason::QuotaExceeded, text).with("limit", LIVE_KEYS_MAX))
        }
    }
}

fn judge(granter: Roles, new: &NewKey, now: Millis) -> Result<(), Fault> {
    judge_credential(new.roles, new.tenant.is_some()).map_err(|problem| match problem {
        CredentialProblem::NoRole => Fault::invalid("roles", problem),
        CredentialProblem::TenantNeeded(_) | CredentialProblem::TenantForbidden(_) => {
            Fault::invalid("tenant_id", problem)
        }
    })?;
    judge_granter(granter, new.roles).map_err(|not| Fault::new(Reason::RoleMissing, not.to_string()))?;
    if new.expires_at.is_some_and(|end| end <= now) {
        return Err(Fault::invalid("expires_at", "must lie in the future"));
    }
    Ok(())
}

/// The ended key; repeatable. In force here at once, at every replica and data plane within a second.
pub async fn revoke_key(plane: &ControlPlane, key_id: String, now: Millis) -> Result<ApiKey, Fault> {
    let store = plane.store.clone();
    match to_the_end(plane, async move { store.revoke_key(&key_id, now).await }).await? {
        KeyRevoked::Ended(key) => Ok(key),
        KeyRevoked::Missing => Err(Fault::not_found()),
    }
}

/// One page, by id, and whether there is more behind it.
pub async fn list_keys(
    plane: &ControlPlane,
    tenant: Option<&TenantId>,
    after: &str,
    limit: u32,
) -> Result<(Vec<ApiKey>, bool), Fault> {
    let mut rows = plane.store.keys(tenant, after, limit.saturating_add(1)).await.map_err(store_fault)?;
    let more = cut(&mut rows, limit);
    Ok((rows, more))
}
