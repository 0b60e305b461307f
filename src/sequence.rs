//! `orch8 sequence`: definitions, checked, published and read.

use std::io::Read;

use anyhow::Context;
use clap::{Args, Subcommand};
use orch8_model::limits::DOCUMENT_BYTES_MAX;
use orch8_proto::v1::{
    GetSequenceRequest, ListSequencesRequest, Payload, PublishSequenceRequest, ValidateSequenceRequest,
    Warning,
};
use serde_json::{Value, json};

use crate::{
    client::{Caller, Server},
    error::{CliError, Exit},
    human, json as wire,
    screen::{Mode, Paint, Screen},
};

/// Sequences on one page of the server.
const PAGE: i32 = 500;
/// Pages read before giving up: a server that never ends its list is broken.
const PAGES_MAX: usize = 10_000;

/// `orch8 sequence`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  orch8 sequence publish flow.json && orch8 sequence list")]
pub struct SequenceArgs {
    #[command(subcommand)]
    command: SequenceCommand,
}

#[derive(Debug, Subcommand)]
enum SequenceCommand {
    /// Say everything that is wrong with a document, or that nothing is. Stores nothing.
    #[command(after_help = "Example:\n  orch8 sequence check flow.json")]
    Check {
        /// JSON document; - reads standard input.
        file: String,
    },
    /// Store a document as the next version. The same content again changes nothing.
    #[command(after_help = "Example:\n  orch8 sequence publish flow.json")]
    Publish {
        /// JSON document; - reads standard input.
        file: String,
    },
    /// Every published version, newest first within a name.
    #[command(after_help = "Example:\n  orch8 sequence list --namespace billing --output json")]
    List {
        /// Only this namespace.
        #[arg(long)]
        namespace: Option<String>,
    },
    /// One version and its document, byte for byte as it was published.
    #[command(after_help = "Example:\n  orch8 sequence show flow --version 2 > flow.json")]
    Show {
        /// Name or id.
        sequence: String,
        /// Newest when absent.
        #[arg(long)]
        version: Option<i32>,
        #[arg(long, default_value = "default")]
        namespace: String,
    },
}

pub async fn run(args: SequenceArgs, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    match args.command {
        SequenceCommand::Check { file } => check(&file, caller, screen).await,
        SequenceCommand::Publish { file } => publish(&file, caller, screen).await,
        SequenceCommand::List { namespace } => list(namespace, caller, screen).await,
        SequenceCommand::Show { sequence, version, namespace } => {
            let named = GetSequenceRequest {
                tenant_id: caller.tenant(),
                namespace,
                version: version.unwrap_or_default(),
                ..by_name_or_id(&sequence)
            };
            show(named, caller, screen).await
        }
    }
}

async fn check(file: &str, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let document = read_document(file)?;
    let server = caller.connect().await?;
    let request = ValidateSequenceRequest { tenant_id: caller.tenant(), document: Some(document) };
    let checked = server.sequences().validate_sequence(request).await?.into_inner();
    screen.show(
        |paint| {
            format!(
                "{}{} {file} can be published ({} blocks)",
                warning_lines(&checked.warnings, paint),
                paint.green("✓"),
                checked.blocks
            )
        },
        || {
            json!({
                "content_sha256": checked.content_sha256,
                "blocks": checked.blocks,
                "warnings": wire::warnings(&checked.warnings),
            })
        },
    )?;
    Ok(Exit::Ok)
}

async fn publish(file: &str, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let document = read_document(file)?;
    let server = caller.connect().await?;
    let request = PublishSequenceRequest { tenant_id: caller.tenant(), document: Some(document) };
    let published = server.sequences().publish_sequence(request).await?.into_inner();
    screen.show(
        |paint| {
            format!(
                "{}{} {} v{} {}\n  {}",
                warning_lines(&published.warnings, paint),
                paint.green("✓"),
                paint.bold(&human::foreign(&published.name, 200)),
                published.version,
                if published.unchanged { "is published already, unchanged" } else { "published" },
                paint.dim(&published.sequence_id)
            )
        },
        || {
            json!({
                "sequence_id": published.sequence_id,
                "namespace": published.namespace,
                "name": published.name,
                "version": published.version,
                "unchanged": published.unchanged,
                "content_sha256": published.content_sha256,
                "warnings": wire::warnings(&published.warnings),
            })
        },
    )?;
    Ok(Exit::Ok)
}

async fn list(namespace: Option<String>, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server = caller.connect().await?;
    let mut table = crate::screen::Table::new(["NAME", "VERSION", "NAMESPACE", "PUBLISHED (UTC)", "ID"]);
    let mut page_token = String::new();
    let mut rows = 0_usize;
    for _ in 0..PAGES_MAX {
        let request = ListSequencesRequest {
            tenant_id: caller.tenant(),
            namespace: namespace.clone().unwrap_or_default(),
            page_size: PAGE,
            page_token,
        };
        let page = server.sequences().list_sequences(request).await?.into_inner();
        for sequence in &page.sequences {
            rows += 1;
            match screen.mode {
                Mode::Json => screen.line(&wire::sequence(sequence).to_string())?,
                Mode::Human => {
                    table.row([
                        human::foreign(&sequence.name, 80),
                        sequence.version.to_string(),
                        human::foreign(&sequence.namespace, 80),
                        wire::instant(sequence.created_at.as_ref()).map(human::instant).unwrap_or_default(),
                        sequence.sequence_id.clone(),
                    ]);
                }
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if rows == 0 {
        screen.tell("nothing is published here; `orch8 sequence publish FILE` does it")?;
    } else {
        screen.tell(&table.to_string())?;
    }
    Ok(Exit::Ok)
}

async fn show(request: GetSequenceRequest, caller: &Caller, screen: Screen) -> anyhow::Result<Exit> {
    let server: Server = caller.connect().await?;
    let sequence = server.sequences().get_sequence(request).await?.into_inner().sequence.unwrap_or_default();
    screen.show(
        // The document itself, so that it can be redirected into a file and published again.
        |_| String::from_utf8_lossy(&sequence.document.clone().unwrap_or_default().data).into_owned(),
        || {
            let mut json = wire::sequence(&sequence);
            if let Value::Object(fields) = &mut json {
                fields.insert("document".to_owned(), wire::value(sequence.document.as_ref()));
            }
            json
        },
    )?;
    Ok(Exit::Ok)
}

/// An id if it looks like one, else a name.
pub fn by_name_or_id(sequence: &str) -> GetSequenceRequest {
    match uuid::Uuid::try_parse(sequence) {
        Ok(_) => GetSequenceRequest { sequence_id: sequence.to_owned(), ..GetSequenceRequest::default() },
        Err(_) => GetSequenceRequest { name: sequence.to_owned(), ..GetSequenceRequest::default() },
    }
}

/// Warnings for people, one line each, each ended by a line break.
pub fn warning_lines(warnings: &[Warning], paint: Paint) -> String {
    warnings
        .iter()
        .map(|warning| {
            let text = format!(
                "{} {}: {}",
                human::foreign(&warning.code, 80),
                human::foreign(&warning.path, 200),
                human::foreign(&warning.message, 500)
            );
            format!("{} {}\n", paint.yellow("!"), paint.yellow(&text))
        })
        .collect()
}

/// Reads a document, unparsed: what is wrong with it is the server's to say.
fn read_document(file: &str) -> anyhow::Result<Payload> {
    let bytes = read_bounded(file, DOCUMENT_BYTES_MAX)?;
    Ok(Payload { data: bytes.into(), content_type: String::new() })
}

/// At most `max` bytes of a file, or of standard input for `-`. Errors: unreadable, longer.
pub fn read_bounded(file: &str, max: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = max as u64 + 1;
    let read = match file {
        "-" => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| CliError::usage(format!("cannot read {file}: {error}"))).context("reading")?;
    if bytes.len() > max {
        let limit = human::count(max as u64);
        return Err(CliError::new(
            Exit::Refused,
            "TOO_LARGE",
            format!("{file} is larger than {limit} bytes"),
        )
        .into());
    }
    Ok(bytes)
}
