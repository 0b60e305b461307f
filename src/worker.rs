//! `orch8 worker`: serves handlers with a shell command, one process per try.

use std::{collections::BTreeMap, time::Instant};

use bytes::Bytes;
use clap::Args;
use orch8_worker::{StepContext, StepError, Worker, WorkerError};
use serde_json::json;

use crate::{
    client::{Caller, Speaks},
    error::{CliError, Exit},
    exec::{self, Ended},
    human,
    screen::{Mode, Screen},
};

/// Handlers of one session.
const HANDLERS_MAX: usize = 64;

/// `orch8 worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  orch8 worker --handler charge --exec './charge.sh'

The command runs under `sh -c`, once per try. Its standard input is the step's params as JSON, its standard output the
step's output as JSON (nothing = null), its environment tells the rest: ORCH8_IDEMPOTENCY_KEY (the same for every try),
ORCH8_ATTEMPT (0, 1, …), ORCH8_HANDLER, ORCH8_INSTANCE_ID, ORCH8_BLOCK_ID, ORCH8_ITERATION, ORCH8_SEQUENCE,
ORCH8_TENANT, ORCH8_TIMEOUT_MS (empty = none), ORCH8_CONTEXT ({\"data\":…,\"config\":…}).
  exit 0    done                          exit 75   try again later, as the step's retry says
  other     failed for good; the end of standard error is the message
When the step is taken away (cancelled, timed out), the command and all it started are killed.")]
pub struct WorkerArgs {
    /// Handler to serve; may be repeated.
    #[arg(long = "handler", required = true, value_name = "NAME")]
    handlers: Vec<String>,
    /// Shell command.
    #[arg(long, required = true, value_name = "COMMAND")]
    exec: String,
    /// Commands that run at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    max_in_flight: u16,
    /// Name shown by `orch8 workers`; the host's name and something new when absent.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Say nothing about single steps.
    #[arg(long)]
    quiet: bool,
}

pub async fn run(args: WorkerArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    if args.handlers.len() > HANDLERS_MAX {
        return Err(CliError::usage(format!("at most {HANDLERS_MAX} handlers in one worker")).into());
    }
    let target = caller.target(Speaks::Worker)?;
    let mut builder = Worker::builder(&target.address)
        .tenant(caller.tenant())
        .max_in_flight(args.max_in_flight.into())
        .version(env!("ORCH8_VERSION"));
    if let Some(key) = &target.key {
        builder = builder.credential(key.reveal());
    }
    let tls = caller.tls()?;
    if let Some(pem) = tls.ca {
        builder = builder.ca_certificate(pem);
    }
    if let Some((certificate, key)) = tls.identity {
        builder = builder.client_certificate(certificate, key);
    }
    if caller.is_insecure() {
        builder = builder.allow_plaintext();
    }
    if let Some(name) = args.name {
        builder = builder.worker_id(name);
    }
    for handler in &args.handlers {
        let command = args.exec.clone();
        let quiet = args.quiet;
        builder = builder.raw_handler(handler, move |context, input| {
            let command = command.clone();
            async move { step(&command, &context, input, (!quiet).then_some(screen)).await }
        });
    }
    screen.tell(&format!(
        "serving {} at {}, {} at once; ctrl-c finishes what runs, then ends",
        args.handlers.join(", "),
        target.address,
        args.max_in_flight
    ))?;
    // A worker may be there before its server: it goes on trying, and says that it does.
    if let Err(error) = caller.connect().await {
        screen.tell(&screen.paint.yellow(&format!("! {error}; trying on")))?;
    }
    match builder.run(orch8_worker::termination()).await {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => Err(refusal(error).into()),
    }
}

async fn step(
    command: &str,
    context: &StepContext,
    input: Bytes,
    screen: Option<Screen>,
) -> Result<Bytes, StepError> {
    let begun = Instant::now();
    let ended = exec::run(command, &input, &environment(context), context.cancellation()).await;
    if let Some(screen) = screen {
        // Nobody reads: the step goes on.
        let _unread = tell(screen, context, &ended, begun);
    }
    match ended {
        Ended::Completed(output) => Ok(output),
        Ended::Retryable { code, message } => Err(StepError::retryable(message).code(code)),
        Ended::Permanent { code, message } => Err(StepError::permanent(message).code(code)),
        // Not reported: it was taken away.
        Ended::Stopped => Err(StepError::retryable("stopped")),
    }
}

fn environment(context: &StepContext) -> BTreeMap<&'static str, String> {
    let timeout = context.timeout().map(|timeout| timeout.as_millis().to_string());
    BTreeMap::from([
        ("ORCH8_IDEMPOTENCY_KEY", context.idempotency_key().to_owned()),
        ("ORCH8_ATTEMPT", context.attempt().to_string()),
        ("ORCH8_HANDLER", context.handler().to_owned()),
        ("ORCH8_INSTANCE_ID", context.instance_id().to_owned()),
        ("ORCH8_BLOCK_ID", context.block_id().to_owned()),
        ("ORCH8_ITERATION", context.iteration().to_owned()),
        ("ORCH8_SEQUENCE", context.sequence().to_owned()),
        ("ORCH8_TENANT", context.tenant().to_owned()),
        ("ORCH8_TIMEOUT_MS", timeout.unwrap_or_default()),
        ("ORCH8_CONTEXT", environment_text(context.context_json())),
    ])
}

/// The kernel refuses a longer variable (128 KiB with its name), and then the command would not start at all.
const VARIABLE_BYTES_MAX: usize = 120 << 10;

/// Empty when it would not fit.
fn environment_text(json: &[u8]) -> String {
    if json.len() > VARIABLE_BYTES_MAX { String::new() } else { String::from_utf8_lossy(json).into_owned() }
}

fn tell(screen: Screen, context: &StepContext, ended: &Ended, begun: Instant) -> anyhow::Result<()> {
    let (word, message) = match ended {
        Ended::Completed(_) => ("completed", ""),
        Ended::Retryable { message, .. } => ("retryable", message.as_str()),
        Ended::Permanent { message, .. } => ("failed", message.as_str()),
        Ended::Stopped => ("stopped", ""),
    };
    let took = begun.elapsed();
    match screen.mode {
        Mode::Json => screen.line(
            &json!({
                "handler": context.handler(),
                "instance_id": context.instance_id(),
                "block_id": context.block_id(),
                "iteration": context.iteration(),
                "attempt": context.attempt(),
                "outcome": word,
                "message": message,
                "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            })
            .to_string(),
        ),
        Mode::Human => {
            let paint = screen.paint;
            let symbol = match ended {
                Ended::Completed(_) => paint.green("✓"),
                Ended::Retryable { .. } => paint.yellow("↻"),
                Ended::Permanent { .. } => paint.red("✗"),
                Ended::Stopped => paint.dim("⊘"),
            };
            let colon = if message.is_empty() { "" } else { ": " };
            screen.line(&format!(
                "{symbol} {}  {}  {word} after {}{colon}{}",
                human::foreign(context.handler(), 60),
                paint.dim(context.instance_id()),
                human::duration(took),
                human::foreign(message, 200)
            ))
        }
    }
}

fn refusal(error: WorkerError) -> CliError {
    match error {
        WorkerError::Setting(text) => CliError::usage(text),
        WorkerError::Refused(failure) => CliError::from(failure),
        WorkerError::Unfinished { unfinished } => {
            CliError::new(Exit::Failed, "UNFINISHED", format!("{unfinished} steps were still running"))
                .hint("they are given to another worker once their lease ends")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_too_large_for_the_environment_is_left_out() {
        assert_eq!(environment_text(b"{}"), "{}");
        assert_eq!(environment_text(&vec![b'1'; VARIABLE_BYTES_MAX + 1]), "");
    }
}
