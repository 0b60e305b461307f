//! Following one run to its end: `wait` in silence, `watch` line by line.

use std::time::Duration;

use chrono::Utc;
use indicatif::ProgressBar;
use orch8_proto::v1::{Instance, WatchInstanceRequest, WatchInstanceResponse};
use serde_json::json;
use tokio_stream::StreamExt;
use tonic::Status;

use super::ended;
use crate::{
    client::{Caller, Server, is_passing},
    error::{CliError, Exit},
    human, json as wire,
    screen::{Mode, Screen},
    timeline,
};

/// First pause before a broken stream is opened again; doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Tries in a row without a message before a server counts as gone: about a minute.
const TRIES_MAX: u32 = 15;

/// Waits for the end. The answer is the run as it ended.
pub async fn wait(
    instance_id: &str,
    timeout: Option<Duration>,
    caller: &Caller,
    screen: Screen,
) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let bar = if screen.progress { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(120));
    let mut seen = |message: &WatchInstanceResponse| {
        if let Some(instance) = &message.instance {
            bar.set_message(wire::instance_state(instance.state));
        }
        Ok(())
    };
    let following = follow(&server, caller, instance_id, &mut seen);
    let instance = match timeout {
        None => following.await?,
        Some(limit) => match tokio::time::timeout(limit, following).await {
            Ok(instance) => instance?,
            Err(_) => return Err(too_late(instance_id, limit).into()),
        },
    };
    bar.finish_and_clear();
    screen.show(
        |paint| timeline::headline(&instance, Utc::now().timestamp_millis(), paint),
        || wire::instance(&instance),
    )?;
    Ok(ended(&instance).unwrap_or(Exit::Failed))
}

/// Prints every change.
pub async fn watch(instance_id: &str, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let mut last_state = None;
    let mut seen = |message: &WatchInstanceResponse| match screen.mode {
        Mode::Json => screen.line(&change(message).to_string()),
        Mode::Human => {
            let now = Utc::now().timestamp_millis();
            for node in &message.changed {
                screen.line(&timeline::node_line(node, instance_id, now, screen.paint))?;
            }
            match &message.instance {
                Some(instance) if last_state != Some(instance.state) => {
                    last_state = Some(instance.state);
                    screen.line(&timeline::headline(instance, now, screen.paint))
                }
                Some(_) | None => Ok(()),
            }
        }
    };
    let instance = follow(&server, caller, instance_id, &mut seen).await?;
    Ok(ended(&instance).unwrap_or(Exit::Failed))
}

/// Hands every message to `seen` until the run has ended, across servers that come and go.
async fn follow(
    server: &Server,
    caller: &Caller,
    instance_id: &str,
    seen: &mut (dyn FnMut(&WatchInstanceResponse) -> anyhow::Result<()> + Send),
) -> anyhow::Result<Instance> {
    let mut tries = 0;
    let mut pause = PAUSE;
    loop {
        let request =
            WatchInstanceRequest { tenant_id: caller.tenant(), instance_id: instance_id.to_owned() };
        let broken = match server.instances().watch_instance(request).await {
            Err(status) => Break::Status(status),
            Ok(answer) => {
                let mut stream = answer.into_inner();
                loop {
                    match stream.next().await {
                        Some(Ok(message)) => {
                            (tries, pause) = (0, PAUSE);
                            seen(&message)?;
                            if let Some(instance) = finished(message) {
                                return Ok(instance);
                            }
                        }
                        Some(Err(status)) => break Break::Status(status),
                        None => break Break::EndedEarly,
                    }
                }
            }
        };
        tries += 1;
        if tries > TRIES_MAX || !broken.is_passing() {
            return Err(broken.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// How a stream broke off before the run had ended.
enum Break {
    Status(Status),
    /// Without a word; a server that drains does so.
    EndedEarly,
}

impl Break {
    fn is_passing(&self) -> bool {
        match self {
            Break::Status(status) => is_passing(status),
            Break::EndedEarly => true,
        }
    }
}

impl From<Break> for anyhow::Error {
    fn from(broken: Break) -> Self {
        match broken {
            Break::Status(status) => status.into(),
            Break::EndedEarly => {
                let message = "the server ends the stream before the run has ended";
                CliError::new(Exit::Unavailable, "STREAM_ENDED", message).into()
            }
        }
    }
}

/// The run, if it has ended.
fn finished(message: WatchInstanceResponse) -> Option<Instance> {
    let said = message.ended;
    message.instance.filter(|instance| said || ended(instance).is_some())
}

fn change(message: &WatchInstanceResponse) -> serde_json::Value {
    json!({
        "instance": message.instance.as_ref().map(wire::instance),
        "changed": message.changed.iter().map(wire::node).collect::<Vec<_>>(),
        "ended": message.ended,
    })
}

fn too_late(instance_id: &str, limit: Duration) -> CliError {
    let id = human::foreign(instance_id, 80);
    CliError::new(Exit::TimedOut, "TIMEOUT", format!("{id} has not ended within {}", human::duration(limit)))
        .hint(format!("see why: orch8 instance show {id}"))
}
