//! Lists of instances, newest first, by keyset. A list by status is a merge of a few probes, each on an index that holds
//! little else than what is asked for.

use orch8_engine::Status;
use orch8_model::{Namespace, SequenceName};

use super::{
    fence::handle_args,
    fields::status_code,
    load::instance_row,
    session::{Args, Reader},
};
use crate::store::{InstanceFilter, InstanceRow, PageAfter, StoreError, TenantHandle};

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
    let mut page = Vec::new();
    for (sql, statuses) in probes(&filter.statuses) {
        let args = arguments(tenant, filter, after, limit).text(&statuses);
        for row in &reader.rows("list of instances", sql, args).await? {
            page.push(instance_row(row)?);
        }
    }
    page.sort_unstable_by_key(|row| std::cmp::Reverse((row.birth.created_at, row.birth.instance)));
    // Between two probes an instance may have changed its status, and answer both.
    page.dedup_by_key(|row| row.birth.instance);
    page.truncate(limit as usize);
    Ok(page)
}

/// Which statements answer a list of statuses, each with the statuses it is asked for as JSON.
fn probes(statuses: &[Status]) -> Vec<(&'static str, String)> {
    if statuses.is_empty() {
        return vec![(ALL, String::new())];
    }
    let (mut probes, mut open) = (Vec::new(), Vec::new());
    for status in statuses {
        match status {
            Status::Scheduled | Status::Running | Status::Waiting => open.push(status_code(*status)),
            Status::Paused => probes.push((PAUSED, String::new())),
            Status::Completed => probes.push((COMPLETED, String::new())),
            Status::Failed => probes.push((FAILED, String::new())),
            Status::Cancelled => probes.push((CANCELLED, String::new())),
        }
    }
    if !open.is_empty() {
        probes.push((OPEN, format!("{open:?}")));
    }
    probes.sort_unstable();
    probes.dedup();
    probes
}

fn arguments(tenant: &TenantHandle, filter: &InstanceFilter, after: Option<PageAfter>, limit: u32) -> Args {
    // Both ends of a page are the same kind of bound: an instant alone is older than every id at that instant.
    let page = after.map(|PageAfter { created_at, id }| (created_at.0, id.as_bytes().to_vec()));
    let before = filter.created_before.map(|at| (at.0, Vec::new()));
    let (created_at, id) = page.into_iter().chain(before).min().unwrap_or((i64::MAX, Vec::new()));
    handle_args(tenant)
        .int(created_at)
        .blob(&id)
        .int(filter.created_after.map_or(i64::MIN, |at| at.0))
        .opt_text(filter.namespace.as_ref().map(Namespace::as_str))
        .opt_blob(filter.sequence.as_ref().map(|id| id.as_bytes().as_slice()))
        .opt_text(filter.sequence_name.as_ref().map(SequenceName::as_str))
        .int(limit)
}
