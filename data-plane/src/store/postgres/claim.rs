//! Instances that wait for their first turn, dealt out per tenant, so that a tenant with a million of them is no
//! obstacle to one with a single one.
//!
//! Nothing is locked: a shard has one owner, who says what it has already, and a row stays until the turn that answers
//! it is committed.

use orch8_model::{InstanceId, Millis, TenantId};

use super::{
    fields::Fields,
    session::{Args, Pool},
};
use crate::store::{Lease, Ready, StoreError};

pub(super) const CLAIM: &str = include_str!("sql/claim.sql");
pub(super) const TENANTS: &str = include_str!("sql/ready_tenants.sql");
/// Of tenants that may not be written here nothing is claimed, so nothing is waited for either.
pub(super) const NEXT: &str = "SELECT r.due_at FROM ready r
     WHERE r.shard = $1 AND r.later AND r.due_at > $3
       AND (SELECT f.mode FROM tenant_fences f WHERE f.tenant_no = r.tenant_no) IN ('active', 'guest')
       AND (SELECT l.shard FROM shard_leases l WHERE l.shard = $1 AND l.lease_epoch = $2) IS NOT NULL
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

/// Tenants that one statement looks at: their rows are sorted into the order asked for, so it reads them all.
const TENANTS_AT_A_TIME: usize = 64;

pub(super) async fn claim(pool: &Pool, claim: Claim<'_>) -> Result<Vec<Ready>, StoreError> {
    let all = match claim.tenants {
        [] => tenants(pool, claim.lease, claim.now).await?,
        [..] => Vec::new(),
    };
    let order = if claim.tenants.is_empty() { &all } else { claim.tenants };
    let mut claimed = Vec::new();
    for some in order.chunks(TENANTS_AT_A_TIME) {
        let want = (claim.limit as usize).saturating_sub(claimed.len());
        if want == 0 || claim.per_tenant == 0 {
            break;
        }
        claimed.extend(of_tenants(pool, &claim, some, want).await?);
    }
    Ok(claimed)
}

/// The first `want` due rows that are not skipped, of these tenants in their order.
async fn of_tenants(
    pool: &Pool,
    claim: &Claim<'_>,
    tenants: &[TenantId],
    want: usize,
) -> Result<Vec<Ready>, StoreError> {
    let skip: Vec<uuid::Uuid> = claim.skip.iter().map(|id| id.0).collect();
    let names: Vec<&str> = tenants.iter().map(TenantId::as_str).collect();
    let args = || {
        lease_args(claim.lease)
            .with(claim.now.0)
            .with(&names)
            .with(&skip)
            .with(i64::from(claim.per_tenant).min(want as i64))
            .with(want as i64)
    };
    let rows = pool.rows("claim", CLAIM, args).await?;
    rows.iter()
        .map(|row| {
            let f = Fields::of("ready", row);
            let tenant =
                f.noun("tenant_no", tenants.get(f.narrow::<usize>(1, "tenant_no")?.wrapping_sub(1)))?;
            Ok(Ready { instance: f.instance(0, "instance_id")?, tenant: tenant.clone() })
        })
        .collect()
}

pub(super) async fn tenants(pool: &Pool, lease: Lease, now: Millis) -> Result<Vec<TenantId>, StoreError> {
    let args = || lease_args(lease).with(now.0);
    let rows = pool.rows("read of tenants with ready rows", TENANTS, args).await?;
    rows.iter().map(|row| Fields::of("tenant_fences", row).name(0, "tenant_id", TenantId::parse)).collect()
}

pub(super) async fn next(pool: &Pool, lease: Lease, now: Millis) -> Result<Option<Millis>, StoreError> {
    let row = pool.row("read of the next ready row", NEXT, || lease_args(lease).with(now.0)).await?;
    row.map(|row| Fields::of("ready", &row).millis(0, "due_at")).transpose()
}

/// The first two arguments of everything that only the holder of a lease sees.
pub(super) fn lease_args(lease: Lease) -> Args {
    Args::new().with(i64::from(lease.shard.0)).with(lease.epoch.get() as i64)
}
