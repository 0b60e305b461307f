//! Steps per second through the SQLite store against the raw journal on the same disk, alternately in one run.
//!
//! Raw: one connection, WAL, `synchronous=FULL`, arrays of 256: insert instance rows, k − 1 times insert one output row
//! per instance, last insert outputs and complete the instances. Store: starts, then k + 1 turns per instance in commits
//! of 256, over 100 tenants. k = 5, 256 bytes of JSON each. Only ratios of one run count; a run whose raw figures differ
//! by more than 1.5 says nothing.
//!
//! `cargo run --release -p orch8-data-plane --example store_speed [rounds] [folder]`

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use orch8_data_plane::store::{
    BirthRow, Closing, Commit, Fence, FenceMode, Lease, Raised, Start, Store, TenantHandle, TurnAnswer,
    TurnWrite,
};
use orch8_engine::Status;
use orch8_model::{
    ContinuityId, InstanceId, LeaseEpoch, Millis, Namespace, NodeName, PlacementEpoch, SequenceId, Shard,
    TenantId,
};
use orch8_seal::shard_of;
use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, SqliteConnection,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use uuid::Uuid;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Instances of one array.
const ARRAY: usize = 256;
/// Steps of a workflow.
const STEPS: usize = 5;
/// Arrays of one measurement.
const ARRAYS: usize = 24;
const TENANTS: usize = 100;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let folder = tempfile::tempdir_in(args.next().map_or_else(std::env::temp_dir, PathBuf::from))?;
    let mut raw = Raw::open(&folder.path().join("raw.db")).await?;
    let mut ours = Ours::open(&folder.path().join("store.db")).await?;
    pair(&mut raw, &mut ours).await?;

    let mut figures = Vec::new();
    println!("round   raw steps/s   store steps/s   ratio   turns/s (commit alone)   ratio   starts/s");
    for round in 1..=rounds {
        let took = pair(&mut raw, &mut ours).await?;
        let raw_steps = per_second(ARRAYS * ARRAY * STEPS, took.raw);
        let steps = per_second(ARRAYS * ARRAY * STEPS, took.starting + took.turning);
        let turns = per_second(ARRAYS * ARRAY * (STEPS + 1), took.turning);
        let starts = per_second(ARRAYS * ARRAY, took.starting);
        println!(
            "{round:>5}   {raw_steps:>11.0}   {steps:>13.0}   {:>5.2}   {turns:>22.0}   {:>5.2}   {starts:>8.0}",
            steps / raw_steps,
            turns / raw_steps
        );
        figures.push([steps / raw_steps, turns / raw_steps, raw_steps]);
    }
    let spread = figures.iter().map(|f| f[2]).fold(f64::MIN, f64::max)
        / figures.iter().map(|f| f[2]).fold(f64::MAX, f64::min);
    println!(
        "median  store ÷ raw {:.2}   commit ÷ raw {:.2}   raw spread {spread:.2}",
        median(&figures, 0),
        median(&figures, 1)
    );
    let counters = ours.store.counters();
    println!(
        "statements per turn {:.3}   turns per transaction {:.0}",
        counters.statements as f64 / counters.turns as f64,
        counters.turns as f64 / counters.transactions as f64
    );
    println!("WAL bytes per step   raw {}   store {}", raw.wal_per_step().await?, ours.wal_per_step().await?);
    ours.store.close().await;
    Ok(())
}

#[derive(Default)]
struct Took {
    raw: Duration,
    starting: Duration,
    turning: Duration,
}

/// Array by array in turn, so that whatever else the machine does falls on both.
async fn pair(raw: &mut Raw, ours: &mut Ours) -> Outcome<Took> {
    let mut took = Took::default();
    for _ in 0..ARRAYS {
        let began = Instant::now();
        raw.array().await?;
        took.raw += began.elapsed();
        let (starting, turning) = ours.array().await?;
        took.starting += starting;
        took.turning += turning;
    }
    Ok(took)
}

fn per_second(n: usize, took: Duration) -> f64 {
    n as f64 / took.as_secs_f64()
}

fn median(figures: &[[f64; 3]], at: usize) -> f64 {
    let mut sorted: Vec<f64> = figures.iter().map(|f| f[at]).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(since.as_millis() as i64)
}

fn json() -> String {
    format!("{{\"v\":\"{}\"}}", "x".repeat(248))
}

fn ids() -> Vec<Uuid> {
    (0..ARRAY).map(|_| Uuid::now_v7()).collect()
}

fn tenant(n: usize) -> String {
    format!("tenant-{:03}", n % TENANTS)
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(false)
        .pragma("cache_size", "-16384")
        .pragma("wal_autocheckpoint", "4096")
        .disable_statement_logging()
}

fn wal_length(path: &Path) -> Outcome<u64> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    Ok(std::fs::metadata(PathBuf::from(name))?.len())
}

/// Cuts the log behind the back of whoever has the file open; answers when it is empty.
async fn cut_wal(path: &Path) -> Outcome<()> {
    let mut conn = options(path).connect().await?;
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
    conn.close().await?;
    Ok(())
}

/// The fixed reference.
struct Raw {
    path: PathBuf,
    conn: SqliteConnection,
    insert_ti: String,
    insert_so: String,
    complete: String,
}

impl Raw {
    async fn open(path: &Path) -> Outcome<Self> {
        let mut conn = options(path).connect().await?;
        conn.execute(
            "CREATE TABLE ti (id BLOB PRIMARY KEY, tenant_id TEXT, seq_id INTEGER, state TEXT, priority INTEGER,
               next_fire_at INTEGER, step INTEGER, ctx TEXT, created_at INTEGER, updated_at INTEGER) STRICT;
             CREATE INDEX ti_due ON ti (priority DESC, next_fire_at) WHERE state = 'scheduled';
             CREATE TABLE so (instance_id BLOB, step INTEGER, output TEXT, created_at INTEGER,
               PRIMARY KEY (instance_id, step)) STRICT;",
        )
        .await?;
        let rows = |row: &str| vec![row; ARRAY].join(", ");
        Ok(Self {
            path: path.to_owned(),
            conn,
            insert_ti: format!("INSERT INTO ti VALUES {}", rows("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")),
            insert_so: format!("INSERT INTO so VALUES {}", rows("(?, ?, ?, ?)")),
            complete: format!(
                "UPDATE ti SET state = 'completed', updated_at = ? WHERE id IN ({})",
                rows("?")
            ),
        })
    }

    async fn array(&mut self) -> Outcome<()> {
        let (ids, at, json) = (ids(), now().0, json());
        let mut args = SqliteArguments::default();
        for (n, id) in ids.iter().enumerate() {
            args.add(id.as_bytes().as_slice())?;
            args.add(tenant(n))?;
            args.add(1_i64)?;
            args.add("running")?;
            args.add(1_i64)?;
            args.add(at)?;
            args.add(0_i64)?;
            args.add(json.clone())?;
            args.add(at)?;
            args.add(at)?;
        }
        execute(&mut self.conn, &self.insert_ti, args).await?;
        for step in 0..STEPS {
            let last = step + 1 == STEPS;
            if last {
                self.conn.execute("BEGIN IMMEDIATE").await?;
            }
            let mut args = SqliteArguments::default();
            for id in &ids {
                args.add(id.as_bytes().as_slice())?;
                args.add(step as i64)?;
                args.add(json.clone())?;
                args.add(at)?;
            }
            execute(&mut self.conn, &self.insert_so, args).await?;
            if last {
                let mut args = SqliteArguments::default();
                args.add(at)?;
                for id in &ids {
                    args.add(id.as_bytes().as_slice())?;
                }
                execute(&mut self.conn, &self.complete, args).await?;
                self.conn.execute("COMMIT").await?;
            }
        }
        Ok(())
    }

    async fn wal_per_step(&mut self) -> Outcome<u64> {
        cut_wal(&self.path).await?;
        self.array().await?;
        Ok(wal_length(&self.path)? / (ARRAY * STEPS) as u64)
    }
}

async fn execute(conn: &mut SqliteConnection, sql: &str, args: SqliteArguments) -> Outcome<()> {
    sqlx::query_with(AssertSqlSafe(sql), args).execute(conn).await?;
    Ok(())
}

/// The store, as a shard owner and a client API use it.
struct Ours {
    path: PathBuf,
    store: Store,
    leases: Vec<Lease>,
    tenants: Vec<TenantHandle>,
}

impl Ours {
    async fn open(path: &Path) -> Outcome<Self> {
        let store = Store::open_file(path).await?;
        let (node, epoch) = (NodeName::parse("speed")?, LeaseEpoch::new(1).ok_or("an epoch")?);
        let mut leases = Vec::new();
        for shard in (0..store.shards()).map(Shard) {
            match store.raise(shard, &node, epoch).await? {
                Raised::Won { lease, .. } => leases.push(lease),
                Raised::Stale { .. } => return Err("a fresh store has no owner".into()),
            }
        }
        let mut tenants = Vec::new();
        for n in 0..TENANTS {
            let handle = TenantHandle {
                tenant: TenantId::parse(&tenant(n))?,
                placement: PlacementEpoch::new(1).ok_or("an epoch")?,
            };
            let (tenant, placement) = (handle.tenant.clone(), handle.placement);
            store.set_fence(Fence { tenant, placement, mode: FenceMode::Active, weight: 1 }).await?;
            tenants.push(handle);
        }
        Ok(Self { path: path.to_owned(), store, leases, tenants })
    }

    /// Time for starts, time for turns.
    async fn array(&mut self) -> Outcome<(Duration, Duration)> {
        let (ids, json) = (ids(), json());
        let began = Instant::now();
        // As many callers as instances: what waits together is written together.
        let starts = ids.iter().enumerate().map(|(n, id)| {
            let start = Start { birth: birth(*id, &json), once: None };
            self.store.start(&self.tenants[n % TENANTS], vec![start])
        });
        for started in join_all(starts).await {
            started?.ok_or("the fence is open")?;
        }
        let starting = began.elapsed();
        let began = Instant::now();
        for turn_no in 0..=STEPS {
            let turns = ids.iter().enumerate().map(|(n, id)| self.turn(n, InstanceId(*id), turn_no, &json));
            let commit = Commit { leases: self.leases.clone(), turns: turns.collect() };
            let answers = self.store.commit(commit).await?;
            if answers.iter().any(|answer| *answer != TurnAnswer::Done) {
                return Err("a turn was refused".into());
            }
        }
        Ok((starting, began.elapsed()))
    }

    /// A worker workflow is waiting from its first turn to its close.
    fn turn(&self, n: usize, instance: InstanceId, turn_no: usize, json: &str) -> TurnWrite {
        let (first, last) = (turn_no == 0, turn_no == STEPS);
        TurnWrite {
            shard: shard_of(instance, self.store.shards()),
            tenant: self.tenants[n % TENANTS].clone(),
            instance,
            turn_no: turn_no as u64,
            at: now(),
            body: json.to_owned(),
            snapshot: None,
            status: if first { Some(Status::Waiting) } else { last.then_some(Status::Completed) },
            closing: last.then(|| Closing { closed_at: now(), error: None }),
            mail: Vec::new(),
            timers: Vec::new(),
            ready: first,
        }
    }

    async fn wal_per_step(&mut self) -> Outcome<u64> {
        cut_wal(&self.path).await?;
        self.array().await?;
        Ok(wal_length(&self.path)? / (ARRAY * STEPS) as u64)
    }
}

fn birth(id: Uuid, json: &str) -> BirthRow {
    BirthRow {
        instance: InstanceId(id),
        continuity: ContinuityId(id),
        sequence: SequenceId(Uuid::nil()),
        namespace: Namespace::default_namespace(),
        priority: 1,
        timezone: "UTC".to_owned(),
        data: json.to_owned(),
        config: "{}".to_owned(),
        metadata: "{}".to_owned(),
        created_at: now(),
        fire_at: now(),
    }
}
