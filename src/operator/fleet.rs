//! `orch8 fleet`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use orch8_proto::v1::{DescribeFleetRequest, DescribeFleetResponse, FleetNode, OwnedShards};
use serde_json::{Value, json};

use super::{ControlPlaneFlag, at, refusal};
use crate::{
    client::Caller,
    error::Exit,
    human, json as wire,
    screen::{Paint, Screen, Table},
};

/// Stores of one node listed in one cell.
const STORES_SHOWN: usize = 8;

/// `orch8 fleet`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  orch8 fleet show")]
pub struct FleetArgs {
    #[command(flatten)]
    control_plane: ControlPlaneFlag,
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Every node, whether it is live, and who owns which shards since when.
    #[command(after_help = "\
Example:
  orch8 fleet show
  orch8 fleet show --output json      {\"nodes\":[…],\"shards\":[…]}")]
    Show,
}

pub async fn run(args: FleetArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = args.control_plane.connect(caller).await?;
    match args.command {
        FleetCommand::Show => {
            let fleet = server.fleet().describe_fleet(DescribeFleetRequest {}).await;
            let fleet = fleet.map_err(|s| refusal(s, ""))?.into_inner();
            screen.show(|paint| render(&fleet, Utc::now(), paint), || document(&fleet))?;
        }
    }
    Ok(Exit::Ok)
}

fn render(fleet: &DescribeFleetResponse, now: DateTime<Utc>, paint: Paint) -> String {
    let mut parts = Vec::new();
    if fleet.nodes.is_empty() {
        parts.push("no node has joined; `orch8 data-plane` starts one".to_owned());
    } else {
        parts.push(node_table(&fleet.nodes, now));
    }
    if !fleet.shards.is_empty() {
        parts.push(shard_table(&fleet.shards));
    }
    let warnings = warnings(fleet);
    if !warnings.is_empty() {
        parts.push(warnings.iter().map(|text| paint.yellow(text)).collect::<Vec<_>>().join("\n"));
    }
    parts.join("\n\n")
}

fn node_table(nodes: &[FleetNode], now: DateTime<Utc>) -> String {
    let mut table = Table::new(["NODE", "STATE", "HEARD", "JOINED (UTC)", "STORES", "ADDRESS"]);
    for node in nodes {
        let heard = wire::instant(node.seen_at.as_ref())
            .map(|at| format!("{} ago", human::span((now - at).num_milliseconds())))
            .unwrap_or_default();
        let mut stores: Vec<String> =
            node.stores.iter().take(STORES_SHOWN).map(|store| human::foreign(store, 40)).collect();
        if node.stores.len() > STORES_SHOWN {
            stores.push(format!("and {} more", node.stores.len() - STORES_SHOWN));
        }
        table.row([
            human::foreign(&node.node_id, 60),
            if node.live { "live" } else { "silent" }.to_owned(),
            heard,
            at(node.joined_at.as_ref()),
            stores.join(", "),
            human::foreign(&node.address, 80),
        ]);
    }
    table.to_string()
}

fn shard_table(shards: &[OwnedShards]) -> String {
    let mut table = Table::new(["STORE", "SHARDS", "OWNER", "EPOCH", "SINCE (UTC)"]);
    for owned in shards {
        let owner = match owned.node_id.as_str() {
            "" => "nobody".to_owned(),
            node => human::foreign(node, 60),
        };
        let store = human::foreign(&owned.store, 128);
        table.row([store, span(owned), owner, owned.lease_epoch.to_string(), at(owned.since.as_ref())]);
    }
    table.to_string()
}

/// `0–63`, or `7`.
fn span(owned: &OwnedShards) -> String {
    match owned.first_shard == owned.last_shard {
        true => owned.first_shard.to_string(),
        false => format!("{}–{}", owned.first_shard, owned.last_shard),
    }
}

/// What somebody should look at.
fn warnings(fleet: &DescribeFleetResponse) -> Vec<String> {
    let mut said = Vec::new();
    for owned in &fleet.shards {
        let (store, shards) = (human::foreign(&owned.store, 128), span(owned));
        let owner = fleet.nodes.iter().find(|node| node.node_id == owned.node_id);
        match owner {
            None => {
                said.push(format!("{store} {shards}: nobody owns them; start a node that serves {store}"))
            }
            Some(node) if !node.live => said.push(format!(
                "{store} {shards}: {} is silent, and no other live node serves {store}",
                human::foreign(&node.node_id, 60)
            )),
            Some(_) => {}
        }
        if owned.fell_from > 0 {
            said.push(format!(
                "{store} {shards}: {} commits were confirmed and the store counts fewer; was it restored from a backup?",
                human::count(owned.fell_from)
            ));
        }
    }
    said
}

fn document(fleet: &DescribeFleetResponse) -> Value {
    let node = |node: &FleetNode| {
        json!({
            "node_id": node.node_id,
            "address": node.address,
            "stores": node.stores,
            "joined_at": wire::rfc3339(node.joined_at.as_ref()),
            "seen_at": wire::rfc3339(node.seen_at.as_ref()),
            "live": node.live,
        })
    };
    let shards = |owned: &OwnedShards| {
        json!({
            "store": owned.store,
            "first_shard": owned.first_shard,
            "last_shard": owned.last_shard,
            "node_id": owned.node_id,
            "lease_epoch": owned.lease_epoch,
            "since": wire::rfc3339(owned.since.as_ref()),
            "fell_from": owned.fell_from,
        })
    };
    json!({
        "nodes": fleet.nodes.iter().map(node).collect::<Vec<_>>(),
        "shards": fleet.shards.iter().map(shards).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(node: &str, first: u32, last: u32, fell_from: u64) -> OwnedShards {
        OwnedShards {
            store: "main".into(),
            first_shard: first,
            last_shard: last,
            node_id: node.into(),
            lease_epoch: 3,
            fell_from,
            ..OwnedShards::default()
        }
    }

    #[test]
    fn what_somebody_should_look_at_is_said_below_the_tables() {
        let node = |name: &str, live| FleetNode { node_id: name.into(), live, ..FleetNode::default() };
        let fleet = DescribeFleetResponse {
            nodes: vec![node("a", true), node("b\x1b[2J", false)],
            shards: vec![
                owned("a", 0, 1, 0),
                owned("a", 2, 2, 1_500),
                owned("", 3, 3, 0),
                owned("b\x1b[2J", 4, 9, 0),
            ],
        };
        let text = render(&fleet, Utc::now(), Paint(false));
        for line in [
            "main 2: 1,500 commits were confirmed",
            "main 3: nobody owns them",
            "main 4–9: b\\u{1b}[2J is silent",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("main 0–1:"), "{text}");
        assert!(!text.contains('\x1b'), "a name does not steer the terminal");
    }

    #[test]
    fn an_empty_fleet_says_how_to_start_one() {
        let text = render(&DescribeFleetResponse::default(), Utc::now(), Paint(false));
        assert!(text.contains("orch8 data-plane"), "{text}");
    }
}
