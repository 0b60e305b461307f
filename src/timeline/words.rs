//! The words of one line: states, times, reasons to wait, errors.

use orch8_proto::v1::{Instance, InstanceState, NodeState, NodeWait, TimelineNode, WaitKind};
use serde_json::Value;

use crate::{human, json, screen::Paint};

/// Text of a message or a note on one line.
const TEXT_CHARS_MAX: usize = 300;
/// Outputs shown beside a node.
const OUTPUT_CHARS_MAX: usize = 160;

/// `✓ flight-refunds v1 · completed · 1.2 s · 8 turns`, and the id below.
pub fn headline(instance: &Instance, now: i64, paint: Paint) -> String {
    let state = InstanceState::try_from(instance.state).unwrap_or_default();
    let created = json::millis(instance.created_at.as_ref());
    let closed = json::millis(instance.closed_at.as_ref());
    let name = human::foreign(&instance.sequence_name, 80);
    let mut parts = vec![
        format!("{} v{}", paint.bold(&name), instance.sequence_version),
        format!(
            "{}{}",
            json::instance_state(instance.state),
            if instance.cancelling { " (cancelling)" } else { "" }
        ),
    ];
    if let Some(created) = created {
        parts.push(human::span(closed.unwrap_or(now).saturating_sub(created)));
    }
    parts.push(format!("{} turns", human::count(instance.turns)));
    let id = human::foreign(&instance.instance_id, 80);
    let mut text = format!("{} {}\n  {}", instance_symbol(state, paint), parts.join(" · "), paint.dim(&id));
    if let Some(error) = &instance.error {
        let at = if error.leaf_block.is_empty() {
            String::new()
        } else {
            format!(" in {}", human::foreign(&error.leaf_block, 80))
        };
        let line = format!(
            "{}{at}: {}",
            human::foreign(&error.code, 80),
            human::foreign(&error.message, TEXT_CHARS_MAX)
        );
        text.push_str(&format!("\n  {}", paint.red(&line)));
    }
    text
}

fn instance_symbol(state: InstanceState, paint: Paint) -> String {
    match state {
        InstanceState::Completed => paint.green("✓"),
        InstanceState::Failed => paint.red("✗"),
        InstanceState::Cancelled => paint.dim("⊘"),
        InstanceState::Paused => paint.yellow("‖"),
        InstanceState::Running => paint.blue("▶"),
        InstanceState::Waiting | InstanceState::Scheduled => paint.yellow("◌"),
        InstanceState::Unspecified => "?".to_owned(),
    }
}

/// One sign per state.
pub fn state_symbol(state: NodeState, paint: Paint) -> String {
    match state {
        NodeState::Completed => paint.green("✓"),
        NodeState::Failed => paint.red("✗"),
        NodeState::Running => paint.blue("▶"),
        NodeState::Waiting => paint.yellow("◌"),
        NodeState::Pending => paint.dim("·"),
        NodeState::Cancelled => paint.dim("⊘"),
        NodeState::Skipped => paint.dim("↷"),
        NodeState::Unspecified => "?".to_owned(),
    }
}

/// The handler of a step, the type of a composite.
pub fn what(node: &TimelineNode) -> String {
    human::foreign(if node.handler.is_empty() { &node.block_type } else { &node.handler }, 60)
}

/// How long it took, once it ended. A skipped node took none.
pub fn time(node: &TimelineNode) -> String {
    if node.state() == NodeState::Skipped {
        return String::new();
    }
    let begun = json::millis(node.activated_at.as_ref());
    let ended = json::millis(node.completed_at.as_ref());
    begun.zip(ended).map(|(begun, ended)| human::span(ended.saturating_sub(begun))).unwrap_or_default()
}

/// Tries when there was more than one; the route of a router.
pub fn rest(node: &TimelineNode) -> String {
    let mut parts = Vec::new();
    if node.block_type == "router"
        && let Value::Object(decision) = json::value(node.decision.as_ref())
        && let Some(route) = decision.get("route")
    {
        parts.push(match route {
            Value::Null => "→ no route".to_owned(),
            Value::String(name) => format!("→ {}", human::foreign(name, 40)),
            other => format!("→ route {other}"),
        });
    }
    if node.attempt > 0 {
        parts.push(format!("{} tries", u64::from(node.attempt) + 1));
    }
    parts.join(", ")
}

/// What it waits for, why it failed, what it answered: a line each.
pub fn details(node: &TimelineNode, instance_id: &str, now: i64, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(wait) = &node.wait
        && let Some(text) = waiting(node, wait, instance_id, now)
    {
        lines.push(paint.yellow(&text));
    }
    // An error that only passes through is told where it arose.
    if let Some(error) =
        node.error.as_ref().filter(|e| e.leaf_block.is_empty() || e.leaf_block == node.block_id)
    {
        let open = matches!(node.state(), NodeState::Waiting | NodeState::Running | NodeState::Pending);
        let text = format!(
            "{}{}: {}",
            if open { "last try: " } else { "" },
            human::foreign(&error.code, 80),
            human::foreign(&error.message, TEXT_CHARS_MAX)
        );
        lines.push(if open { paint.yellow(&text) } else { paint.red(&text) });
    }
    if node.output.is_some() {
        lines.push(paint.dim(&format!(
            "= {}",
            human::foreign(&json::value(node.output.as_ref()).to_string(), OUTPUT_CHARS_MAX)
        )));
    }
    lines
}

fn waiting(node: &TimelineNode, wait: &NodeWait, instance_id: &str, now: i64) -> Option<String> {
    let begun = json::millis(node.started_at.as_ref()).or(json::millis(node.activated_at.as_ref()));
    let since = begun.map(|begun| human::span(now.saturating_sub(begun))).unwrap_or_default();
    let until = json::instant(wait.until.as_ref());
    let at = until.map_or_else(
        || "an unknown time".to_owned(),
        |until| {
            let left = until.timestamp_millis().saturating_sub(now);
            let left = if left <= 0 { "due now".to_owned() } else { format!("in {}", human::span(left)) };
            format!("{} UTC ({left})", human::instant(until))
        },
    );
    let note = human::foreign(&wait.note, TEXT_CHARS_MAX);
    let text = match WaitKind::try_from(wait.kind).unwrap_or_default() {
        WaitKind::Children => return None,
        WaitKind::Worker if note.is_empty() => {
            format!(
                "since {since}: a worker that offers `{}` has not answered yet",
                human::foreign(&wait.handler, 80)
            )
        }
        WaitKind::UnknownEffect if note.is_empty() => {
            format!("since {since}: nobody can prove whether the effect happened; an operator decides")
        }
        WaitKind::Worker | WaitKind::UnknownEffect => format!("since {since}: {note}"),
        WaitKind::Sleep => format!("sleeps until {at}"),
        WaitKind::Delay => format!("starts at {at}"),
        WaitKind::Backoff => format!("try {} at {at}", u64::from(wait.attempt) + 1),
        WaitKind::Poll => format!("next iteration at {at}"),
        WaitKind::Gate => return Some(gate(wait, instance_id, &since, until.map(|_| at))),
        WaitKind::Unspecified => format!("since {since}: {note}"),
    };
    Some(text)
}

/// `since 2 min 05 s: “Pay?” — orch8 signal <id> answer approve yes|no`
fn gate(wait: &NodeWait, instance_id: &str, since: &str, limit: Option<String>) -> String {
    let prompt = if wait.prompt.is_empty() {
        "a person has to answer".to_owned()
    } else {
        format!("“{}”", human::foreign(&wait.prompt, TEXT_CHARS_MAX))
    };
    let choices: Vec<String> =
        wait.choices.iter().take(10).map(|choice| human::foreign(choice, 40)).collect();
    let block = human::foreign(&wait.block_id, 80);
    let at = if wait.iteration.is_empty() {
        String::new()
    } else {
        format!(" --iteration {}", human::foreign(&wait.iteration, 40))
    };
    let limit = limit.map(|at| format!(", until {at}")).unwrap_or_default();
    format!(
        "since {since}{limit}: {prompt} — orch8 signal {} answer {block} {}{at}",
        human::foreign(instance_id, 80),
        choices.join("|")
    )
}

/// One change, for `instance watch`: `✓ classify  completed after 5 ms`.
pub fn node_line(node: &TimelineNode, instance_id: &str, now: i64, paint: Paint) -> String {
    let name = human::foreign(&node.block_id, 80);
    let at = if node.iteration.is_empty() {
        String::new()
    } else {
        format!("#{}", human::foreign(&node.iteration, 40))
    };
    let time = time(node);
    let after = if time.is_empty() { String::new() } else { format!(" after {time}") };
    let rest = rest(node);
    let rest = if rest.is_empty() { rest } else { format!(" ({rest})") };
    let mut line = format!(
        "{} {name}{at}  {}  {}{after}{rest}",
        state_symbol(node.state(), paint),
        paint.dim(&what(node)),
        json::node_state(node.state()),
    );
    for detail in details(node, instance_id, now, paint) {
        line.push_str(&format!("\n    {detail}"));
    }
    line
}
