//! Instances that wait for their first turn, dealt out per tenant, so that a tenant with a million of them is no
//! obstacle to one with a single one.

use std::collections::HashSet;

use orch8_model::{InstanceId, Millis, TenantId};

use super::{
    fields::Fields,
    session::{Args, Reader},
};
use crate::store::{Lease, Ready, StoreError};

pub(super) const CLAIM: &str = include_str!("sql/claim.sql");
pub(super) const TENANTS: &str = include_str!("sql/ready_tenants.sql");
/// Of tenants that may not be written here nothing is claimed, so nothing is waited for either.
pub(super) const NEXT: &str = "SELECT r.due_at FROM ready r
     CROSS JOIN tenant_fences f ON f.tenant_no = r.tenant_no AND f.mode IN ('active', 'guest')
     WHERE r.shard = ?1 AND r.later = 1 AND r.due_at > ?3
       AND EXISTS (SELECT 1 FROM shard_leases l WHERE l.shard = ?1 AND l.lease_epoch = ?2)
     ORDER BY r.due_at LIMIT 1";

/// What an owner asks for.
pub(super) struct Claim<'a> {
    pub lease: Lease,
    pub now: Millis,
    pub limit: u32,
    pub per_tenant: u32,
    pub skip: &'a [InstanceId],
    pub tenants: &'a [TenantId],
}

pub(super) async fn claim(reader: &Reader, claim: Claim<'_>) -> Result<Vec<Ready>, StoreError> {
    let all = match claim.tenants {
        [] => tenants(reader, claim.lease, claim.now).await?,
        [..] => Vec::new(),
    };
    let skip: HashSet<InstanceId> = claim.skip.iter().copied().collect();
    let limit = claim.limit as usize;
    let mut claimed = Vec::new();
    for tenant in claim.tenants.iter().chain(&all) {
        let want = limit.saturating_sub(claimed.len()).min(claim.per_tenant as usize);
        if want == 0 {
            break;
        }
        let found = of_tenant(reader, &claim, tenant, &skip, want).await?;
        claimed.extend(found.into_iter().map(|instance| Ready { instance, tenant: tenant.clone() }));
    }
    Ok(claimed)
}

/// The first `want` due rows of a tenant that are not skipped.
async fn of_tenant(
    reader: &Reader,
    claim: &Claim<'_>,
    tenant: &TenantId,
    skip: &HashSet<InstanceId>,
    want: usize,
) -> Result<Vec<InstanceId>, StoreError> {
    let args = lease_args(claim.lease)
        .text(tenant.as_str())
        .int(claim.now.0)
        // Even if all that is skipped stood in front.
        .int(want.saturating_add(skip.len()) as i64);
    reader
        .pick("claim", CLAIM, args, want, |row| {
            let id = Fields::of("ready", row).instance(0, "instance_id")?;
            Ok((!skip.contains(&id)).then_some(id))
        })
        .await
}

pub(super) async fn tenants(reader: &Reader, lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError> {
    let rows = reader.rows("read of tenants with ready rows", TENANTS, lease_args(lease).int(now.0)).await?;
    rows.iter().map(|row| Fields::of("tenant_fences", row).name(0, "tenant_id", TenantId::parse)).collect()
}

pub(super) async fn next(reader: &Reader, lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError> {
    let row = reader.row("read of the next ready row", NEXT, lease_args(lease).int(now.0)).await?;
    row.map(|row| Fields::of("ready", &row).millis(0, "due_at")).transpose()
}

/// The first two arguments of everything that only the holder of a lease sees.
pub(super) fn lease_args(lease: Lease) -> Args {
    Args::new().int(lease.shard.0).int(lease.epoch.get() as i64)
}
