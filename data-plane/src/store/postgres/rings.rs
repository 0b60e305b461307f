//! The rings of ready rows and of timers: partitions that are emptied as a whole, so that nobody ever reads past the
//! dead rows of an hour ago.
//!
//! What is left in a partition whose turn it is to be emptied is moved first, shard by shard, under the lock of the
//! shard's lease: no turn of that shard is on its way then, so none can miss a row that is just being moved. A row that
//! somehow gets in later stops the emptying, and is moved the next time.

use std::time::Duration;

use orch8_model::Millis;
use sqlx::{AssertSqlSafe, Row as _};

use super::{
    maintain::DAY_MS,
    raise::is_late,
    session::{Args, Pool, database},
};
use crate::store::StoreError;

const DOING: &str = "turning of a ring";
/// Generations of ready rows, and slots of timers for one day each, as the schema has them.
const PARTS: i64 = 8;
/// The slot of timers that are further away.
const FAR: i64 = 8;
/// How long new ready rows go to one generation: long enough that few are left when its turn comes.
const GENERATION_MS: i64 = 5 * 60_000;
/// Days from today on that have a slot; two more slots are of days that are over. Also in `turn_timers.sql`.
const NEAR_DAYS: i64 = 6;
/// Rows that are moved by one transaction: the shard's turns wait for it.
const MOVED_AT_ONCE: i64 = 2_000;
/// Transactions of one call; the rest is for the next one.
const MOVES_MAX: usize = 256;
/// How often a partition that somebody reads is tried.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

pub(super) const WHERE_IS: &str = "SELECT position, since FROM rings WHERE ring = $1";
/// Only the one who saw it there moves it on.
pub(super) const MOVE_ON: &str =
    "UPDATE rings SET position = $3, since = $4 WHERE ring = $1 AND position = $2 RETURNING position";
pub(super) const LEASE: &str = "SELECT shard FROM shard_leases WHERE shard = $1 FOR NO KEY UPDATE";

/// The generation after the current one is the oldest: once it is empty, it takes the new rows.
pub(super) async fn turn_ready(pool: &Pool, now: Millis) -> Result<(), StoreError> {
    let Some((position, since)) = where_is(pool, "ready").await? else { return Ok(()) };
    if now.since(Millis(since)) < GENERATION_MS {
        return Ok(());
    }
    let oldest = Part::Ready { from: (position + 1) % PARTS, into: position % PARTS };
    if oldest.empty(pool).await? {
        move_on(pool, "ready", position, position + 1, now).await?;
    }
    Ok(())
}

/// Today's slot is told to writers; slots of days that are over are emptied; far timers that came near get a slot.
pub(super) async fn turn_timers(pool: &Pool, now: Millis) -> Result<(), StoreError> {
    let Some((position, _)) = where_is(pool, "timers").await? else { return Ok(()) };
    let today = now.0.max(0) / DAY_MS;
    if today > position {
        move_on(pool, "timers", position, today, now).await?;
    }
    let today = today.max(position);
    for over in NEAR_DAYS..PARTS {
        Part::Slot((today + over) % PARTS).empty(pool).await?;
    }
    let near = (today + NEAR_DAYS).saturating_mul(DAY_MS);
    Part::Far { before: near }.move_rows(pool).await.map(drop)
}

async fn where_is(pool: &Pool, ring: &str) -> Result<Option<(i64, i64)>, StoreError> {
    let row = pool.row(DOING, WHERE_IS, || Args::new().with(ring)).await?;
    let of =
        |at| row.as_ref().map(|row| row.try_get::<i64, _>(at)).transpose().map_err(|e| database(DOING, e));
    Ok(of(0)?.zip(of(1)?))
}

async fn move_on(pool: &Pool, ring: &str, from: i64, to: i64, now: Millis) -> Result<(), StoreError> {
    pool.write(DOING, MOVE_ON, Args::new().with(ring).with(from).with(to).with(now.0)).await.map(drop)
}

/// A partition whose rows have to leave it.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A generation of ready rows, and the one that takes what is left.
    Ready { from: i64, into: i64 },
    /// A day that is over: what is left is due, and goes to today's slot.
    Slot(i64),
    /// Far timers that are due before an instant: each to the slot of its day.
    Far { before: i64 },
}

impl Part {
    fn table(self) -> String {
        match self {
            Self::Ready { from, .. } => format!("ready_{from}"),
            Self::Slot(slot) => format!("timers_{slot}"),
            Self::Far { .. } => format!("timers_{FAR}"),
        }
    }

    /// Which of its rows.
    fn filter(self) -> String {
        match self {
            Self::Ready { .. } | Self::Slot(_) => "true".to_owned(),
            Self::Far { before } => format!("due_at < {before}"),
        }
    }

    /// Moves $2 rows of shard $1.
    fn moving(self) -> String {
        let (table, filter) = (self.table(), self.filter());
        let gone = format!(
            "WITH gone AS (
               DELETE FROM {table} WHERE ctid = ANY(ARRAY(
                 SELECT ctid FROM {table} WHERE shard = $1 AND {filter} LIMIT $2
               ))
               RETURNING *
             )"
        );
        match self {
            Self::Ready { into, .. } => format!(
                "{gone} INSERT INTO ready (due_at, tenant_no, shard, priority, gen, later, instance_id)
                 SELECT due_at, tenant_no, shard, priority, {into}, later, instance_id FROM gone"
            ),
            Self::Slot(_) | Self::Far { .. } => format!(
                "{gone} INSERT INTO timers (due_at, node, shard, slot, instance_id)
                 SELECT due_at, node, shard, greatest(due_at / {DAY_MS}, r.position) % {PARTS}, instance_id
                 FROM gone CROSS JOIN (SELECT position FROM rings WHERE ring = 'timers') r
                 ON CONFLICT DO NOTHING"
            ),
        }
    }

    /// Moves what is left and empties it. `false`: not now.
    async fn empty(self, pool: &Pool) -> Result<bool, StoreError> {
        if self.is_new(pool).await? {
            return Ok(true);
        }
        if !self.move_rows(pool).await? {
            return Ok(false);
        }
        for _ in 0..TRIES {
            match self.truncate(pool).await {
                Err(StoreError::Database { source, .. }) if is_late(&source) => {
                    tokio::time::sleep(PAUSE).await;
                }
                emptied => return emptied,
            }
        }
        Ok(false)
    }

    /// Nothing was ever written to it since it was emptied.
    async fn is_new(self, pool: &Pool) -> Result<bool, StoreError> {
        const SIZE: &str = "SELECT pg_relation_size($1::text::regclass)";
        let row = pool.row(DOING, SIZE, || Args::new().with(self.table())).await?;
        let size = row.map(|row| row.try_get::<i64, _>(0)).transpose().map_err(|e| database(DOING, e))?;
        Ok(size == Some(0))
    }

    /// `false`: there is more than one call should do.
    async fn move_rows(self, pool: &Pool) -> Result<bool, StoreError> {
        let mut moves = 0;
        for shard in self.shards(pool).await? {
            loop {
                if moves == MOVES_MAX {
                    return Ok(false);
                }
                moves += 1;
                if self.move_some(pool, shard).await? < MOVED_AT_ONCE as u64 {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Shards that have rows to move.
    async fn shards(self, pool: &Pool) -> Result<Vec<i64>, StoreError> {
        let (table, filter) = (self.table(), self.filter());
        let sql = format!(
            "SELECT l.shard::bigint FROM shard_leases l
             WHERE (SELECT shard FROM {table} WHERE shard = l.shard AND {filter} LIMIT 1) IS NOT NULL
             ORDER BY l.shard"
        );
        let rows = pool.rows(DOING, AssertSqlSafe(sql), Args::new).await?;
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(|e| database(DOING, e))
    }

    async fn move_some(self, pool: &Pool, shard: i64) -> Result<u64, StoreError> {
        let mut tx = pool.begin(DOING).await?;
        let mut session = tx.session();
        session.rows(LEASE, Args::new().with(shard)).await?;
        let moving = AssertSqlSafe(self.moving());
        let moved = session.execute(moving, Args::new().with(shard).with(MOVED_AT_ONCE)).await?;
        tx.commit().await?;
        Ok(moved)
    }

    /// The lock first; then a look, in a statement of its own, at whatever was committed before it. `false`: there is
    /// something.
    async fn truncate(self, pool: &Pool) -> Result<bool, StoreError> {
        let table = self.table();
        let mut tx = pool.begin(DOING).await?;
        let mut session = tx.session();
        let lock = format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE NOWAIT");
        session.execute(AssertSqlSafe(lock), Args::new()).await?;
        let look = format!("SELECT 1 FROM {table} LIMIT 1");
        if !session.rows(AssertSqlSafe(look), Args::new()).await?.is_empty() {
            tx.roll_back().await;
            return Ok(false);
        }
        session.execute(AssertSqlSafe(format!("TRUNCATE {table}")), Args::new()).await?;
        tx.commit().await?;
        Ok(true)
    }
}
