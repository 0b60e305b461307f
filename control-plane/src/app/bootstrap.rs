//! What a deployment begins with; repeatable.

use chrono::Utc;
use orch8_authority::StoreKind;
use orch8_model::{Millis, PlacementEpoch, Role, Roles, StoreName, TenantId};
use orch8_seal::SecretText;

use super::catch_up;
use crate::{
    ControlPlane,
    store::{ApiKey, ControlStoreError, FirstKey, Placement, Tenant},
};

/// What must be there.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    pub tenant: TenantId,
    /// Where the tenant is placed, if it is not placed yet; registered, if it is not yet.
    pub store: (StoreName, StoreKind),
    /// Secret, whether it speaks for the tenant (or for the deployment), and what it may do.
    pub keys: Vec<(SecretText, bool, Roles)>,
}

/// Makes what is missing; changes nothing that is there.
pub async fn bootstrap(plane: &ControlPlane, wanted: Bootstrap) -> Result<(), ControlStoreError> {
    let now = Millis::from(Utc::now());
    let tenant = Tenant { id: wanted.tenant.clone(), display_name: String::new(), created_at: now };
    plane.store.create_tenant(tenant).await?;
    let (store, kind) = wanted.store;
    plane.store.register_store(&store, kind, now).await?;
    let first = PlacementEpoch::default().checked_next().unwrap_or_default();
    let placement = Placement { tenant: wanted.tenant.clone(), store, epoch: first, updated_at: now };
    plane.store.advance_placement(placement).await?;
    for (secret, of_tenant, roles) in wanted.keys {
        let tenant = of_tenant.then(|| wanted.tenant.clone());
        plane.store.create_key(&first_key(&secret, tenant, roles, now)).await?;
    }
    catch_up(plane).await
}

/// Why there is no first key.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// It is there already.
    #[error(
        "there is an operator key already, {key_id}; make more keys with it: orch8 key create --role operator"
    )]
    Done { key_id: String },
    #[error("this machine has no randomness to make a key from")]
    NoRandomness,
    #[error(transparent)]
    Store(#[from] ControlStoreError),
}

/// Makes the deployment's first key, operator and placement-admin, if no good key is operator yet. Its secret is
/// answered here and never again.
pub async fn init_operator_key(plane: &ControlPlane) -> Result<SecretText, InitError> {
    let secret = SecretText::generate().ok_or(InitError::NoRandomness)?;
    let roles = [Role::Operator, Role::PlacementAdmin].into_iter().collect();
    let key = first_key(&secret, None, roles, Millis::from(Utc::now()));
    match plane.store.create_first_key(&key, Role::Operator).await? {
        FirstKey::Made => {}
        FirstKey::There(key_id) => return Err(InitError::Done { key_id }),
    }
    catch_up(plane).await?;
    Ok(secret)
}

fn first_key(secret: &SecretText, tenant: Option<TenantId>, roles: Roles, now: Millis) -> ApiKey {
    ApiKey {
        sha256: secret.digest(),
        tenant,
        roles,
        display_name: "made at first start".to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
        request_id: None,
    }
}
