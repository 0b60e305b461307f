//! `orch8 config`: says what is wrong with a configuration, or what is in force, and starts nothing.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use toml::Value;

use super::{ControlPlaneConfig, DataPlaneConfig, Problems, SettingFlags, Shown, Sources};
use crate::{
    error::{CliError, Exit},
    screen::Screen,
};

/// `--key` and `--key-file`, which every command takes, as settings.
pub type KeyFlags = [(&'static str, Option<String>); 2];

/// `orch8 config`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  orch8 config check data-plane --config node.toml
  ORCH8_DATABASE_FILE=/run/secrets/db orch8 config print control-plane")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Says everything that is wrong, or that nothing is. Reads the files it names; opens neither port nor database.
    #[command(after_help = "Example:\n  orch8 config check data-plane --config node.toml")]
    Check(Which),
    /// Prints the settings in force and where each came from, without secrets.
    #[command(after_help = "Example:\n  orch8 config print control-plane --config control.toml")]
    Print(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// Whose settings.
    #[arg(value_enum)]
    process: Process,
    #[command(flatten)]
    flags: SettingFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    ControlPlane,
    DataPlane,
}

/// `key`: settings that came with flags of the whole command. Errors: what is wrong with the configuration.
pub fn run(args: &ConfigArgs, key: KeyFlags, screen: Screen) -> anyhow::Result<Exit> {
    match &args.command {
        ConfigCommand::Check(which) => {
            let shown = read(which, key).map_err(CliError::from)?;
            screen.show(
                |paint| format!("{} {} settings, nothing is wrong", paint.green("✓"), shown.len()),
                || json!({ "settings": shown.len() }),
            )?;
        }
        ConfigCommand::Print(which) => {
            let shown = read(which, key).map_err(CliError::from)?;
            screen.show(|_| as_toml(&shown), || as_json(&shown))?;
        }
    }
    Ok(Exit::Ok)
}

fn read(which: &Which, key: KeyFlags) -> Result<Vec<Shown>, Problems> {
    let (mut sources, problems) = Sources::from_process(&which.flags);
    match which.process {
        Process::ControlPlane => ControlPlaneConfig::read(&sources, problems).map(|(_, shown)| shown),
        Process::DataPlane => {
            key.into_iter().for_each(|(path, value)| sources.flag(path, value));
            DataPlaneConfig::read(&sources, problems).map(|(_, shown)| shown)
        }
    }
}

/// One line per setting; the file it makes says the same again, but for the secrets.
fn as_toml(shown: &[Shown]) -> String {
    let lines = shown.iter().map(|setting| {
        let segments: Vec<String> = segments(&setting.path).map(bare).collect();
        format!("{} = {}  # {}", segments.join("."), setting.value, setting.from)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn as_json(shown: &[Shown]) -> serde_json::Value {
    let entries = shown.iter().map(|setting| {
        let value = match &setting.value {
            Value::Boolean(on) => json!(on),
            Value::Integer(n) => json!(n),
            Value::Float(n) => json!(n),
            Value::Array(items) => {
                json!(items.iter().map(|i| i.as_str().unwrap_or_default()).collect::<Vec<_>>())
            }
            Value::String(text) => json!(text),
            other => json!(other.to_string()),
        };
        (setting.path.clone(), json!({ "value": value, "from": setting.from }))
    });
    serde_json::Value::Object(entries.collect())
}

/// `stores.NAME.url` has three, also when the name has a dot.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let (middle, last) = match rest.map(|rest| rest.rsplit_once('.').ok_or(rest)) {
        Some(Ok((middle, last))) => (Some(middle), Some(last)),
        Some(Err(last)) => (None, Some(last)),
        None => (None, None),
    };
    [Some(first), middle, last].into_iter().flatten()
}

/// A key as TOML wants it.
fn bare(segment: &str) -> String {
    let plain =
        !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain { segment.to_owned() } else { Value::String(segment.to_owned()).to_string() }
}
