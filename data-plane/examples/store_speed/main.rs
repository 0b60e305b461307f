//! Steps per second through a store against the raw journal on the same machine, alternately in one run.
//!
//! Raw, SQLite: one connection, WAL, `synchronous=FULL`, arrays of 256: insert instance rows, k − 1 times insert one
//! output row per instance, last insert outputs and complete the instances. Raw, Postgres: the same on two connections
//! with arrays of 1,024. Store: starts, then k + 1 turns per instance in commits of as many, by as many committers, over
//! 100 tenants. k = 5, 256 bytes of JSON each. Only ratios of one run count; a run whose raw figures differ by more than
//! 1.5 says nothing.
//!
//! `cargo run --release -p orch8-data-plane --example store_speed [rounds] [folder | postgres://… | postgres]`;
//! `postgres` alone starts a server of its own.

mod postgres;
mod sqlite;

use std::{
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures::future::{join_all, try_join_all};
use orch8_data_plane::store::{
    BirthRow, Closing, Commit, Fence, FenceMode, Lease, Placement, Raised, Start, Store, TenantHandle,
    TurnAnswer, TurnWrite,
};
use orch8_engine::Status;
use orch8_model::{
    ContinuityId, DatabaseUrl, InstanceId, LeaseEpoch, Millis, Namespace, NodeName, PlacementEpoch,
    SequenceId, Shard, StoreName, TenantId,
};
use orch8_seal::shard_of;
use uuid::Uuid;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Steps of a workflow.
const STEPS: usize = 5;
/// Instances of one measurement.
const INSTANCES: usize = 6_144;
const TENANTS: usize = 100;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    match args.next() {
        Some(word) if word == "postgres" => {
            let cluster = orch8_test_postgres::Cluster::start();
            on_postgres(rounds, &cluster.database(), &cluster.database()).await
        }
        Some(url) if url.starts_with("postgres") => on_postgres(rounds, &url, &url).await,
        folder => on_sqlite(rounds, folder.map_or_else(std::env::temp_dir, PathBuf::from)).await,
    }
}

async fn on_sqlite(rounds: usize, folder: PathBuf) -> Outcome<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let path = |name: &str| folder.path().join(name);
    let mut raw = Raw::Sqlite(sqlite::Raw::open(&path("raw.db")).await?);
    let mut ours = Ours::open(DatabaseUrl::Sqlite(path("store.db")), sqlite::ARRAY, 1).await?;
    compare(rounds, &mut raw, &mut ours).await
}

/// The raw tables may be in the store's own database, once it is a store.
async fn on_postgres(rounds: usize, store: &str, raw: &str) -> Outcome<()> {
    let (array, committers) = (postgres::ARRAY, postgres::COMMITTERS);
    let mut ours = Ours::open(DatabaseUrl::parse(store)?, array, committers).await?;
    let mut raw = Raw::Postgres(postgres::Raw::open(raw).await?);
    compare(rounds, &mut raw, &mut ours).await?;
    raw.close().await
}

async fn compare(rounds: usize, raw: &mut Raw, ours: &mut Ours) -> Outcome<()> {
    pair(raw, ours).await?;
    let mut figures = Vec::new();
    println!("round   raw steps/s   store steps/s   ratio   turns/s (commit alone)   ratio   starts/s");
    for round in 1..=rounds {
        let took = pair(raw, ours).await?;
        let raw_steps = per_second(INSTANCES * STEPS, took.raw);
        let steps = per_second(INSTANCES * STEPS, took.starting + took.turning);
        let turns = per_second(INSTANCES * (STEPS + 1), took.turning);
        let starts = per_second(INSTANCES, took.starting);
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
    println!(
        "WAL bytes per step   raw {}   store {}",
        raw.wal_per_step().await?,
        ours.wal_per_step(raw).await?
    );
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
    for _ in 0..INSTANCES / (ours.array * ours.committers) {
        let began = Instant::now();
        raw.array().await?;
        took.raw += began.elapsed();
        let (starting, turning) = ours.arrays().await?;
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

fn tenant(n: usize) -> String {
    format!("tenant-{:03}", n % TENANTS)
}

/// The fixed reference.
enum Raw {
    Sqlite(sqlite::Raw),
    Postgres(postgres::Raw),
}

impl Raw {
    /// One array on each of its connections.
    async fn array(&mut self) -> Outcome<()> {
        match self {
            Self::Sqlite(raw) => raw.array().await,
            Self::Postgres(raw) => raw.array().await,
        }
    }

    async fn wal_per_step(&mut self) -> Outcome<u64> {
        match self {
            Self::Sqlite(raw) => raw.wal_per_step().await,
            Self::Postgres(raw) => raw.wal_per_step().await,
        }
    }

    async fn close(self) -> Outcome<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(raw) => raw.close().await,
        }
    }
}

/// The store, as shard owners and a client API use it.
struct Ours {
    url: DatabaseUrl,
    store: Store,
    array: usize,
    committers: usize,
    leases: Vec<Lease>,
    tenants: Vec<TenantHandle>,
}

impl Ours {
    async fn open(url: DatabaseUrl, array: usize, committers: usize) -> Outcome<Self> {
        let store = Store::open(&url).await?;
        let node = NodeName::parse("speed")?;
        let mut leases = Vec::new();
        for shard in (0..store.shards()).map(Shard) {
            let epoch: LeaseEpoch = store.lease(shard).await?.checked_next().ok_or("an epoch")?;
            match store.raise(shard, &node, epoch).await? {
                Raised::Won { lease, .. } => leases.push(lease),
                Raised::Stale { .. } => return Err("somebody else uses this store".into()),
            }
        }
        let mut tenants = Vec::new();
        for n in 0..TENANTS {
            let placement = Placement {
                tenant: TenantId::parse(&tenant(n))?,
                store: StoreName::parse("speed")?,
                epoch: PlacementEpoch::new(1).ok_or("an epoch")?,
            };
            tenants.push(TenantHandle::of(&placement));
            let Placement { tenant, epoch: placement, .. } = placement;
            store.set_fence(Fence { tenant, placement, mode: FenceMode::Active, weight: 1 }).await?;
        }
        Ok(Self { url, store, array, committers, leases, tenants })
    }

    /// One array for each committer. Time for starts, time for turns.
    async fn arrays(&mut self) -> Outcome<(Duration, Duration)> {
        let ids: Vec<Vec<Uuid>> = (0..self.committers).map(|committer| self.ids(committer)).collect();
        let json = json();
        let began = Instant::now();
        // As many callers as instances: what waits together is written together.
        let starts = ids.iter().flatten().enumerate().map(|(n, id)| {
            let start = Start { birth: birth(*id, &json), once: None };
            self.store.start(&self.tenants[n % TENANTS], vec![start])
        });
        for started in join_all(starts).await {
            started?.ok_or("the fence is open")?;
        }
        let starting = began.elapsed();
        let began = Instant::now();
        let first = |committer: usize| committer * self.array;
        try_join_all((0..self.committers).map(|c| self.commits(c, first(c), &ids[c], &json))).await?;
        Ok((starting, began.elapsed()))
    }

    /// Each shard goes through one committer.
    fn ids(&self, committer: usize) -> Vec<Uuid> {
        let shards = self.store.shards();
        let mine =
            |id: &Uuid| usize::from(shard_of(InstanceId(*id), shards).0) % self.committers == committer;
        std::iter::repeat_with(Uuid::now_v7).filter(mine).take(self.array).collect()
    }

    async fn commits(&self, committer: usize, first: usize, ids: &[Uuid], json: &str) -> Outcome<()> {
        let mine = |lease: &&Lease| usize::from(lease.shard.0) % self.committers == committer;
        let leases: Vec<Lease> = self.leases.iter().filter(mine).copied().collect();
        for turn_no in 0..=STEPS {
            let turns =
                ids.iter().enumerate().map(|(n, id)| self.turn(first + n, InstanceId(*id), turn_no, json));
            let commit = Commit { leases: leases.clone(), turns: turns.collect() };
            let answers = self.store.commit(commit).await?;
            if answers.iter().any(|answer| *answer != TurnAnswer::Done) {
                return Err("a turn was refused".into());
            }
        }
        Ok(())
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

    async fn wal_per_step(&mut self, raw: &mut Raw) -> Outcome<u64> {
        let steps = (self.array * self.committers * STEPS) as u64;
        match (self.url.clone(), raw) {
            (DatabaseUrl::Sqlite(path), _) => {
                sqlite::cut_wal(&path).await?;
                self.arrays().await?;
                Ok(sqlite::wal_length(&path)? / steps)
            }
            (DatabaseUrl::Postgres(_), Raw::Postgres(raw)) => {
                let before = raw.wal().await?;
                self.arrays().await?;
                Ok((raw.wal().await? - before) / steps)
            }
            (DatabaseUrl::Postgres(_), Raw::Sqlite(_)) => Err("one database is compared with itself".into()),
        }
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
