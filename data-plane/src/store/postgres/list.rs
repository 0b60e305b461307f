//! Lists of instances, newest first, by keyset.

use orch8_model::{Namespace, SequenceName};
use uuid::Uuid;

use super::{
    fence::handle_args,
    load::instance_row,
    session::{Args, Pool},
};
use crate::store::{
    InstanceFilter, InstanceRow, PageAfter, StoreError, TenantHandle,
    codes::status_code,
    pages::{Probe, merge, page_end, probes},
};

/// One statement per index; each repeats its index's own condition. The row comparison is the keyset: it does not lose
/// rows that share an instant. What an instance was born with is looked up for the page alone.
macro_rules! probe {
    (listed $status:literal) => {
        probe!(
            "listed l JOIN instances i ON i.id = l.instance_id AND i.bucket = l.bucket
              WHERE l.tenant_no = f.tenant_no AND (l.created_at, l.instance_id) < ($3, $4) AND l.created_at > $5 ",
            $status,
            "ORDER BY l.created_at DESC, l.instance_id DESC"
        )
    };
    (instances $status:literal) => {
        probe!(
            "instances i
              WHERE i.tenant_no = f.tenant_no AND (i.created_at, i.id) < ($3, $4) AND i.created_at > $5 ",
            $status,
            "ORDER BY i.created_at DESC, i.id DESC"
        )
    };
    ($from:literal, $status:literal, $order:literal) => {
        concat!(
            "SELECT ",
            include_str!("sql/instance_columns.sql"),
            "FROM tenant_fences f CROSS JOIN LATERAL (SELECT i.* FROM ",
            $from,
            $status,
            include_str!("sql/list_filter.sql"),
            $order,
            include_str!("sql/list_page.sql"),
        )
    };
}

pub(super) const ALL: &str = probe!(listed "");
pub(super) const COMPLETED: &str = probe!(listed "AND i.status = 5");
pub(super) const OPEN: &str = probe!(instances "AND i.closed_at IS NULL AND i.status = ANY($10::bigint[])");
pub(super) const PAUSED: &str = probe!(instances "AND i.status IN (4, 6, 7) AND i.status = 4");
pub(super) const FAILED: &str = probe!(instances "AND i.status IN (4, 6, 7) AND i.status = 6");
pub(super) const CANCELLED: &str = probe!(instances "AND i.status IN (4, 6, 7) AND i.status = 7");

pub(super) async fn list(
    pool: &Pool,
    tenant: &TenantHandle,
    filter: &InstanceFilter,
    after: Option<PageAfter>,
    limit: u32,
) -> Result<Vec<InstanceRow>, StoreError> {
    let mut found = Vec::new();
    for probe in probes(&filter.statuses) {
        let args = || match &probe {
            Probe::Open(open) => arguments(tenant, filter, after, limit)
                .with(open.iter().map(|status| status_code(*status)).collect::<Vec<_>>()),
            Probe::All | Probe::Paused | Probe::Completed | Probe::Failed | Probe::Cancelled => {
                arguments(tenant, filter, after, limit)
            }
        };
        for row in &pool.rows("list of instances", sql(&probe), args).await? {
            found.push(instance_row(row)?);
        }
    }
    Ok(merge(found, limit))
}

fn sql(probe: &Probe) -> &'static str {
    match probe {
        Probe::All => ALL,
        Probe::Open(_) => OPEN,
        Probe::Paused => PAUSED,
        Probe::Completed => COMPLETED,
        Probe::Failed => FAILED,
        Probe::Cancelled => CANCELLED,
    }
}

fn arguments(tenant: &TenantHandle, filter: &InstanceFilter, after: Option<PageAfter>, limit: u32) -> Args {
    let before = page_end(filter, after);
    // The smallest id there is: nothing at that instant is older.
    let id = before.and_then(|(_, id)| id).map_or(Uuid::nil(), |id| id.0);
    handle_args(tenant)
        .with(before.map_or(i64::MAX, |(at, _)| at.0))
        .with(id)
        .with(filter.created_after.map_or(i64::MIN, |at| at.0))
        .with(filter.namespace.as_ref().map(Namespace::as_str))
        .with(filter.sequence.map(|id| id.0))
        .with(filter.sequence_name.as_ref().map(SequenceName::as_str))
        .with(i64::from(limit))
}
