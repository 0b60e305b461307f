//! `orch8 bench`: how much of what the database itself can do is left for the user.
//!
//! Machines are noisy and shared, so only ratios of one run count: the raw journal loop and the engine take turns (raw,
//! engine, raw, engine, raw), each engine round is compared with the raw rounds on both sides of it, and a run whose
//! raw rounds differ too much among themselves says nothing and is discarded.

mod engine;
mod figures;
mod raw_postgres;
mod raw_sqlite;
mod wal;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use orch8_model::DatabaseUrl;
use serde_json::{Value, json};

use self::figures::{Rate, Round};
use crate::{
    error::{CliError, Exit},
    human,
    screen::{Paint, Screen, Table},
};

/// Bytes of JSON per row, input and output, raw and engine alike.
const PAYLOAD_BYTES: usize = 256;
/// Steps of the workflow.
const STEPS: u64 = 5;
/// Raw rounds that differ by more than this factor tell of the machine and not of the engine.
const RAW_SPREAD_MAX: f64 = 1.5;

/// `orch8 bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  orch8 bench --quick --output json
  orch8 bench --store postgres://user@host/empty
sqlite_ratio: steps per second of a workflow of five worker steps (SQLite, synchronous=FULL, gRPC on loopback, result
acknowledged once committed) over rows per second of the bare journal written by SQLite in the same run.
worker_steps_ratio: the same on Postgres, control plane and nodes as processes of their own.
Exit code 13: the raw rounds differ by more than 1.5; nothing can be said.")]
pub struct BenchArgs {
    /// Shorter rounds; at most three minutes in all.
    #[arg(long)]
    quick: bool,
    /// Of the payloads' bytes.
    #[arg(long, default_value_t = 8)]
    seed: u64,
    /// A Postgres database for the engine's store and the bare journal: `postgres://…`. Its WAL is counted, so the
    /// server has to be idle otherwise. Without it: SQLite.
    #[arg(long, value_name = "URL", env = "ORCH8_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Where the databases are made, and removed again. Must be on the disk that matters.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub async fn run(args: BenchArgs, screen: Screen) -> anyhow::Result<Exit> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new()
        .prefix("orch8-bench-")
        .tempdir_in(&parent)
        .with_context(|| format!("making a folder in {}", parent.display()))?;
    let (raw_time, engine_time) = if args.quick {
        (Duration::from_secs(5), Duration::from_secs(15))
    } else {
        (Duration::from_secs(15), Duration::from_secs(45))
    };
    let payload = payload(args.seed);
    let base = Base::of(args.store.as_deref())?;

    let bar = spinner(screen);
    let mut raw = Vec::new();
    let mut engine = Vec::new();
    for turn in 0..3 {
        bar.set_message(format!("raw {}, round {} of 3", base.name(), turn + 1));
        raw.push(match &base {
            Base::Sqlite => {
                raw_sqlite::round(&sub(folder.path(), &format!("raw{turn}"))?, raw_time, &payload).await?
            }
            Base::Postgres(url) => raw_postgres::round(url, raw_time, &payload).await?,
        });
        if turn < 2 {
            bar.set_message(format!("engine, round {} of 2", turn + 1));
            engine.push(
                engine::round(&base, &sub(folder.path(), &format!("engine{turn}"))?, engine_time, &payload)
                    .await?,
            );
        }
    }
    bar.finish_and_clear();

    let report = Report { base, raw, engine, quick: args.quick, seed: args.seed };
    screen.show(|paint| report.render(paint), || report.json())?;
    Ok(if report.is_noisy() { Exit::Noisy } else { Exit::Ok })
}

/// The database that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// Files in the folder of the bench.
    Sqlite,
    /// Its URL.
    Postgres(String),
}

impl Base {
    fn of(store: Option<&str>) -> Result<Self, CliError> {
        let Some(store) = store else { return Ok(Self::Sqlite) };
        match DatabaseUrl::parse(store) {
            Ok(DatabaseUrl::Postgres(url)) => Ok(Self::Postgres(url)),
            Ok(DatabaseUrl::Sqlite(_)) => {
                Err(CliError::usage("--store takes postgres://…; SQLite is measured without it, in --dir"))
            }
            Err(why) => Err(CliError::usage(format!("--store {why}"))),
        }
    }

    /// What an engine has to be given.
    fn store(&self) -> Option<&str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres(url) => Some(url),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "Postgres",
        }
    }
}

fn sub(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let dir = folder.join(name);
    std::fs::create_dir(&dir)?;
    Ok(dir)
}

/// A JSON string of [`PAYLOAD_BYTES`] with its quotes. A string and not an object: nothing is merged into the data of
/// the run, as nothing is in the raw loop.
fn payload(seed: u64) -> String {
    let mut state = seed;
    let letters: String = (0..PAYLOAD_BYTES - 2)
        .map(|_| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            char::from(b'a' + ((z ^ (z >> 31)) % 26) as u8)
        })
        .collect();
    format!("\"{letters}\"")
}

/// Everything measured.
struct Report {
    base: Base,
    raw: Vec<Round>,
    engine: Vec<Round>,
    quick: bool,
    seed: u64,
}

impl Report {
    fn ratios(&self) -> Vec<f64> {
        figures::paired_ratios(&Rate::of_all(&self.raw), &Rate::of_all(&self.engine))
    }

    fn raw_spread(&self) -> f64 {
        figures::spread(&Rate::of_all(&self.raw))
    }

    fn is_noisy(&self) -> bool {
        self.raw_spread() > RAW_SPREAD_MAX
    }

    fn json(&self) -> Value {
        let per_s =
            |rounds: &[Round]| rounds.iter().map(|round| round.per_second().round()).collect::<Vec<_>>();
        let ratio = figures::median(&self.ratios());
        json!({
            "machine": machine(),
            "commit": option_env!("ORCH8_BUILT_FROM"),
            "version": env!("CARGO_PKG_VERSION"),
            "seed": self.seed,
            "quick": self.quick,
            "discarded": self.is_noisy(),
            "sqlite_ratio": ratio.filter(|_| self.base == Base::Sqlite).map(round3),
            "worker_steps_ratio": ratio.filter(|_| self.base != Base::Sqlite).map(round3),
            "ratios": self.ratios().into_iter().map(round3).collect::<Vec<_>>(),
            "raw_spread": round3(self.raw_spread()),
            "raw_steps_per_s": per_s(&self.raw),
            "engine_steps_per_s": per_s(&self.engine),
            "raw_wal_bytes_per_step": figures::wal_bytes_per_step(&self.raw).map(f64::round),
            "engine_wal_bytes_per_step": figures::wal_bytes_per_step(&self.engine).map(f64::round),
            "raw_commits_per_step": figures::commits_per_step(&self.raw).map(round5),
            "engine_commits_per_step": figures::commits_per_step(&self.engine).map(round5),
            "engine_statements_per_step": figures::median(
                &self.engine.iter().filter_map(|round| round.statements_per_step).collect::<Vec<_>>(),
            ).map(round5),
            "conditions": conditions(&self.base),
        })
    }

    fn render(&self, paint: Paint) -> String {
        let mut table = Table::new([
            "ROUND",
            "STEPS",
            "TOOK",
            "STEPS/S",
            "WAL BYTES/STEP",
            "STEPS/COMMIT",
            "STATEMENTS/STEP",
        ]);
        let mut row = |name: String, round: &Round| {
            let one = std::slice::from_ref(round);
            table.row([
                name,
                human::count(round.steps),
                human::duration(round.took),
                human::count(round.per_second() as u64),
                figures::wal_bytes_per_step(one)
                    .map_or_else(|| "?".to_owned(), |bytes| format!("{bytes:.0}")),
                figures::commits_per_step(one)
                    .map_or_else(|| "?".to_owned(), |commits| format!("{:.0}", 1.0 / commits)),
                round
                    .statements_per_step
                    .map_or_else(|| "?".to_owned(), |statements| format!("{statements:.3}")),
            ]);
        };
        for (i, raw) in self.raw.iter().enumerate() {
            row("raw".to_owned(), raw);
            if let Some(engine) = self.engine.get(i) {
                row("engine".to_owned(), engine);
            }
        }
        let ratio = figures::median(&self.ratios()).unwrap_or_default();
        let spread = self.raw_spread();
        let verdict = if self.is_noisy() {
            paint.red(&format!("✗ discarded: the raw rounds differ by a factor of {spread:.2}, at most {RAW_SPREAD_MAX} is allowed; try on a quieter machine"))
        } else {
            paint.bold(&format!("engine ÷ raw = {ratio:.3}   (raw spread {spread:.2})"))
        };
        let debug = if cfg!(debug_assertions) {
            paint.yellow("! a debug build: its figures say nothing about the engine; build with --release\n")
        } else {
            String::new()
        };
        format!(
            "{table}\n\n{debug}{verdict}\n{}",
            paint.dim(&format!("conditions: {}", conditions(&self.base)))
        )
    }
}

/// What has to be said beside every figure.
fn conditions(base: &Base) -> Value {
    let (store, processes, rows, writers) = match base {
        Base::Sqlite => {
            ("SQLite, WAL, synchronous=FULL", "engine and workers in two processes", raw_sqlite::ROWS, 1)
        }
        Base::Postgres(_) => (
            "Postgres, fsync and synchronous_commit as the server has them",
            "control plane, two nodes and the workers each in a process",
            raw_postgres::ROWS,
            raw_postgres::CONNECTIONS,
        ),
    };
    json!({
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "store": store,
        "workflow": "five worker steps in a row",
        "payload_bytes": PAYLOAD_BYTES,
        "transport": "gRPC on loopback, Rust SDK",
        "processes": processes,
        "in_flight": engine::IN_FLIGHT,
        "open_runs": engine::WINDOW,
        "acknowledged": "once committed",
        "raw_rows_per_statement": rows,
        "raw_connections": writers,
    })
}

fn machine() -> Value {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "cpus": std::thread::available_parallelism().map(usize::from).ok(),
        "cpu": model.map(|(_, name)| name.trim()),
    })
}

fn round3(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}

fn round5(x: f64) -> f64 {
    (x * 1e5).round() / 1e5
}

fn spinner(screen: Screen) -> ProgressBar {
    let bar = if screen.progress { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_their_size_and_follow_the_seed() {
        assert_eq!(payload(8).len(), PAYLOAD_BYTES);
        assert_eq!(payload(8), payload(8));
        assert_ne!(payload(8), payload(9));
        assert!(serde_json::from_str::<String>(&payload(u64::MAX)).is_ok());
    }

    fn report(raw: [f64; 3], engine: [f64; 2]) -> Report {
        let rounds = |rates: &[f64]| {
            rates
                .iter()
                .map(|rate| Round {
                    steps: *rate as u64,
                    took: Duration::from_secs(1),
                    log: None,
                    statements_per_step: None,
                })
                .collect()
        };
        Report { base: Base::Sqlite, raw: rounds(&raw), engine: rounds(&engine), quick: true, seed: 8 }
    }

    #[test]
    fn a_noisy_run_is_discarded_and_says_so() {
        let noisy = report([1_000.0, 1_000.0, 1_600.0], [600.0, 600.0]);
        assert!(noisy.is_noisy());
        assert_eq!(noisy.json()["discarded"], true);
        assert!(noisy.render(Paint(false)).contains("discarded"));
        let quiet = report([1_000.0, 1_000.0, 1_000.0], [600.0, 700.0]);
        assert!(!quiet.is_noisy());
        assert_eq!(quiet.json()["sqlite_ratio"], 0.65);
        assert_eq!(quiet.json()["engine_wal_bytes_per_step"], Value::Null);
    }
}
