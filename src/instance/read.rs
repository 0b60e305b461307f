//! Reading runs: the tree, the list, the outputs.

use chrono::Utc;
use clap::{Args, ValueEnum};
use orch8_proto::v1::{
    GetOutputsRequest, GetTimelineRequest, GetTimelineResponse, InstanceState, ListInstancesRequest,
};
use serde_json::{Value, json};

use crate::{
    client::Caller,
    error::Exit,
    human, json as wire,
    screen::{Mode, Screen, Table},
    timeline,
};

/// Nodes of one run that are fetched; beyond this a tree helps nobody.
const NODES_MAX: usize = 100_000;
/// Nodes on one page.
const NODES_PAGE: i32 = 5_000;
/// Instances on one page.
const PAGE_MAX: i32 = 500;
/// Output rows on one page.
const OUTPUTS_PAGE: i32 = 1_000;
/// Pages of outputs: the language allows a million activations.
const OUTPUT_PAGES_MAX: usize = 1_001;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only these states; may be repeated.
    #[arg(long = "state", value_enum, value_name = "STATE")]
    states: Vec<StateArg>,
    /// Only this sequence: name or id.
    #[arg(long)]
    sequence: Option<String>,
    #[arg(long)]
    namespace: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateArg {
    Scheduled,
    Running,
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl From<StateArg> for InstanceState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Scheduled => InstanceState::Scheduled,
            StateArg::Running => InstanceState::Running,
            StateArg::Waiting => InstanceState::Waiting,
            StateArg::Paused => InstanceState::Paused,
            StateArg::Completed => InstanceState::Completed,
            StateArg::Failed => InstanceState::Failed,
            StateArg::Cancelled => InstanceState::Cancelled,
        }
    }
}

pub async fn show(
    instance_id: String,
    outputs: bool,
    caller: &Caller,
    screen: Screen,
) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let mut whole = GetTimelineResponse::default();
    loop {
        let request = GetTimelineRequest {
            tenant_id: caller.tenant(),
            instance_id: instance_id.clone(),
            include_outputs: outputs,
            page_size: NODES_PAGE,
            page_token: std::mem::take(&mut whole.next_page_token),
        };
        let page = server.instances().get_timeline(request).await?.into_inner();
        let progressed = !page.nodes.is_empty();
        whole.instance = page.instance.or(whole.instance);
        whole.nodes.extend(page.nodes);
        whole.next_page_token = page.next_page_token;
        if whole.next_page_token.is_empty() || !progressed || whole.nodes.len() >= NODES_MAX {
            break;
        }
    }
    screen.show(
        |paint| {
            let mut text = timeline::render(&whole, Utc::now().timestamp_millis(), paint);
            if !whole.next_page_token.is_empty() {
                text.push_str(&format!(
                    "… only the first {} blocks\n",
                    human::count(whole.nodes.len() as u64)
                ));
            }
            text
        },
        || {
            json!({
                "instance": whole.instance.as_ref().map(wire::instance),
                "nodes": whole.nodes.iter().map(wire::node).collect::<Vec<_>>(),
                "complete": whole.next_page_token.is_empty(),
            })
        },
    )?;
    Ok(Exit::Ok)
}

pub async fn list(args: ListArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let named = args.sequence.as_deref().map(crate::sequence::by_name_or_id).unwrap_or_default();
    let mut table = Table::new(["INSTANCE", "STATE", "SEQUENCE", "CREATED (UTC)", "TOOK", "ERROR"]);
    let mut page_token = String::new();
    let mut left = args.limit;
    while left > 0 {
        let request = ListInstancesRequest {
            tenant_id: caller.tenant(),
            states: args.states.iter().map(|state| InstanceState::from(*state).into()).collect(),
            namespace: args.namespace.clone().unwrap_or_default(),
            sequence_name: named.name.clone(),
            sequence_id: named.sequence_id.clone(),
            page_size: i32::try_from(left).unwrap_or(PAGE_MAX).min(PAGE_MAX),
            page_token,
            ..ListInstancesRequest::default()
        };
        let page = server.instances().list_instances(request).await?.into_inner();
        for instance in page.instances.iter().take(left as usize) {
            match screen.mode {
                Mode::Json => screen.line(&wire::instance(instance).to_string())?,
                Mode::Human => {
                    table.row(row(instance));
                }
            }
        }
        left = left.saturating_sub(u32::try_from(page.instances.len()).unwrap_or(u32::MAX));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if left == args.limit {
        screen.tell("no such runs; `orch8 instance start SEQUENCE` starts one")?;
    } else {
        screen.tell(&table.to_string())?;
        if !page_token.is_empty() {
            screen.tell(
                &screen.paint.dim(&format!("… there are more: --limit {}", args.limit.saturating_mul(10))),
            )?;
        }
    }
    Ok(Exit::Ok)
}

fn row(instance: &orch8_proto::v1::Instance) -> [String; 6] {
    let created = wire::instant(instance.created_at.as_ref());
    let closed = wire::instant(instance.closed_at.as_ref());
    let took = match (created, closed) {
        (Some(created), Some(closed)) => human::span((closed - created).num_milliseconds()),
        (_, _) => String::new(),
    };
    let error = instance.error.as_ref();
    [
        instance.instance_id.clone(),
        wire::instance_state(instance.state).to_owned(),
        format!("{} v{}", human::foreign(&instance.sequence_name, 60), instance.sequence_version),
        created.map(human::instant).unwrap_or_default(),
        took,
        error
            .map(|e| format!("{}: {}", human::foreign(&e.code, 40), human::foreign(&e.message, 60)))
            .unwrap_or_default(),
    ]
}

pub async fn outputs(
    instance_id: String,
    block: Option<String>,
    caller: &Caller,
    screen: Screen,
) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let mut rows = Vec::new();
    let mut after_seq = 0;
    for _ in 0..OUTPUT_PAGES_MAX {
        let request = GetOutputsRequest {
            tenant_id: caller.tenant(),
            instance_id: instance_id.clone(),
            after_seq,
            page_size: OUTPUTS_PAGE,
            block_id: block.clone().unwrap_or_default(),
        };
        let page = server.instances().get_outputs(request).await?.into_inner();
        rows.extend(page.outputs);
        // A server that does not move on would keep us here for ever.
        if page.next_after_seq <= after_seq {
            break;
        }
        after_seq = page.next_after_seq;
    }
    screen.show(
        |paint| {
            if rows.is_empty() {
                return "no block has answered yet".to_owned();
            }
            let lines: Vec<String> = rows
                .iter()
                .map(|row| {
                    let at =
                        if row.iteration.is_empty() { String::new() } else { format!("#{}", row.iteration) };
                    let name = human::foreign(&format!("{}{at}", row.block_id), 100);
                    format!(
                        "{} {}",
                        paint.bold(&name),
                        human::foreign(&wire::value(row.output.as_ref()).to_string(), 10_000)
                    )
                })
                .collect();
            lines.join("\n")
        },
        || Value::Array(rows.iter().map(wire::output_row).collect()),
    )?;
    Ok(Exit::Ok)
}
