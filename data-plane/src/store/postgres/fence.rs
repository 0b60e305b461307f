//! Who may write a tenant's rows here.
//!
//! An assertion is a row lock. FOR SHARE lets any number of writers in at once and keeps whoever wants to change the
//! row waiting until they have committed; a plain read would not.

use std::{collections::HashMap, time::Duration};

use orch8_model::{PlacementEpoch, TenantId};

use super::{
    fields::Fields,
    raise,
    session::{Args, Pool, Session},
};
use crate::store::{
    Fence, StoreError, TenantHandle,
    codes::{mode_of, mode_text},
    counts::Counts,
};

const DOING: &str = "setting of a fence";

/// Tenants that may be written, locked until the transaction ends, in one order for everybody. A row that somebody is
/// changing is not waited for: its turns are refused, those of other tenants are not held up.
pub(super) const ASSERT: &str = concat!(include_str!("sql/fence_assert.sql"), " SKIP LOCKED");
/// The same for callers who can wait for the change to be over.
pub(super) const ASSERT_WAITING: &str = include_str!("sql/fence_assert.sql");
pub(super) const STORED: &str =
    "SELECT tenant_id, placement_epoch, mode, weight FROM tenant_fences WHERE tenant_id = $1";
/// The epoch only rises; the same epoch may change the mode and the weight.
pub(super) const RAISE: &str = "UPDATE tenant_fences SET placement_epoch = $2, mode = $3, weight = $4
     WHERE tenant_id = $1 AND placement_epoch <= $2
     RETURNING tenant_no";
pub(super) const INSERT: &str =
    "INSERT INTO tenant_fences (tenant_id, placement_epoch, mode, weight) VALUES ($1, $2, $3, $4)
     ON CONFLICT (tenant_id) DO NOTHING
     RETURNING tenant_no";
pub(super) const CALL: &str =
    "INSERT INTO fence_calls (tenant_id, until) VALUES ($1, now() + $2 * interval '1 ms')
     ON CONFLICT (tenant_id) DO UPDATE SET until = excluded.until";
pub(super) const HANG_UP: &str = "DELETE FROM fence_calls WHERE tenant_id = $1";
pub(super) const LIST: &str = "SELECT tenant_id, placement_epoch, mode, weight FROM tenant_fences
     WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2";

/// What happens to tenants whose row somebody is changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    Refuse,
    Wait,
}

/// Asserts fences: to be called before anything else is read. Answers this store's numbers of the tenants that may
/// write; refusals are counted by the caller.
pub(super) async fn assert<'t>(
    tenants: impl IntoIterator<Item = &'t TenantHandle>,
    busy: Busy,
    session: &mut Session<'_>,
) -> Result<HashMap<&'t TenantHandle, i64>, StoreError> {
    let mut handles: Vec<&TenantHandle> = tenants.into_iter().collect();
    handles.sort_unstable_by(|a, b| (&a.tenant, a.placement).cmp(&(&b.tenant, b.placement)));
    handles.dedup();
    let args = Args::new()
        .with((0..handles.len() as i64).collect::<Vec<_>>())
        .with(handles.iter().map(|t| t.tenant.as_str()).collect::<Vec<_>>())
        .with(handles.iter().map(|t| t.placement.get() as i64).collect::<Vec<_>>());
    let sql = match busy {
        Busy::Refuse => ASSERT,
        Busy::Wait => ASSERT_WAITING,
    };
    let mut numbers = HashMap::with_capacity(handles.len());
    for row in &session.rows(sql, args).await? {
        let f = Fields::of("tenant_fences", row);
        let handle = f.noun("n", handles.get(f.narrow::<usize>(0, "n")?))?;
        numbers.insert(*handle, f.int(1, "tenant_no")?);
    }
    Ok(numbers)
}

/// Asserts one tenant's fence; a refusal is counted.
pub(super) async fn assert_one(
    tenant: &TenantHandle,
    session: &mut Session<'_>,
) -> Result<Option<i64>, StoreError> {
    let number = assert([tenant], Busy::Wait, session).await?.get(tenant).copied();
    if number.is_none() {
        Counts::add(&session.counts.fenced, 1);
    }
    Ok(number)
}

/// Sets a fence. `false`: a higher epoch is stored. A fence that is what it should be is not touched: that would make
/// its tenant's turns stumble.
pub(super) async fn set(pool: &Pool, fence: Fence) -> Result<bool, StoreError> {
    let weight = fence.weight.clamp(1, i64::MAX as u64);
    let fence = Fence { weight, ..fence };
    // Rows do not leave: after a lost race to insert there is one to raise.
    for _ in 0..2 {
        match stored(pool, &fence.tenant).await? {
            Some(stored) if stored == fence => return Ok(true),
            Some(stored) if stored.placement > fence.placement => return Ok(false),
            Some(_) => return raise_fence(pool, &fence).await,
            None if !pool.write(DOING, INSERT, fence_args(&fence)).await?.is_empty() => return Ok(true),
            None => {}
        }
    }
    raise_fence(pool, &fence).await
}

/// How long a call keeps writers away. Longer than all that follows it takes; it ends by itself if the caller dies.
const CALL_MS: i64 = 10_000;
/// For how long the locks that writers hold already are waited for: several times the length of a transaction.
const BUSY: Duration = Duration::from_millis(100);

/// Raises a row that is there. Writers come and go all the time and may together hold it for ever; then it calls them
/// away first.
async fn raise_fence(pool: &Pool, fence: &Fence) -> Result<bool, StoreError> {
    match raise_within(pool, fence, BUSY).await {
        Err(StoreError::Database { source, .. }) if raise::is_late(&source) => {}
        answer => return answer,
    }
    let tenant = fence.tenant.as_str();
    pool.write(DOING, CALL, Args::new().with(tenant).with(CALL_MS)).await?;
    let raised = raise::raise_row(pool, DOING, RAISE, || fence_args(fence)).await;
    pool.write(DOING, HANG_UP, Args::new().with(tenant)).await?;
    Ok(!raised?.is_empty())
}

async fn raise_within(pool: &Pool, fence: &Fence, patience: Duration) -> Result<bool, StoreError> {
    Ok(!raise::update_within(pool, DOING, RAISE, fence_args(fence), patience).await?.is_empty())
}

fn fence_args(fence: &Fence) -> Args {
    Args::new()
        .with(fence.tenant.as_str())
        .with(fence.placement.get() as i64)
        .with(mode_text(fence.mode))
        .with(fence.weight as i64)
}

pub(super) async fn stored(pool: &Pool, tenant: &TenantId) -> Result<Option<Fence>, StoreError> {
    let row = pool.row(DOING, STORED, || Args::new().with(tenant.as_str())).await?;
    row.as_ref().map(fence_row).transpose()
}

pub(super) async fn list(pool: &Pool, after: Option<TenantId>, limit: u32) -> Result<Vec<Fence>, StoreError> {
    let after = after.as_ref().map_or("", TenantId::as_str);
    let rows = pool.rows("read of fences", LIST, || Args::new().with(after).with(i64::from(limit))).await?;
    rows.iter().map(fence_row).collect()
}

fn fence_row(row: &sqlx::postgres::PgRow) -> Result<Fence, StoreError> {
    let f = Fields::of("tenant_fences", row);
    Ok(Fence {
        tenant: f.name(0, "tenant_id", TenantId::parse)?,
        placement: f.noun("placement_epoch", PlacementEpoch::new(f.narrow(1, "placement_epoch")?))?,
        mode: f.noun("mode", mode_of(f.text(2, "mode")?))?,
        weight: f.narrow(3, "weight")?,
    })
}

/// The first two arguments of everything that only the holder of a tenant handle sees.
pub(super) fn handle_args(tenant: &TenantHandle) -> Args {
    Args::new().with(tenant.tenant.as_str()).with(tenant.placement.get() as i64)
}
