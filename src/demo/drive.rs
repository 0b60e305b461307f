//! The demo's client: starts one run per flight, waits for all of them, and rides out an engine that comes and goes.
//!
//! Every start has an idempotency key, so a request whose answer was lost in a kill is simply sent again.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use orch8_proto::v1::{
    GetInstanceRequest, GetTimelineRequest, GetTimelineResponse, InstanceState, ListInstancesRequest,
    Payload, PublishSequenceRequest, StartInstanceRequest, StartInstancesRequest,
};
use tokio::sync::watch;
use tonic::{Code, Response, Status};

use super::{
    accounting::Ending,
    flights::{Flight, SEQUENCE, SEQUENCE_NAME},
};
use crate::{
    client::{Server, is_passing},
    error::{CliError, Exit},
    json as wire,
};

/// Runs per request.
const BATCH: usize = 50;
/// Runs open at a time, so that they end one after the other and not all in the last second.
const WINDOW: usize = 400;
/// Runs on one page of a list.
const PAGE: i32 = 500;
/// Of a demo, with room for what earlier demos left open in the same folder.
const PAGES_MAX: usize = 100;
/// How often the open runs are listed.
const POLL: Duration = Duration::from_millis(100);
/// A restart takes seconds; what is away for longer is not coming back.
const PATIENCE: Duration = Duration::from_secs(90);
/// One try of one call.
const TRY_LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Without any run ending for this long the demo stops waiting. Longest honest pause: a lease that has to run out.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// Results read at a time.
const READS: usize = 16;

/// Publishes the workflow. Repeatable: the same document again changes nothing.
pub async fn publish(server: &Server) -> anyhow::Result<()> {
    let document = Payload { data: SEQUENCE.into(), content_type: String::new() };
    let request = PublishSequenceRequest { tenant_id: String::new(), document: Some(document) };
    persist(async || server.sequences().publish_sequence(request.clone()).await)
        .await
        .context("publishing")?;
    Ok(())
}

/// Starts a run for each flight and waits until all have ended, or none ends any more. Answers their ids in the order
/// of the flights; `ended` hears how many have ended so far.
pub async fn run_all(
    server: &Server,
    flights: &[Flight],
    ended: &watch::Sender<u64>,
) -> anyhow::Result<Vec<String>> {
    let mut ids: Vec<String> = Vec::with_capacity(flights.len());
    let mut open: HashSet<String> = HashSet::new();
    let mut last_change = Instant::now();
    while ids.len() < flights.len() || !open.is_empty() {
        while ids.len() < flights.len() && open.len() < WINDOW {
            let end = flights.len().min(ids.len() + BATCH);
            let started = start(server, &flights[ids.len()..end]).await?;
            open.extend(started.iter().cloned());
            ids.extend(started);
        }
        let listed = list_open(server).await?;
        let before = open.len();
        open.retain(|id| listed.contains(id));
        if open.len() < before {
            last_change = Instant::now();
        } else if last_change.elapsed() > STALL_LIMIT {
            break;
        }
        ended.send_replace((ids.len() - open.len()) as u64);
        tokio::time::sleep(POLL).await;
    }
    Ok(ids)
}

async fn start(server: &Server, flights: &[Flight]) -> anyhow::Result<Vec<String>> {
    let instances = flights
        .iter()
        .map(|flight| StartInstanceRequest {
            sequence_name: SEQUENCE_NAME.to_owned(),
            data: Some(wire::payload(&flight.data())),
            idempotency_key: format!("flight-{}", flight.number),
            ..StartInstanceRequest::default()
        })
        .collect();
    let request = StartInstancesRequest { tenant_id: String::new(), instances };
    let started = persist(async || server.instances().start_instances(request.clone()).await).await?;
    let ids: Vec<String> = started.items.into_iter().map(|item| item.instance_id).collect();
    anyhow::ensure!(
        ids.len() == flights.len(),
        "{} runs were asked for, {} started",
        flights.len(),
        ids.len()
    );
    Ok(ids)
}

/// Ids of all open runs of the demo.
async fn list_open(server: &Server) -> anyhow::Result<HashSet<String>> {
    let states =
        [InstanceState::Scheduled, InstanceState::Running, InstanceState::Waiting, InstanceState::Paused];
    let mut open = HashSet::new();
    let mut page_token = String::new();
    for _ in 0..PAGES_MAX {
        let request = ListInstancesRequest {
            states: states.map(i32::from).to_vec(),
            sequence_name: SEQUENCE_NAME.to_owned(),
            page_size: PAGE,
            page_token,
            ..ListInstancesRequest::default()
        };
        let page = persist(async || server.instances().list_instances(request.clone()).await).await?;
        open.extend(page.instances.into_iter().map(|instance| instance.instance_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(open);
        }
    }
    bail!("the list of open runs does not end")
}

/// How each run ended, in the order of the ids.
pub async fn endings(server: &Server, ids: &[String]) -> anyhow::Result<Vec<Ending>> {
    futures::stream::iter(ids).map(|id| ending(server, id)).buffered(READS).try_collect().await
}

async fn ending(server: &Server, id: &str) -> anyhow::Result<Ending> {
    let request = GetInstanceRequest { tenant_id: String::new(), instance_id: id.to_owned() };
    match persist(async || server.instances().get_instance(request.clone()).await).await {
        Ok(answer) => Ok(answer.instance.as_ref().map_or(Ending::Otherwise, Ending::of)),
        // A run that was acknowledged and is gone is the very thing to be counted.
        Err(error)
            if error.downcast_ref::<Status>().is_some_and(|status| status.code() == Code::NotFound) =>
        {
            Ok(Ending::Otherwise)
        }
        Err(error) => Err(error),
    }
}

/// The tree of one run.
pub async fn timeline(server: &Server, id: &str) -> anyhow::Result<GetTimelineResponse> {
    let request = GetTimelineRequest { instance_id: id.to_owned(), ..GetTimelineRequest::default() };
    persist(async || server.instances().get_timeline(request.clone()).await).await
}

/// Calls until it is answered, as long as the server may come back. Only for calls that may be repeated.
async fn persist<T>(call: impl AsyncFn() -> Result<Response<T>, Status>) -> anyhow::Result<T> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    loop {
        let broken = match tokio::time::timeout(TRY_LIMIT, call()).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) if is_passing(&status) => anyhow::Error::from(status),
            Ok(Err(status)) => return Err(status.into()),
            Err(_) => CliError::new(Exit::Unavailable, "NO_ANSWER", "the engine does not answer").into(),
        };
        if begun.elapsed() > PATIENCE {
            return Err(broken);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_call_is_repeated_until_the_engine_is_back() {
        let calls = AtomicU32::new(0);
        let answer = persist(async || match calls.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(Status::unavailable("killed")),
            _ => Ok(Response::new(7)),
        })
        .await;
        assert_eq!(answer.expect("answers"), 7);
        assert_eq!(calls.into_inner(), 4);
    }

    #[tokio::test]
    async fn a_refusal_is_not_repeated() {
        let calls = AtomicU32::new(0);
        let answer = persist(async || {
            calls.fetch_add(1, Ordering::Relaxed);
            Err::<Response<()>, _>(Status::invalid_argument("never"))
        })
        .await;
        assert!(answer.is_err());
        assert_eq!(calls.into_inner(), 1);
    }
}
