//! `orch8 instance`: runs, started, watched and read.

mod follow;
pub mod input;
mod read;
mod start;

use std::time::Duration;

use clap::{Args, Subcommand};
use orch8_proto::v1::{CancelInstanceRequest, Instance, InstanceState};
use serde_json::json;

use crate::{client::Caller, error::Exit, human, json as wire, screen::Screen};

/// `orch8 instance`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  orch8 instance start flow --data '{\"name\":\"Ada\"}' --wait")]
pub struct InstanceArgs {
    #[command(subcommand)]
    command: InstanceCommand,
}

#[derive(Debug, Subcommand)]
enum InstanceCommand {
    /// Start one run.
    #[command(after_help = "\
Examples:
  orch8 instance start flow --data '{\"name\":\"Ada\"}'
  orch8 instance start flow --data @order.json --idempotency-key order-17 --wait --timeout 30s")]
    Start(start::StartArgs),
    /// Start one run per line of a file: all of a batch, or none of it.
    #[command(after_help = "\
Example:
  orch8 instance start-many flow orders.jsonl --key-field order_id
Running it again starts nothing twice, since every run has an idempotency key.")]
    StartMany(start::StartManyArgs),
    /// Wait until a run ends; the exit code says how.
    #[command(after_help = "Example:\n  orch8 instance wait 0190a1b2-… --timeout 5m")]
    Wait {
        instance: String,
        /// 500ms, 30s, 5m, 2h; without, as long as it takes.
        #[arg(long, value_parser = human::parse_duration)]
        timeout: Option<Duration>,
    },
    /// The run as a tree: what happened, how long it took, what it waits for and why.
    #[command(after_help = "Example:\n  orch8 instance show 0190a1b2-… --outputs")]
    Show {
        instance: String,
        /// Show what each block answered.
        #[arg(long)]
        outputs: bool,
    },
    /// Runs, newest first.
    #[command(after_help = "Example:\n  orch8 instance list --state failed --sequence flow --limit 20")]
    List(read::ListArgs),
    /// Ask for cancellation. The run will end cancelled; protected parts finish first.
    #[command(after_help = "Example:\n  orch8 instance cancel 0190a1b2-… --reason 'ordered twice'")]
    Cancel {
        instance: String,
        /// Kept with the run.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// What the blocks of a run answered, in the order it was written.
    #[command(after_help = "\
Examples:
  orch8 instance output 0190a1b2-…
  orch8 instance output 0190a1b2-… --block classify --output json")]
    Output {
        instance: String,
        /// Only this block.
        #[arg(long)]
        block: Option<String>,
    },
    /// Every change of a run as it happens, until it ends; the exit code says how.
    #[command(after_help = "Example:\n  orch8 instance watch 0190a1b2-…")]
    Watch { instance: String },
}

pub async fn run(args: InstanceArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        InstanceCommand::Start(args) => start::one(args, caller, screen).await,
        InstanceCommand::StartMany(args) => start::many(args, caller, screen).await,
        InstanceCommand::Wait { instance, timeout } => follow::wait(&instance, timeout, caller, screen).await,
        InstanceCommand::Show { instance, outputs } => read::show(instance, outputs, caller, screen).await,
        InstanceCommand::List(args) => read::list(args, caller, screen).await,
        InstanceCommand::Cancel { instance, reason } => cancel(instance, reason, caller, screen).await,
        InstanceCommand::Output { instance, block } => read::outputs(instance, block, caller, screen).await,
        InstanceCommand::Watch { instance } => follow::watch(&instance, caller, screen).await,
    }
}

async fn cancel(
    instance_id: String,
    reason: String,
    caller: &Caller,
    screen: Screen,
) -> anyhow::Result<Exit> {
    let request = CancelInstanceRequest { tenant_id: caller.tenant(), instance_id, reason };
    let cancelled = caller.connect().await?.instances().cancel_instance(request).await?.into_inner();
    screen.show(
        |paint| match cancelled.state() {
            InstanceState::Cancelled => format!("{} cancelled", paint.green("✓")),
            InstanceState::Unspecified
            | InstanceState::Scheduled
            | InstanceState::Running
            | InstanceState::Waiting
            | InstanceState::Paused
            | InstanceState::Completed
            | InstanceState::Failed => format!(
                "{} cancel accepted; it ends cancelled once its protected parts are done",
                paint.green("✓")
            ),
        },
        || json!({ "state": wire::instance_state(cancelled.state) }),
    )?;
    Ok(Exit::Ok)
}

/// The exit code of an ended run. `None`: it has not ended.
fn ended(instance: &Instance) -> Option<Exit> {
    match instance.state() {
        InstanceState::Completed => Some(Exit::Ok),
        InstanceState::Failed => Some(Exit::InstanceFailed),
        InstanceState::Cancelled => Some(Exit::InstanceCancelled),
        InstanceState::Unspecified
        | InstanceState::Scheduled
        | InstanceState::Running
        | InstanceState::Waiting
        | InstanceState::Paused => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_how_a_run_ended() {
        for (state, code) in [
            (InstanceState::Completed, Some(0)),
            (InstanceState::Failed, Some(10)),
            (InstanceState::Cancelled, Some(11)),
            (InstanceState::Running, None),
            (InstanceState::Paused, None),
            (InstanceState::Unspecified, None),
        ] {
            let instance = Instance { state: state.into(), ..Instance::default() };
            assert_eq!(ended(&instance).map(Exit::code), code, "{state:?}");
        }
    }
}
