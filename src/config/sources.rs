//! Where settings come from, and which of several wins.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use toml::{Table, Value};

use super::{key::variable, problem::Problems};

/// A configuration file; a real one has a KiB or two.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Flags of every server command.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingFlags {
    /// TOML file with settings.
    #[arg(long, env = "ORCH8_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Let keys cross the network unencrypted.
    #[arg(long)]
    pub plaintext: bool,
    /// Longest time that leaving may take after SIGTERM, like 20s.
    #[arg(long, value_name = "TIME")]
    pub drain: Option<String>,
    /// Any other setting; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Everything that was said.
#[derive(Debug, Default)]
pub struct Sources {
    file: Table,
    environment: BTreeMap<String, String>,
    /// Key and value, and how the flag is called.
    flags: Vec<(String, String, String)>,
}

/// A value, and under which name it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub name: String,
    pub value: Value,
}

impl Sources {
    /// Reads the file, and the variables of this process.
    pub fn from_process(flags: &SettingFlags) -> (Self, Problems) {
        let mut problems = Problems::default();
        // A variable that is not UTF-8 is none of ours.
        let variables =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let sources = Self::read(flags, variables, &mut problems);
        (sources, problems)
    }

    /// Reads the file. What is wrong with it, or with a `--set`, is added to the problems.
    pub fn read(
        flags: &SettingFlags,
        environment: impl IntoIterator<Item = (String, String)>,
        problems: &mut Problems,
    ) -> Self {
        let mut sources = Self {
            file: Table::new(),
            // An empty variable is none: that is how deployments unset one.
            environment: environment.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
            flags: Vec::new(),
        };
        if let Some(path) = &flags.config {
            match read_table(path) {
                Ok(table) => sources.file = table,
                Err(why) => {
                    problems.add("--config", format_args!("{}: {why}", path.display()), "a TOML file")
                }
            }
        }
        for (path, value) in [("listen", &flags.listen), ("drain", &flags.drain)] {
            sources.flag(path, value.clone());
        }
        sources.flag("plaintext", flags.plaintext.then(|| "true".to_owned()));
        for set in &flags.set {
            match set.split_once('=') {
                Some((path, value)) if !path.trim().is_empty() => {
                    let name = format!("--set {}", path.trim());
                    sources.flags.push((path.trim().to_owned(), value.to_owned(), name));
                }
                // Not shown: it may hold a secret.
                Some(_) | None => problems.add("--set", "has no key and value", "--set KEY=VALUE"),
            }
        }
        sources
    }

    /// One flag with a name of its own: the key's, with dashes.
    pub fn flag(&mut self, path: &str, value: Option<String>) {
        if let Some(value) = value {
            self.flags.push((path.to_owned(), value, format!("--{}", path.replace('_', "-"))));
        }
    }

    /// What wins for one of some keys that exclude each other, with the index of the key. More than one in the winning
    /// source is an error: the names of both.
    pub fn find(&self, paths: &[&str]) -> Result<Option<(usize, Given)>, (String, String)> {
        for layer in [Self::in_flags, Self::in_environment, Self::in_file] {
            let mut found = paths.iter().enumerate().filter_map(|(n, path)| Some((n, layer(self, path)?)));
            match (found.next(), found.next()) {
                (Some((_, one)), Some((_, two))) => return Err((one.name, two.name)),
                (Some(one), None) => return Ok(Some(one)),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    fn in_flags(&self, path: &str) -> Option<Given> {
        let (_, value, name) = self.flags.iter().rev().find(|(known, _, _)| known == path)?;
        Some(Given { name: name.clone(), value: Value::String(value.clone()) })
    }

    fn in_environment(&self, path: &str) -> Option<Given> {
        let name = variable(path);
        let value = Value::String(self.environment.get(&name)?.clone());
        Some(Given { name, value })
    }

    fn in_file(&self, path: &str) -> Option<Given> {
        let mut segments = path.split('.');
        let mut value = self.file.get(segments.next()?)?;
        // A name may itself hold a dot: what is left of the path is tried whole, then split.
        let rest: Vec<&str> = segments.collect();
        match rest.as_slice() {
            [] => {}
            [middle @ .., last] if !middle.is_empty() => {
                value = value.get(middle.join("."))?.get(last)?;
            }
            [last] => value = value.get(last)?,
            [..] => return None,
        }
        Some(Given { name: path.to_owned(), value: value.clone() })
    }

    /// Names in a family `prefix.NAME.…`: those of the file and of flags as they stand there, and of variables in small
    /// letters where no other name fits the variable.
    pub fn names(&self, prefix: &str, suffixes: &[&str]) -> Vec<String> {
        let mut names: Vec<String> = match self.file.get(prefix) {
            Some(Value::Table(table)) => table.keys().cloned().collect(),
            Some(_) | None => Vec::new(),
        };
        let inside = |path: &str, separator: char| {
            let rest = path.strip_prefix(prefix)?.strip_prefix(separator)?;
            // The longest first: `url_file` before `url`.
            suffixes.iter().find_map(|suffix| {
                Some(rest.strip_suffix(suffix)?.strip_suffix(separator)?.to_owned()).filter(|n| !n.is_empty())
            })
        };
        names.extend(self.flags.iter().filter_map(|(path, _, _)| inside(path, '.')));
        for key in self.environment.keys() {
            let lower = key.strip_prefix("ORCH8_").map(str::to_ascii_lowercase).unwrap_or_default();
            if let Some(name) = inside(&lower, '_')
                && !names.iter().any(|known| variable(known) == variable(&name))
            {
                names.push(name);
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Every key of file and `--set` flags that is not known.
    pub fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let mut leaves = Vec::new();
        walk(&self.file, "", &mut leaves);
        let flags = self.flags.iter().map(|(path, _, name)| (path.clone(), name.clone()));
        let all = leaves.into_iter().map(|path| (path.clone(), path)).chain(flags);
        all.filter(|(path, _)| !is_known(path)).map(|(_, name)| name).collect()
    }
}

fn read_table(path: &std::path::Path) -> Result<Table, String> {
    let text = super::reader::read_text(path, FILE_BYTES_MAX)?;
    // Only the position: a line of this file may hold a secret.
    text.parse::<Table>().map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{at}{}", error.message())
    })
}

/// Paths of everything that is not a table, and of empty tables.
fn walk(table: &Table, above: &str, leaves: &mut Vec<String>) {
    for (name, value) in table {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Table(inner) if !inner.is_empty() => walk(inner, &path, leaves),
            _ => leaves.push(path),
        }
    }
}
