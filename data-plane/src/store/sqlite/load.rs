//! Instances read back: the row, and what is needed to go on.

use std::collections::{HashMap, HashSet};

use orch8_model::{ContinuityId, InstanceId, Namespace, PlacementEpoch, SequenceId, Shard, TenantId};
use sqlx::sqlite::SqliteRow;

use super::{
    batch::Batch,
    fence::handle_args,
    fields::Fields,
    session::{Reader, Session},
};
use crate::store::{BirthRow, InstanceRow, JournalRow, Loaded, StoreError, TenantHandle, codes::status_of};

const DOING: &str = "read of instances";

pub(super) static ROWS: Batch = Batch::new(concat!(
    "WITH v (id) AS (VALUES (?)) SELECT ",
    include_str!("sql/instance_columns.sql"),
    ", s.turn_no, s.body ",
    include_str!("sql/load_rows.sql")
));
pub(super) static TAILS: Batch = Batch::new(include_str!("sql/load_tails.sql"));
pub(super) const ONE: &str =
    concat!("SELECT ", include_str!("sql/instance_columns.sql"), include_str!("sql/instance_one.sql"));
pub(super) const TURNS: &str = include_str!("sql/turns.sql");

/// In the order asked for, each once; what does not exist is left out.
pub(super) async fn load(reader: &Reader, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
    let mut snapshot = reader.snapshot(DOING).await?;
    load_in(&mut snapshot.session(), ids).await
}

pub(super) async fn load_one(
    reader: &Reader,
    tenant: &TenantHandle,
    id: InstanceId,
) -> Result<Option<Loaded>, StoreError> {
    let mut snapshot = reader.snapshot(DOING).await?;
    let mut session = snapshot.session();
    match session.row(ONE, handle_args(tenant).blob(id.as_bytes())).await? {
        Some(_) => Ok(load_in(&mut session, &[id]).await?.pop()),
        None => Ok(None),
    }
}

async fn load_in(session: &mut Session<'_>, ids: &[InstanceId]) -> Result<Vec<Loaded>, StoreError> {
    // Asked for twice, a row would be read twice.
    let mut ids = ids.to_vec();
    let mut seen = HashSet::with_capacity(ids.len());
    ids.retain(|id| seen.insert(*id));
    let rows = session.batch_rows(&ROWS, &ids, |args, _, id| args.blob(id.as_bytes())).await?;
    let tails = session.batch_rows(&TAILS, &ids, |args, _, id| args.blob(id.as_bytes())).await?;
    let mut loaded = HashMap::with_capacity(rows.len());
    for row in &rows {
        let row = one_loaded(row)?;
        loaded.insert(row.row.birth.instance, row);
    }
    for row in &tails {
        let id = Fields::of("journal", row).instance(3, "instance_id")?;
        if let Some(loaded) = loaded.get_mut(&id) {
            loaded.tail.push(turn(row)?);
        }
    }
    Ok(ids.iter().filter_map(|id| loaded.remove(id)).map(in_order).collect())
}

fn one_loaded(row: &SqliteRow) -> Result<Loaded, StoreError> {
    let f = Fields::of("snapshots", row);
    let snapshot = match f.opt_int(17, "turn_no")? {
        None => None,
        Some(_) => Some((f.narrow(17, "turn_no")?, f.text(18, "body")?.to_owned())),
    };
    Ok(Loaded { row: instance_row(row)?, snapshot, tail: Vec::new() })
}

fn in_order(mut loaded: Loaded) -> Loaded {
    loaded.tail.sort_unstable_by_key(|turn| turn.turn_no);
    loaded
}

pub(super) async fn instance(
    reader: &Reader,
    tenant: &TenantHandle,
    id: InstanceId,
) -> Result<Option<InstanceRow>, StoreError> {
    let row = reader.row(DOING, ONE, handle_args(tenant).blob(id.as_bytes())).await?;
    row.as_ref().map(instance_row).transpose()
}

pub(super) async fn turns(
    reader: &Reader,
    tenant: &TenantHandle,
    id: InstanceId,
    after: Option<u64>,
    limit: u32,
) -> Result<Vec<JournalRow>, StoreError> {
    let after = after.map_or(-1, |turn_no| i64::try_from(turn_no).unwrap_or(i64::MAX));
    let args = handle_args(tenant).blob(id.as_bytes()).int(after).int(limit);
    reader.rows("read of turns", TURNS, args).await?.iter().map(turn).collect()
}

fn turn(row: &SqliteRow) -> Result<JournalRow, StoreError> {
    let f = Fields::of("journal", row);
    Ok(JournalRow {
        turn_no: f.narrow(0, "turn_no")?,
        at: f.millis(1, "at")?,
        body: f.text(2, "body")?.to_owned(),
    })
}

/// Reads `instance_columns.sql`.
pub(super) fn instance_row(row: &SqliteRow) -> Result<InstanceRow, StoreError> {
    let f = Fields::of("instances", row);
    Ok(InstanceRow {
        tenant: TenantHandle {
            tenant: f.name(1, "tenant_id", TenantId::parse)?,
            placement: f.noun("placement_epoch", PlacementEpoch::new(f.narrow(2, "placement_epoch")?))?,
        },
        shard: Shard(f.narrow(3, "shard")?),
        birth: BirthRow {
            instance: f.instance(0, "id")?,
            continuity: f.bytes(4, "continuity_id", ContinuityId::from_slice)?,
            sequence: f.bytes(5, "sequence_id", SequenceId::from_slice)?,
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
        closed_at: f.opt_int(15, "closed_at")?.map(orch8_model::Millis),
        error: f.opt_text(16, "error")?.map(str::to_owned),
    })
}
