//! `orch8 signal`: messages to a run.

use clap::{Args, Subcommand};
use orch8_proto::v1::{
    CancelSignal, CustomSignal, PauseSignal, ResumeSignal, SendSignalRequest, UpdateContextSignal,
    send_signal_request::Signal,
};
use serde_json::{Value, json};

use crate::{client::Caller, error::Exit, instance::input, json as wire, screen::Screen};

/// `orch8 signal`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  orch8 signal 0190a1b2-… answer approve yes
  orch8 signal 0190a1b2-… pause --signal-id stop-1     the same id again is acknowledged and not consumed twice")]
pub struct SignalArgs {
    /// The run.
    instance: String,
    /// Makes the call repeatable; a new one when absent.
    #[arg(long, global = true, value_name = "ID")]
    signal_id: Option<String>,
    #[command(subcommand)]
    kind: SignalKind,
}

#[derive(Debug, Subcommand)]
enum SignalKind {
    /// Dispatch nothing new until resume.
    #[command(after_help = "Example:\n  orch8 signal 0190a1b2-… pause")]
    Pause,
    /// Go on.
    #[command(after_help = "Example:\n  orch8 signal 0190a1b2-… resume")]
    Resume,
    /// Ask for cancellation.
    #[command(after_help = "Example:\n  orch8 signal 0190a1b2-… cancel")]
    Cancel,
    /// Merge an object into the data of the run.
    #[command(after_help = "Example:\n  orch8 signal 0190a1b2-… update-context --data '{\"limit\":5}'")]
    UpdateContext {
        /// JSON object, or @file.
        #[arg(long, value_name = "JSON")]
        data: String,
    },
    /// Answer a block that waits for a person.
    #[command(after_help = "Example:\n  orch8 signal 0190a1b2-… answer approve yes")]
    Answer {
        /// The block that asks.
        block: String,
        /// One of its choices: JSON, or plain text.
        value: String,
        /// Which iteration asks, for example 0.2; the oldest when absent.
        #[arg(long)]
        iteration: Option<String>,
        /// Kept with the answer where the block allows it.
        #[arg(long)]
        comment: Option<String>,
    },
    /// A signal of the sequence's own.
    #[command(after_help = "Example:\n  orch8 signal 0190a1b2-… custom paid --payload '{\"cents\":900}'")]
    Custom {
        name: String,
        /// JSON, or @file.
        #[arg(long, default_value = "null", value_name = "JSON")]
        payload: String,
    },
}

pub async fn run(args: SignalArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let request = SendSignalRequest {
        tenant_id: caller.tenant(),
        instance_id: args.instance,
        signal_id: args.signal_id.unwrap_or_default(),
        signal: Some(signal(args.kind)?),
    };
    let sent = caller.connect().await?.signals().send_signal(request).await?.into_inner();
    screen.show(
        |paint| {
            let what = if sent.duplicate { "was accepted before" } else { "accepted" };
            format!("{} signal {what}\n  {}", paint.green("✓"), paint.dim(&sent.signal_id))
        },
        || json!({ "signal_id": sent.signal_id, "duplicate": sent.duplicate }),
    )?;
    Ok(Exit::Ok)
}

fn signal(kind: SignalKind) -> anyhow::Result<Signal> {
    Ok(match kind {
        SignalKind::Pause => Signal::Pause(PauseSignal {}),
        SignalKind::Resume => Signal::Resume(ResumeSignal {}),
        SignalKind::Cancel => Signal::Cancel(CancelSignal {}),
        SignalKind::UpdateContext { data } => {
            Signal::UpdateContext(UpdateContextSignal { data: Some(input::payload("--data", &data)?) })
        }
        SignalKind::Answer { block, value, iteration, comment } => answer(&block, &value, iteration, comment),
        SignalKind::Custom { name, payload } => {
            Signal::Custom(CustomSignal { name, payload: Some(input::payload("--payload", &payload)?) })
        }
    })
}

/// Gates listen to `human_input:<block>` or `human_input:<block>#<iteration>`.
fn answer(block: &str, value: &str, iteration: Option<String>, comment: Option<String>) -> Signal {
    let at = iteration.map(|iteration| format!("#{iteration}")).unwrap_or_default();
    // `yes` is no JSON and means the text; `"5"` and `5` stay what they are.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let payload = match comment {
        Some(comment) => json!({ "value": value, "comment": comment }),
        None => json!({ "value": value }),
    };
    Signal::Custom(CustomSignal {
        name: format!("human_input:{block}{at}"),
        payload: Some(wire::payload(&payload)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reaches_the_gate_it_is_meant_for() {
        for (value, iteration, comment, name, payload) in [
            ("yes", None, None, "human_input:ok", r#"{"value":"yes"}"#),
            ("5", Some("0.2"), None, "human_input:ok#0.2", r#"{"value":5}"#),
            ("\"5\"", None, Some("why"), "human_input:ok", r#"{"value":"5","comment":"why"}"#),
        ] {
            let signal = answer("ok", value, iteration.map(str::to_owned), comment.map(str::to_owned));
            let expected = CustomSignal {
                name: name.to_owned(),
                payload: Some(wire::payload(&serde_json::from_str(payload).expect("json"))),
            };
            assert_eq!(signal, Signal::Custom(expected));
        }
    }
}
