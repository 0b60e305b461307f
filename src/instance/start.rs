//! Starting runs: one, or a file full.

use std::{io::BufRead, time::Duration};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use orch8_model::{Millis, limits::CONTEXT_BYTES_MAX};
use orch8_proto::v1::{
    Payload, Priority, StartInstanceRequest, StartInstanceResponse, StartInstancesRequest,
};
use prost_types::Timestamp;
use serde_json::{Map, Value, json};

use super::{follow, input};
use crate::{
    client::{Caller, Server},
    error::{CliError, Exit},
    human,
    screen::Screen,
    sequence::{by_name_or_id, warning_lines},
};

/// A request may hold 4 MiB; this leaves room for keys and names beside the data.
const BATCH_BYTES_MAX: usize = 3 << 20;
/// Runs per request, unless told: large enough to be fast, small enough to answer soon.
const BATCH: u32 = 500;

/// What every start says.
#[derive(Debug, Args)]
pub struct SequenceRef {
    /// Name or id of the sequence.
    pub sequence: String,
    /// Newest when absent.
    #[arg(long)]
    pub version: Option<i32>,
    #[arg(long, default_value = "default")]
    pub namespace: String,
    #[arg(long, value_enum, default_value_t)]
    pub priority: PriorityArg,
    /// IANA name.
    #[arg(long, default_value = "UTC")]
    pub timezone: String,
}

#[derive(Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    pub sequence: SequenceRef,
    /// JSON object, or @file: what the run works on.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    pub data: String,
    /// JSON object, or @file.
    #[arg(long, value_name = "JSON")]
    pub config: Option<String>,
    /// JSON object, or @file: kept with the run.
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Not before this instant, for example 2027-03-14T07:30:00Z.
    #[arg(long, value_name = "RFC 3339")]
    pub at: Option<String>,
    /// The same key and data again answer the same run.
    #[arg(long, default_value = "", value_name = "KEY")]
    pub idempotency_key: String,
    /// Wait until it ends; the exit code says how.
    #[arg(long)]
    pub wait: bool,
    /// Limit of --wait.
    #[arg(long, requires = "wait", value_parser = human::parse_duration)]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct StartManyArgs {
    #[command(flatten)]
    pub sequence: SequenceRef,
    /// One JSON object per line, the data of one run each; - reads standard input.
    pub file: String,
    /// Idempotency key = this field of the line, behind the prefix. Without: the number of the line.
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,
    /// Put before every key. Without: the names of the sequence and the file.
    #[arg(long, value_name = "TEXT")]
    pub key_prefix: Option<String>,
    /// Runs per request.
    #[arg(long, default_value_t = BATCH, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum PriorityArg {
    Low,
    #[default]
    Normal,
    High,
    Critical,
}

impl From<PriorityArg> for Priority {
    fn from(priority: PriorityArg) -> Self {
        match priority {
            PriorityArg::Low => Priority::Low,
            PriorityArg::Normal => Priority::Normal,
            PriorityArg::High => Priority::High,
            PriorityArg::Critical => Priority::Critical,
        }
    }
}

pub async fn one(args: StartArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let optional = |flag, text: Option<String>| text.map(|text| input::payload(flag, &text)).transpose();
    let request = StartInstanceRequest {
        data: Some(input::payload("--data", &args.data)?),
        config: optional("--config", args.config)?,
        metadata: optional("--metadata", args.metadata)?,
        next_fire_at: args.at.as_deref().map(instant).transpose()?,
        idempotency_key: args.idempotency_key,
        ..request(&args.sequence, caller)
    };
    let server = caller.connect().await?;
    let started = server.instances().start_instance(request).await?.into_inner();
    if args.wait {
        screen.tell(&format!("{}{}", warning_lines(&started.warnings, screen.paint), started.instance_id))?;
        return follow::wait(&started.instance_id, args.timeout, caller, screen).await;
    }
    screen.show(
        |paint| {
            let what = if started.deduplicated { "was started before with this key" } else { "started" };
            format!(
                "{}{} {what}\n{}",
                warning_lines(&started.warnings, paint),
                paint.green("✓"),
                started.instance_id
            )
        },
        || answer(&started),
    )?;
    Ok(Exit::Ok)
}

pub async fn many(args: StartManyArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let prefix =
        args.key_prefix.clone().unwrap_or_else(|| format!("{} {}", args.sequence.sequence, args.file));
    let mut reader: Box<dyn BufRead> = match args.file.as_str() {
        "-" => Box::new(std::io::stdin().lock()),
        path => {
            let file = std::fs::File::open(path)
                .map_err(|error| CliError::usage(format!("cannot read {path}: {error}")))?;
            Box::new(std::io::BufReader::new(file))
        }
    };
    let bar = spinner(screen);
    let mut total = Started::default();
    let mut batch = Batch::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if read_line(&mut reader, &mut line)? == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let key = key(&line, number, &prefix, args.key_field.as_deref())?;
        let data = Payload { data: std::mem::take(&mut line).into(), content_type: String::new() };
        let item = StartInstanceRequest {
            idempotency_key: key,
            data: Some(data),
            ..request(&args.sequence, caller)
        };
        if !batch.has_room(&item, args.batch) {
            total.add(send(&server, caller, &mut batch, screen).await?);
            bar.set_position(total.started + total.deduplicated);
        }
        batch.push(item);
    }
    total.add(send(&server, caller, &mut batch, screen).await?);
    bar.finish_and_clear();
    screen.show(
        |paint| {
            format!(
                "{} {} started, {} had been started before",
                paint.green("✓"),
                human::count(total.started),
                human::count(total.deduplicated)
            )
        },
        || json!({ "started": total.started, "deduplicated": total.deduplicated, "instance_ids": total.ids }),
    )?;
    Ok(Exit::Ok)
}

/// What all batches came to.
#[derive(Debug, Default)]
struct Started {
    started: u64,
    deduplicated: u64,
    /// For scripts only; one id is 36 bytes.
    ids: Vec<String>,
}

impl Started {
    fn add(&mut self, items: Vec<StartInstanceResponse>) {
        for item in items {
            match item.deduplicated {
                true => self.deduplicated += 1,
                false => self.started += 1,
            }
            self.ids.push(item.instance_id);
        }
    }
}

/// Starts that fit into one request.
#[derive(Debug, Default)]
struct Batch {
    items: Vec<StartInstanceRequest>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self, item: &StartInstanceRequest, items_max: u32) -> bool {
        self.items.is_empty()
            || (self.items.len() < items_max as usize && self.bytes + size(item) <= BATCH_BYTES_MAX)
    }

    fn push(&mut self, item: StartInstanceRequest) {
        self.bytes += size(&item);
        self.items.push(item);
    }
}

/// Data and a generous allowance for the rest.
fn size(item: &StartInstanceRequest) -> usize {
    item.data.as_ref().map_or(0, |data| data.data.len()) + 1_024
}

async fn send(
    server: &Server,
    caller: &Caller,
    batch: &mut Batch,
    screen: Screen,
) -> anyhow::Result<Vec<StartInstanceResponse>> {
    let batch = std::mem::take(batch);
    if batch.items.is_empty() {
        return Ok(Vec::new());
    }
    let request = StartInstancesRequest { tenant_id: caller.tenant(), instances: batch.items };
    let items = server.instances().start_instances(request).await?.into_inner().items;
    if let Some(warned) = items.iter().find(|item| !item.warnings.is_empty()) {
        screen.tell(&warning_lines(&warned.warnings, screen.paint))?;
    }
    Ok(items)
}

fn request(sequence: &SequenceRef, caller: &Caller) -> StartInstanceRequest {
    let named = by_name_or_id(&sequence.sequence);
    StartInstanceRequest {
        tenant_id: caller.tenant(),
        namespace: sequence.namespace.clone(),
        sequence_id: named.sequence_id,
        sequence_name: named.name,
        version: sequence.version.unwrap_or_default(),
        priority: Priority::from(sequence.priority).into(),
        timezone: sequence.timezone.clone(),
        ..StartInstanceRequest::default()
    }
}

/// Reads one line of at most the size of a context. Errors: longer, unreadable. 0: the end.
fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> anyhow::Result<usize> {
    use std::io::Read;
    let read = reader.take(CONTEXT_BYTES_MAX as u64 + 2).read_until(b'\n', line)?;
    if read > CONTEXT_BYTES_MAX + 1 {
        let limit = human::count(CONTEXT_BYTES_MAX as u64);
        return Err(CliError::new(
            Exit::Refused,
            "TOO_LARGE",
            format!("a line is longer than {limit} bytes"),
        )
        .into());
    }
    Ok(read)
}

/// `<prefix>-<field or line number>`. Errors: the line is no JSON object, or has no such text or number in it.
fn key(line: &[u8], number: u64, prefix: &str, field: Option<&str>) -> Result<String, CliError> {
    let object: Map<String, Value> = serde_json::from_slice(line)
        .map_err(|error| CliError::usage(format!("line {number} is not a JSON object: {error}")))?;
    let Some(field) = field else { return Ok(format!("{prefix}-{number}")) };
    match object.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(format!("{prefix}-{text}")),
        Some(Value::Number(n)) => Ok(format!("{prefix}-{n}")),
        Some(_) | None => Err(CliError::usage(format!("line {number} has no text or number in `{field}`"))),
    }
}

fn instant(text: &str) -> Result<Timestamp, CliError> {
    let at: Millis =
        orch8_model::parse_instant(text).map_err(|problem| CliError::usage(format!("--at {problem}")))?;
    let nanos = i32::try_from(at.0.rem_euclid(1_000) * 1_000_000).unwrap_or_default();
    Ok(Timestamp { seconds: at.0.div_euclid(1_000), nanos })
}

fn answer(started: &StartInstanceResponse) -> Value {
    json!({
        "instance_id": started.instance_id,
        "deduplicated": started.deduplicated,
        "warnings": crate::json::warnings(&started.warnings),
    })
}

fn spinner(screen: Screen) -> ProgressBar {
    if !screen.progress {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} started, {per_sec}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_the_field_or_from_the_line_number() {
        for (line, field, expected) in [
            (r#"{"id":"a"}"#, None, Some("orders-7")),
            (r#"{"id":"a"}"#, Some("id"), Some("orders-a")),
            (r#"{"id":17}"#, Some("id"), Some("orders-17")),
            (r#"{"id":null}"#, Some("id"), None),
            (r#"{"id":""}"#, Some("id"), None),
            (r#"{}"#, Some("id"), None),
            ("[]", None, None),
            ("{", None, None),
        ] {
            assert_eq!(key(line.as_bytes(), 7, "orders", field).ok().as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_batch_ends_before_it_is_too_large_and_never_refuses_its_first_item() {
        let item = |bytes: usize| StartInstanceRequest {
            data: Some(Payload { data: vec![b' '; bytes].into(), content_type: String::new() }),
            ..StartInstanceRequest::default()
        };
        let mut batch = Batch::default();
        assert!(batch.has_room(&item(BATCH_BYTES_MAX), 1));
        batch.push(item(1 << 20));
        assert!(!batch.has_room(&item(1), 1), "full by number");
        assert!(batch.has_room(&item(1 << 20), 500));
        assert!(!batch.has_room(&item(2 << 20), 500), "full by bytes");
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut line = Vec::new();
        assert!(read_line(&mut vec![b' '; CONTEXT_BYTES_MAX + 9].as_slice(), &mut line).is_err());
        line.clear();
        assert_eq!(read_line(&mut b"{}\n{}".as_slice(), &mut line).expect("reads"), 3);
    }

    #[test]
    fn instants_keep_their_milliseconds_before_1970_too() {
        for (text, seconds, nanos) in [
            ("2027-03-14T07:30:00.005Z", 1_805_009_400, 5_000_000),
            ("1969-12-31T23:59:59.999Z", -1, 999_000_000),
        ] {
            assert_eq!(instant(text).expect(text), Timestamp { seconds, nanos });
        }
        assert_eq!(instant("soon").expect_err("refused").exit, Exit::Usage);
    }
}
