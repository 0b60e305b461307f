//! Who may write a tenant's rows here.

use orch8_model::{PlacementEpoch, TenantId};

use super::{
    batch::Batch,
    fields::Fields,
    session::{Args, Reader, Session},
    writer::Write,
};
use crate::store::{
    Fence, StoreError, TenantHandle,
    codes::{mode_of, mode_text},
    counts::Counts,
};

/// The epoch only rises; the same epoch may change the mode and the weight.
pub(super) const SET: &str =
    "INSERT INTO tenant_fences (tenant_id, placement_epoch, mode, weight) VALUES (?, ?, ?, ?)
     ON CONFLICT (tenant_id) DO UPDATE
     SET placement_epoch = excluded.placement_epoch, mode = excluded.mode, weight = excluded.weight
     WHERE tenant_fences.placement_epoch <= excluded.placement_epoch";
pub(super) static ASSERT: Batch = Batch::new(
    "WITH v (n, tenant_id, placement_epoch) AS (VALUES (?, ?, ?))
     SELECT v.n, f.tenant_no FROM v
     CROSS JOIN tenant_fences f ON f.tenant_id = v.tenant_id AND f.placement_epoch = v.placement_epoch
     WHERE v.n IS NOT NULL AND f.mode IN ('active', 'guest')",
);
pub(super) const STORED: &str =
    "SELECT tenant_id, placement_epoch, mode, weight FROM tenant_fences WHERE tenant_id = ?";
pub(super) const LIST: &str = "SELECT tenant_id, placement_epoch, mode, weight FROM tenant_fences
     WHERE tenant_id > ? ORDER BY tenant_id LIMIT ?";

impl Write for Fence {
    type Answer = bool;
    const DOING: &'static str = "setting of a fence";

    fn rows(&self) -> usize {
        1
    }

    async fn run(&self, session: &mut Session<'_>) -> Result<bool, StoreError> {
        let weight = i64::try_from(self.weight).unwrap_or(i64::MAX).max(1);
        let args = Args::new()
            .text(self.tenant.as_str())
            .int(self.placement.get() as i64)
            .text(mode_text(self.mode))
            .int(weight);
        Ok(session.execute(SET, args).await? > 0)
    }
}

/// Asserts a tenant's fence inside a write transaction. Answers this store's number for the tenant; a refusal is counted.
pub(super) async fn assert(
    tenant: &TenantHandle,
    session: &mut Session<'_>,
) -> Result<Option<i64>, StoreError> {
    Ok(assert_all(&[tenant], session).await?.pop().flatten())
}

/// As [`assert()`], for several; answers in their order.
pub(super) async fn assert_all(
    tenants: &[&TenantHandle],
    session: &mut Session<'_>,
) -> Result<Vec<Option<i64>>, StoreError> {
    let rows = session
        .batch_rows(&ASSERT, tenants, |args, n, tenant| {
            args.int(n as i64).text(tenant.tenant.as_str()).int(tenant.placement.get() as i64)
        })
        .await?;
    let mut numbers = vec![None; tenants.len()];
    for row in &rows {
        let f = Fields::of("tenant_fences", row);
        let slot = numbers.get_mut(f.narrow::<usize>(0, "n")?);
        *f.noun("n", slot)? = Some(f.int(1, "tenant_no")?);
    }
    Counts::add(&session.counts.fenced, numbers.iter().filter(|no| no.is_none()).count());
    Ok(numbers)
}

/// The first two arguments of everything that only the holder of a tenant handle sees.
pub(super) fn handle_args(tenant: &TenantHandle) -> Args {
    Args::new().text(tenant.tenant.as_str()).int(tenant.placement.get() as i64)
}

pub(super) async fn stored(reader: &Reader, tenant: &TenantId) -> Result<Option<Fence>, StoreError> {
    let row = reader.row("read of a fence", STORED, Args::new().text(tenant.as_str())).await?;
    row.as_ref().map(fence_row).transpose()
}

pub(super) async fn list(
    reader: &Reader,
    after: Option<TenantId>,
    limit: u32,
) -> Result<Vec<Fence>, StoreError> {
    let after = after.as_ref().map_or("", TenantId::as_str);
    let rows = reader.rows("read of fences", LIST, Args::new().text(after).int(limit)).await?;
    rows.iter().map(fence_row).collect()
}

fn fence_row(row: &sqlx::sqlite::SqliteRow) -> Result<Fence, StoreError> {
    let f = Fields::of("tenant_fences", row);
    Ok(Fence {
        tenant: f.name(0, "tenant_id", TenantId::parse)?,
        placement: f.noun("placement_epoch", PlacementEpoch::new(f.narrow(1, "placement_epoch")?))?,
        mode: f.noun("mode", mode_of(f.text(2, "mode")?))?,
        weight: f.narrow(3, "weight")?,
    })
}
