//! `orch8 workers`: who is there, what they offer, and what nobody offers.

use chrono::{DateTime, Utc};
use clap::Args;
use orch8_proto::v1::{
    HandlerStatus, ListHandlersRequest, ListHandlersResponse, ListSessionsRequest, ListSessionsResponse,
};
use serde_json::json;

use crate::{
    client::Caller,
    error::Exit,
    human, json as wire,
    screen::{Paint, Screen, Table},
};

/// Handlers listed in one cell.
const HANDLERS_SHOWN: usize = 6;

/// `orch8 workers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  orch8 workers
  orch8 workers --output json        {\"sessions\":[…],\"handlers\":[…]}")]
pub struct WorkersArgs {}

pub async fn run(_: WorkersArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let tenant_id = caller.tenant();
    let sessions = server
        .workers()
        .list_sessions(ListSessionsRequest { tenant_id: tenant_id.clone() })
        .await?
        .into_inner();
    let handlers = server.workers().list_handlers(ListHandlersRequest { tenant_id }).await?.into_inner();
    screen.show(
        |paint| render(&sessions, &handlers, Utc::now(), paint),
        || {
            json!({
                "sessions": sessions.sessions.iter().map(wire::session).collect::<Vec<_>>(),
                "handlers": handlers.handlers.iter().map(wire::handler).collect::<Vec<_>>(),
            })
        },
    )?;
    Ok(Exit::Ok)
}

fn render(
    sessions: &ListSessionsResponse,
    handlers: &ListHandlersResponse,
    now: DateTime<Utc>,
    paint: Paint,
) -> String {
    let mut text = String::new();
    if sessions.sessions.is_empty() {
        text.push_str("no worker is connected; `orch8 worker --handler NAME --exec CMD` starts one\n");
    } else {
        text.push_str(&session_table(sessions, now));
        text.push('\n');
    }
    if !handlers.handlers.is_empty() {
        text.push('\n');
        text.push_str(&handler_table(handlers));
        text.push('\n');
    }
    for handler in handlers.handlers.iter().filter(|handler| is_unserved(handler)) {
        text.push_str(&paint.yellow(&unserved(handler)));
        text.push('\n');
    }
    text
}

fn session_table(sessions: &ListSessionsResponse, now: DateTime<Utc>) -> String {
    let mut table =
        Table::new(["WORKER", "LANE", "HANDLERS", "CREDIT", "IN FLIGHT", "LAST FRAME", "VERSION"]);
    for session in &sessions.sessions {
        let last = wire::instant(session.last_frame_at.as_ref())
            .map(|at| format!("{} ago", human::span((now - at).num_milliseconds())))
            .unwrap_or_default();
        let worker = human::foreign(&session.worker_id, 60);
        let worker = if session.draining { format!("{worker} (draining)") } else { worker };
        for lane in &session.lanes {
            table.row([
                worker.clone(),
                human::foreign(&lane.name, 40),
                some_of(&lane.handlers),
                lane.credit.to_string(),
                lane.in_flight.to_string(),
                last.clone(),
                human::foreign(&session.version, 40),
            ]);
        }
    }
    table.to_string()
}

fn handler_table(handlers: &ListHandlersResponse) -> String {
    let mut table = Table::new(["HANDLER", "SESSIONS", "QUEUED", "IN FLIGHT", "OLDEST"]);
    for handler in &handlers.handlers {
        table.row([
            human::foreign(&handler.handler, 80),
            handler.sessions.to_string(),
            human::count(handler.queued),
            human::count(handler.in_flight),
            handler.oldest.as_ref().map(|age| human::span(wire::duration_ms(age))).unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// Wanted, and nobody offers it.
fn is_unserved(handler: &HandlerStatus) -> bool {
    handler.sessions == 0 && handler.queued > 0
}

fn unserved(handler: &HandlerStatus) -> String {
    let name = human::foreign(&handler.handler, 80);
    let nearest = if handler.nearest.is_empty() {
        String::new()
    } else {
        format!("; nearest offered: `{}`", human::foreign(&handler.nearest, 80))
    };
    let wait = if handler.queued == 1 { "task waits" } else { "tasks wait" };
    format!(
        "! {} {wait} for `{name}`, which no worker offers{nearest} — orch8 worker --handler {name} --exec CMD",
        human::count(handler.queued)
    )
}

fn some_of(handlers: &[String]) -> String {
    let mut shown: Vec<String> =
        handlers.iter().take(HANDLERS_SHOWN).map(|name| human::foreign(name, 40)).collect();
    if handlers.len() > HANDLERS_SHOWN {
        shown.push(format!("+{}", handlers.len() - HANDLERS_SHOWN));
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use orch8_proto::v1::{LaneStatus, WorkerSession};
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn a_typo_in_a_handler_is_visible_with_its_cure() {
        let sessions = ListSessionsResponse {
            sessions: vec![WorkerSession {
                worker_id: "w1".into(),
                version: "1.4".into(),
                last_frame_at: Some(Timestamp { seconds: 100, nanos: 0 }),
                lanes: vec![LaneStatus {
                    name: "main".into(),
                    handlers: vec!["charge".into(), "mail".into()],
                    credit: 30,
                    in_flight: 2,
                }],
                ..WorkerSession::default()
            }],
        };
        let handlers = ListHandlersResponse {
            handlers: vec![
                HandlerStatus {
                    handler: "charge".into(),
                    in_flight: 2,
                    sessions: 1,
                    ..HandlerStatus::default()
                },
                HandlerStatus {
                    handler: "chrage".into(),
                    queued: 1_200,
                    oldest: Some(prost_types::Duration { seconds: 61, nanos: 0 }),
                    nearest: "charge".into(),
                    ..HandlerStatus::default()
                },
            ],
        };
        let now = DateTime::from_timestamp(102, 0).expect("an instant");
        let shown = render(&sessions, &handlers, now, Paint(false));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "WORKER  LANE  HANDLERS     CREDIT  IN FLIGHT  LAST FRAME  VERSION",
                "w1      main  charge mail  30      2          2.0 s ago   1.4",
                "",
                "HANDLER  SESSIONS  QUEUED  IN FLIGHT  OLDEST",
                "charge   1         0       2",
                "chrage   0         1,200   0          1 min 01 s",
                "! 1,200 tasks wait for `chrage`, which no worker offers; nearest offered: `charge` — orch8 worker --handler chrage --exec CMD",
            ]
        );
    }

    #[test]
    fn without_workers_the_next_step_is_named() {
        let shown = render(
            &ListSessionsResponse::default(),
            &ListHandlersResponse::default(),
            Utc::now(),
            Paint(false),
        );
        assert!(shown.contains("`orch8 worker --handler NAME --exec CMD`"), "{shown}");
    }
}
