//! Instances read back: the row, and what is needed to go on. One statement, so that what it reads is one state.

use std::collections::{HashMap, HashSet};

use orch8_model::{ContinuityId, InstanceId, Millis, Namespace, PlacementEpoch, SequenceId, Shard, TenantId};
use sqlx::postgres::PgRow;

use super::{
    fence::handle_args,
    fields::{Fields, bucket},
    session::{Args, Pool},
};
use crate::store::{BirthRow, InstanceRow, JournalRow, Loaded, StoreError, TenantHandle, codes::status_of};

const DOING: &str = "read of instances";

pub(super) const MANY: &str = concat!(
    "SELECT ",
    include_str!("sql/instance_columns.sql"),
    ", s.turn_no, s.body, t.turn_nos, t.ats, t.bodies ",
    include_str!("sql/load_rows.sql"),
    include_str!("sql/load_tails.sql"),
);
pub(super) const LOAD_ONE: &str = concat!(
    "SELECT ",
    include_str!("sql/instance_columns.sql"),
    ", s.turn_no, s.body, t.turn_nos, t.ats, t.bodies ",
    "FROM (SELECT $3::uuid, $4::bigint) AS v (id, bucket) ",
    include_str!("sql/instance_one.sql"),
    include_str!("sql/load_tails.sql"),
    " WHERE f.tenant_id = $1 AND f.placement_epoch = $2"
);
pub(super) const ONE: &str = concat!(
    "SELECT ",
    include_str!("sql/instance_columns.sql"),
    "FROM (SELECT $3::uuid, $4::bigint) AS v (id, bucket) ",
    include_str!("sql/instance_one.sql"),
    " WHERE f.tenant_id = $1 AND f.placement_epoch = $2"
);
pub(super) const TURNS: &str = include_str!("sql/turns.sql");

/// In the order asked for, each once; what does not exist is left out.
pub(super) async fn load(pool: &Pool, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
    // Asked for twice, a row would be read twice.
    let mut ids = ids.to_vec();
    let mut seen = HashSet::with_capacity(ids.len());
    ids.retain(|id| seen.insert(*id));
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let uuids: Vec<uuid::Uuid> = ids.iter().map(|id| id.0).collect();
    let buckets: Vec<i64> = uuids.iter().map(|id| bucket(*id)).collect();
    let rows = pool.rows(DOING, MANY, || Args::new().with(&buckets).with(&uuids)).await?;
    let mut loaded = HashMap::with_capacity(rows.len());
    for row in &rows {
        let row = one_loaded(row)?;
        loaded.insert(row.row.birth.instance, row);
    }
    Ok(ids.iter().filter_map(|id| loaded.remove(id)).collect())
}

pub(super) async fn load_one(
    pool: &Pool,
    tenant: &TenantHandle,
    id: InstanceId,
) -> Result<Option<Loaded>, StoreError> {
    let row = pool.row(DOING, LOAD_ONE, || handle_args(tenant).with(id.0).with(bucket(id.0))).await?;
    row.as_ref().map(one_loaded).transpose()
}

fn one_loaded(row: &PgRow) -> Result<Loaded, StoreError> {
    let f = Fields::of("journal", row);
    let snapshot = match f.get::<Option<i64>>(17, "turn_no")? {
        None => None,
        Some(_) => Some((f.narrow(17, "turn_no")?, f.text(18, "body")?.to_owned())),
    };
    let turn_nos = f.get::<Option<Vec<i64>>>(19, "turn_no")?.unwrap_or_default();
    let ats = f.get::<Option<Vec<i64>>>(20, "at")?.unwrap_or_default();
    let bodies = f.get::<Option<Vec<String>>>(21, "body")?.unwrap_or_default();
    let tail = turn_nos.into_iter().zip(ats).zip(bodies).map(|((turn_no, at), body)| {
        let turn_no = f.noun("turn_no", u64::try_from(turn_no).ok())?;
        Ok(JournalRow { turn_no, at: Millis(at), body })
    });
    Ok(Loaded { row: instance_row(row)?, snapshot, tail: tail.collect::<Result<_, StoreError>>()? })
}

pub(super) async fn instance(
    pool: &Pool,
    tenant: &TenantHandle,
    id: InstanceId,
) -> Result<Option<InstanceRow>, StoreError> {
    let row = pool.row(DOING, ONE, || handle_args(tenant).with(id.0).with(bucket(id.0))).await?;
    row.as_ref().map(instance_row).transpose()
}

pub(super) async fn turns(
    pool: &Pool,
    tenant: &TenantHandle,
    id: InstanceId,
    after: Option<u64>,
    limit: u32,
) -> Result<Vec<JournalRow>, StoreError> {
    let after = after.map_or(-1, |turn_no| i64::try_from(turn_no).unwrap_or(i64::MAX));
    let args = || handle_args(tenant).with(id.0).with(bucket(id.0)).with(after).with(i64::from(limit));
    pool.rows("read of turns", TURNS, args).await?.iter().map(turn).collect()
}

fn turn(row: &PgRow) -> Result<JournalRow, StoreError> {
    let f = Fields::of("journal", row);
    Ok(JournalRow {
        turn_no: f.narrow(0, "turn_no")?,
        at: f.millis(1, "at")?,
        body: f.text(2, "body")?.to_owned(),
    })
}

/// Reads `instance_columns.sql`.
pub(super) fn instance_row(row: &PgRow) -> Result<InstanceRow, StoreError> {
    let f = Fields::of("instances", row);
    Ok(InstanceRow {
        tenant: TenantHandle {
            tenant: f.name(1, "tenant_id", TenantId::parse)?,
            placement: f.noun("placement_epoch", PlacementEpoch::new(f.narrow(2, "placement_epoch")?))?,
        },
        shard: Shard(f.narrow(3, "shard")?),
        birth: BirthRow {
            instance: f.instance(0, "id")?,
            continuity: ContinuityId(f.uuid(4, "continuity_id")?),
            sequence: SequenceId(f.uuid(5, "sequence_id")?),
            namespace: f.name(6, "namespace", Namespace::parse)?,
            priority: f.narrow(7, "priority")?,
            timezone: f.text(8, "timezone")?.to_owned(),
            data: f.text(9, "data")?.to_owned(),
            config: f.text(10, "config")?.to_owned(),
            metadata: f.text(11, "metadata")?.to_owned(),
            created_at: f.millis(12, "created_at")?,
            fire_at: f.millis(13, "fire_at")?,
        },
        status: f.noun("status", status_of(f.int(14, "status")?))?,
        closed_at: f.get::<Option<i64>>(15, "closed_at")?.map(Millis),
        error: f.get(16, "error")?,
    })
}
