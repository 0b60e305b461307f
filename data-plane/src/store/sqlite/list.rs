//! Lists of instances, newest first, by keyset. A list by status is a merge of a few probes, each on an index that holds
//! little else than what is asked for.

use orch8_model::{Namespace, SequenceName};

use super::{
    fence::handle_args,
    load::instance_row,
    session::{Args, Reader},
};
use crate::store::{
    InstanceFilter, InstanceRow, PageAfter, StoreError, TenantHandle,
    codes::status_code,
    pages::{Probe, merge, page_end, probes},
};

/// One statement per index; each repeats its index's own condition, word for word. The row value comparison is the keyset: it does not lose rows that share an instant.
macro_rules! probe {
    ($index:literal, $status:literal) => {
        concat!(
            "SELECT ",
            include_str!("sql/instance_columns.sql"),
            "FROM tenant_fences f CROSS JOIN instances i INDEXED BY ",
            $index,
            " ON i.tenant_no = f.tenant_no CROSS JOIN births b ON b.instance_id = i.id
            LEFT JOIN errors e ON e.instance_id = i.id
            WHERE f.tenant_id = ?1 AND f.placement_epoch = ?2 AND (i.created_at, i.id) < (?3, ?4) ",
            $status,
            include_str!("sql/list_filter.sql")
        )
    };
}

pub(super) const ALL: &str = probe!("instances_list", "");
pub(super) const COMPLETED: &str = probe!("instances_list", "AND i.status = 5");
pub(super) const OPEN: &str =
    probe!("instances_open", "AND i.closed_at IS NULL AND i.status IN (SELECT value FROM json_each(?10))");
pub(super) const PAUSED: &str = probe!("instances_rare", "AND i.status IN (4, 6, 7) AND i.status = 4");
pub(super) const FAILED: &str = probe!("instances_rare", "AND i.status IN (4, 6, 7) AND i.status = 6");
pub(super) const CANCELLED: &str = probe!("instances_rare", "AND i.status IN (4, 6, 7) AND i.status = 7");

pub(super) async fn list(
    reader: &Reader,
    tenant: &TenantHandle,
    filter: &InstanceFilter,
    after: Option<PageAfter>,
    limit: u32,
) -> Result<Vec<InstanceRow>, StoreError> {
    let mut found = Vec::new();
    for probe in probes(&filter.statuses) {
        let args = arguments(tenant, filter, after, limit).text(&statuses(&probe));
        for row in &reader.rows("list of instances", sql(&probe), args).await? {
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

/// The codes of open statuses, as JSON.
fn statuses(probe: &Probe) -> String {
    match probe {
        Probe::Open(statuses) => {
            format!("{:?}", statuses.iter().map(|s| status_code(*s)).collect::<Vec<_>>())
        }
        Probe::All | Probe::Paused | Probe::Completed | Probe::Failed | Probe::Cancelled => String::new(),
    }
}

fn arguments(tenant: &TenantHandle, filter: &InstanceFilter, after: Option<PageAfter>, limit: u32) -> Args {
    let before = page_end(filter, after);
    handle_args(tenant)
        .int(before.map_or(i64::MAX, |(at, _)| at.0))
        .blob(before.and_then(|(_, id)| id).as_ref().map_or(&[], |id| id.as_bytes().as_slice()))
        .int(filter.created_after.map_or(i64::MIN, |at| at.0))
        .opt_text(filter.namespace.as_ref().map(Namespace::as_str))
        .opt_blob(filter.sequence.as_ref().map(|id| id.as_bytes().as_slice()))
        .opt_text(filter.sequence_name.as_ref().map(SequenceName::as_str))
        .int(limit)
}
