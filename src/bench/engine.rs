//! The engine under load: a process of its own, driven over gRPC on loopback by the real SDK, as a user would.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use orch8_proto::v1::{
    InstanceState, ListInstancesRequest, Payload, PublishSequenceRequest, StartInstanceRequest,
    StartInstancesRequest,
};
use orch8_worker::Worker;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    Base, STEPS,
    figures::{LogWritten, Round},
    raw_postgres, wal,
};
use crate::{
    client::{Server, is_passing},
    connection::Connection,
    engine::Engine,
};

/// Steps that run at the same time, over all sessions.
pub const IN_FLIGHT: usize = SESSIONS * SESSION_IN_FLIGHT;
/// Runs open at a time.
pub const WINDOW: u64 = 2_048;
const SESSIONS: usize = 4;
const SESSION_IN_FLIGHT: usize = 256;
/// Runs per StartInstances.
const BATCH: u64 = 256;
/// The first runs fill caches and tell how many the round can take.
const WARM_UP_RUNS: u64 = 1_000;
/// A round is long enough to have met a checkpoint, and ends.
const RUNS: std::ops::RangeInclusive<u64> = 500..=200_000;
/// An engine that does not finish a run for this long is stuck.
const STALL_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
const SEQUENCE_NAME: &str = "bench-five-steps";

/// A new engine in `dir`, warmed up, then measured for about `time`.
pub async fn round(base: &Base, dir: &Path, time: Duration, payload: &str) -> anyhow::Result<Round> {
    let mut engine = Engine::start(dir, base.store()).await?;
    let connection = engine.connection().clone();
    let server = Server::lazy(&connection.address, &connection.client_key)?;
    publish(&server).await?;
    let crew = Crew::hire(&connection, payload);
    let load = Load { server: &server, finished: crew.finished.clone(), payload: payload.to_owned() };

    let warm = load.run(WARM_UP_RUNS, &mut engine).await.context("warming up")?;
    let runs = (WARM_UP_RUNS as f64 / warm.as_secs_f64() * time.as_secs_f64()) as u64;
    let runs = runs.clamp(*RUNS.start(), *RUNS.end());
    let watch = Log::begin(base, dir).await?;
    let took = load.run(runs, &mut engine).await?;
    let log = watch.end().await?;

    crew.dismiss().await?;
    engine.terminate().await?;
    let steps_in_all = (WARM_UP_RUNS + runs) * STEPS;
    let statements_per_step =
        statements(&engine.counters()).map(|statements| statements / steps_in_all as f64);
    Ok(Round { steps: runs * STEPS, took, log, statements_per_step })
}

/// What the database's log sees meanwhile.
enum Log {
    Sqlite(wal::Watch),
    Postgres(raw_postgres::Watch),
}

impl Log {
    async fn begin(base: &Base, dir: &Path) -> anyhow::Result<Self> {
        Ok(match base {
            Base::Sqlite => Self::Sqlite(wal::Watch::begin(dir)),
            Base::Postgres(url) => Self::Postgres(raw_postgres::Watch::begin(url).await?),
        })
    }

    async fn end(self) -> anyhow::Result<Option<LogWritten>> {
        match self {
            Self::Sqlite(watch) => Ok(watch.end()),
            Self::Postgres(watch) => watch.end().await.map(Some),
        }
    }
}

/// What the engine's stores executed in their whole life, claims and reads included. `None` unless all were counted.
fn statements(counters: &[PathBuf]) -> Option<f64> {
    let one = |file: &PathBuf| {
        let text = std::fs::read(file).ok()?;
        serde_json::from_slice::<serde_json::Value>(&text).ok()?["statements"].as_f64()
    };
    counters.iter().map(one).sum()
}

async fn publish(server: &Server) -> anyhow::Result<()> {
    let step = |i: u64| {
        let handler = if i == STEPS { "bench_last" } else { "bench" };
        json!({ "type": "step", "id": format!("step{i}"), "handler": handler, "params": "{{ data.payload }}" })
    };
    let document = json!({ "name": SEQUENCE_NAME, "blocks": (1..=STEPS).map(step).collect::<Vec<_>>() });
    let document = Some(crate::json::payload(&document));
    let request = PublishSequenceRequest { tenant_id: String::new(), document };
    server.sequences().publish_sequence(request).await?;
    Ok(())
}

/// Worker sessions in this process.
struct Crew {
    /// Last steps that were run.
    finished: Arc<AtomicU64>,
    stop: CancellationToken,
    sessions: Vec<tokio::task::JoinHandle<Result<(), orch8_worker::WorkerError>>>,
}

impl Crew {
    fn hire(connection: &Connection, payload: &str) -> Self {
        let finished = Arc::new(AtomicU64::new(0));
        let stop = CancellationToken::new();
        let sessions = (0..SESSIONS)
            .map(|_| {
                let output = Bytes::copy_from_slice(payload.as_bytes());
                let last = (output.clone(), finished.clone());
                let worker = Worker::builder(&connection.address)
                    .credential(connection.worker_key.reveal())
                    .max_in_flight(SESSION_IN_FLIGHT)
                    .raw_handler("bench", move |_, _| std::future::ready(Ok(output.clone())))
                    .raw_handler("bench_last", move |_, _| {
                        last.1.fetch_add(1, Ordering::Relaxed);
                        std::future::ready(Ok(last.0.clone()))
                    });
                tokio::spawn(worker.run(stop.clone().cancelled_owned()))
            })
            .collect();
        Self { finished, stop, sessions }
    }

    async fn dismiss(self) -> anyhow::Result<()> {
        self.stop.cancel();
        for session in self.sessions {
            session.await?.context("a worker session of the bench")?;
        }
        Ok(())
    }
}

/// Runs that are started and waited for.
struct Load<'a> {
    server: &'a Server,
    finished: Arc<AtomicU64>,
    payload: String,
}

impl Load<'_> {
    /// Starts `runs` with at most [`WINDOW`] open, and answers how long it took until the last had ended, durably.
    async fn run(&self, runs: u64, engine: &mut Engine) -> anyhow::Result<Duration> {
        let base = self.finished.load(Ordering::Relaxed);
        let begun = Instant::now();
        let (mut started, mut seen, mut changed) = (0, 0, Instant::now());
        loop {
            let finished = self.finished.load(Ordering::Relaxed) - base;
            if finished > seen {
                (seen, changed) = (finished, Instant::now());
            }
            if started < runs && started - finished.min(started) + BATCH <= WINDOW {
                let batch = BATCH.min(runs - started);
                self.start(batch).await?;
                started += batch;
            } else if finished >= runs {
                break;
            } else {
                ensure!(
                    changed.elapsed() < STALL_LIMIT,
                    "the engine stands still at {finished} of {runs} runs"
                );
                engine.check()?;
                tokio::time::sleep(POLL).await;
            }
        }
        // The last results were handed over; they count once they are committed.
        while self.any(&[InstanceState::Scheduled, InstanceState::Running, InstanceState::Waiting]).await? {
            ensure!(changed.elapsed() < STALL_LIMIT, "runs are still open after all steps were run");
            tokio::time::sleep(POLL).await;
        }
        let took = begun.elapsed();
        ensure!(
            !self.any(&[InstanceState::Failed, InstanceState::Cancelled]).await?,
            "a run of the bench failed"
        );
        Ok(took)
    }

    async fn start(&self, runs: u64) -> anyhow::Result<()> {
        let data: Bytes = format!("{{\"payload\":{}}}", self.payload).into();
        let instance = StartInstanceRequest {
            sequence_name: SEQUENCE_NAME.to_owned(),
            data: Some(Payload { data, content_type: String::new() }),
            ..StartInstanceRequest::default()
        };
        let instances = vec![instance; usize::try_from(runs)?];
        let request = StartInstancesRequest { tenant_id: String::new(), instances };
        loop {
            match self.server.instances().start_instances(request.clone()).await {
                Ok(_) => return Ok(()),
                // Refused for lack of room, and nothing was stored.
                Err(status) if is_refused_for_room(&status) => tokio::time::sleep(POLL).await,
                Err(status) => return Err(status.into()),
            }
        }
    }

    async fn any(&self, states: &[InstanceState]) -> anyhow::Result<bool> {
        let request = ListInstancesRequest {
            states: states.iter().map(|state| i32::from(*state)).collect(),
            sequence_name: SEQUENCE_NAME.to_owned(),
            page_size: 1,
            ..ListInstancesRequest::default()
        };
        Ok(!self.server.instances().list_instances(request).await?.into_inner().instances.is_empty())
    }
}

/// The server answered that it has no room now. A call that broke on the way may have been stored.
fn is_refused_for_room(status: &Status) -> bool {
    is_passing(status) && std::error::Error::source(status).is_none()
}
