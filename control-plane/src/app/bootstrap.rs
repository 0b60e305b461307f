//! The first tenant, its placement and the first keys; repeatable.

use chrono::Utc;
use orch8_model::{Millis, PlacementEpoch, Roles, StoreName, TenantId};
use orch8_seal::SecretText;

use crate::{
    ControlPlane,
    store::{ApiKey, ControlStoreError, Placement, Tenant},
};

/// What must be there.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    pub tenant: TenantId,
    /// Where the tenant is placed, if it is not placed yet.
    pub store: StoreName,
    /// Secret, whether it speaks for the tenant (or for the deployment), and what it may do.
    pub keys: Vec<(SecretText, bool, Roles)>,
}

/// Makes what is missing; changes nothing that is there.
pub async fn bootstrap(plane: &ControlPlane, wanted: Bootstrap) -> Result<(), ControlStoreError> {
    let now = Millis::from(Utc::now());
    let tenant = Tenant { id: wanted.tenant.clone(), display_name: String::new(), created_at: now };
    plane.store.create_tenant(tenant).await?;
    let first = PlacementEpoch::default().checked_next().unwrap_or_default();
    let placement =
        Placement { tenant: wanted.tenant.clone(), store: wanted.store, epoch: first, updated_at: now };
    plane.store.advance_placement(placement).await?;
    for (secret, of_tenant, roles) in wanted.keys {
        let key = ApiKey {
            sha256: secret.digest(),
            tenant: of_tenant.then(|| wanted.tenant.clone()),
            roles,
            display_name: "made at first start".to_owned(),
            created_at: now,
            expires_at: None,
            revoked_at: None,
            request_id: None,
        };
        plane.store.create_key(&key).await?;
    }
    plane.keys.replace(plane.store.all_grants().await?);
    plane.fleet.changed(plane.store.newest_change().await?);
    Ok(())
}
