//! Typed settings out of their sources; what does not fit is noted, and reading goes on.

use std::{
    fmt,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use orch8_model::parse_duration;
use toml::Value;

use super::{
    key::Key,
    problem::Problems,
    sources::{Given, Sources},
};
use crate::human;

/// A key, a password, an address: more than this in a secret's file is something else.
const SECRET_BYTES_MAX: u64 = 16 << 10;
/// Certificates; a bundle of all public authorities has 250 KiB.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A setting as it is in force, fit to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub path: String,
    pub value: Value,
    /// The name under which it was given; `default`.
    pub from: String,
}

/// Reads one process's settings.
pub struct Reader<'a> {
    sources: &'a Sources,
    keys: &'static [Key],
    pub problems: Problems,
    pub shown: Vec<Shown>,
}

/// A value with the name it was given under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T> {
    pub name: String,
    pub value: T,
}

impl<'a> Reader<'a> {
    /// Notes unknown keys at once.
    pub fn new(sources: &'a Sources, keys: &'static [Key], problems: Problems) -> Self {
        let mut this = Self { sources, keys, problems, shown: Vec::new() };
        let unknown = sources.unknown(|path| keys.iter().any(|key| key.covers(path)));
        for name in unknown {
            let path = name.strip_prefix("--set ").unwrap_or(&name);
            let near = keys.iter().map(|key| key.path).min_by_key(|known| distance(known, path));
            let near = near.map(|near| format!("did you mean {near}?")).unwrap_or_default();
            this.problems.add(&name, format_args!("is not a setting of this command; {near}"), "");
        }
        this
    }

    /// The value of a key through its parser, which says what is wrong.
    pub fn text<T, E: fmt::Display>(
        &mut self,
        path: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Named<T>> {
        self.value(path, |value| match value.as_str() {
            Some(text) => read(text).map_err(|why| why.to_string()),
            None => Err(format!("is {}, not a text", kind(value))),
        })
    }

    /// As [`Self::text`]; its absence is a problem.
    pub fn required<T, E: fmt::Display>(
        &mut self,
        path: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Named<T>> {
        let before = self.problems.clone();
        let found = self.text(path, read);
        if found.is_none() && self.problems == before {
            self.missing(path);
        }
        found
    }

    /// Notes that a key has to be set.
    pub fn missing(&mut self, path: &'static str) {
        self.problems.add(path, "is missing", self.key(path).allowed);
    }

    pub fn switch(&mut self, path: &'static str) -> Option<bool> {
        let found = self.value(path, |value| match (value.as_bool(), value.as_str()) {
            (Some(on), _) => Ok(on),
            (None, Some("true")) => Ok(true),
            (None, Some("false")) => Ok(false),
            (None, _) => Err(format!("is {}", shown(value))),
        });
        found.map(|found| found.value)
    }

    pub fn duration(
        &mut self,
        path: &'static str,
        range: std::ops::RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let found = self.value(path, |value| {
            let read = duration(value)?;
            if range.contains(&read) { Ok(read) } else { Err(format!("is {}", human::duration(read))) }
        });
        found.map(|found| found.value)
    }

    /// Texts with commas between them, or a list of texts.
    pub fn list<T, E: fmt::Display>(
        &mut self,
        path: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Named<T>> {
        self.value(path, |value| {
            let text = match value {
                Value::Array(items) => {
                    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                    texts.ok_or("holds something that is not a text")?.join(",")
                }
                Value::String(text) => text.clone(),
                other => return Err(format!("is {}, not a list of texts", kind(other))),
            };
            read(&text).map_err(|why| why.to_string())
        })
    }

    /// A secret, or the content of the file that `<path>_file` names. `shown`: what may be seen of it.
    pub fn secret<T, E: fmt::Display>(
        &mut self,
        path: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
        show: impl FnOnce(&T) -> String,
    ) -> Option<Named<T>> {
        let allowed = self.key(path).allowed;
        let file = format!("{path}_file");
        let given = match self.sources.find(&[path, &file]) {
            Ok(given) => given?,
            Err((one, two)) => {
                self.problems.add(two, format_args!("stands beside {one}"), "one of the two");
                return None;
            }
        };
        let name = given.1.name.clone();
        let text = secret_text(given);
        match text.and_then(|text| read(&text).map_err(|why| why.to_string())) {
            Ok(value) => {
                let shown = Value::String(show(&value));
                self.shown.push(Shown { path: path.to_owned(), value: shown, from: name.clone() });
                Some(Named { name, value })
            }
            Err(why) => {
                self.problems.add(name, why, allowed);
                None
            }
        }
    }

    /// The content of a file that a key names, with the file's path.
    pub fn pem(&mut self, path: &'static str) -> Option<Named<(PathBuf, Vec<u8>)>> {
        self.text(path, |text| {
            let file = PathBuf::from(text);
            read_bytes(&file, PEM_BYTES_MAX).map(|bytes| (file, bytes))
        })
    }

    /// Names of the family `prefix.*.url`.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        self.sources.names(prefix, &["url_file", "url"])
    }

    /// What a key may be.
    pub fn allowed(&self, path: &str) -> &'static str {
        self.key(path).allowed
    }

    fn value<T>(
        &mut self,
        path: &'static str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<Named<T>> {
        let key = self.key(path);
        // One key alone excludes nothing.
        let found = self.sources.find(&[path]).ok().flatten().map(|(_, given)| given);
        let default = || {
            let value = match key.default? {
                "false" => Value::Boolean(false),
                text => Value::String(text.to_owned()),
            };
            Some(Given { name: "default".to_owned(), value })
        };
        let Given { name, value } = found.or_else(default)?;
        match read(&value) {
            Ok(read) => {
                self.shown.push(Shown { path: path.to_owned(), value, from: name.clone() });
                Some(Named { name, value: read })
            }
            Err(why) => {
                self.problems.add(name, why, key.allowed);
                None
            }
        }
    }

    fn key(&self, path: &str) -> Key {
        let unlisted = Key { path: "", about: "", allowed: "", default: None, secret: false };
        self.keys.iter().find(|key| key.covers(path)).copied().unwrap_or(unlisted)
    }
}

impl Key {
    /// Whether a path is this key, or the file that holds its secret.
    fn covers(&self, path: &str) -> bool {
        let path = if self.secret { path.strip_suffix("_file").unwrap_or(path) } else { path };
        match self.path.split_once('*') {
            None => path == self.path,
            Some((before, after)) => {
                path.len() > before.len() + after.len() && path.starts_with(before) && path.ends_with(after)
            }
        }
    }
}

/// The text itself, or that of the file, without the line end that editors leave.
fn secret_text((which, given): (usize, Given)) -> Result<String, String> {
    let text = given.value.as_str().ok_or_else(|| format!("is {}, not a text", kind(&given.value)))?;
    match which {
        0 => Ok(text.to_owned()),
        _ => read_text(Path::new(text), SECRET_BYTES_MAX).map(|text| text.trim().to_owned()),
    }
}

/// An integer is milliseconds, a fraction is seconds; a text has a unit.
fn duration(value: &Value) -> Result<Duration, String> {
    let number = match value {
        Value::Integer(ms) => serde_json::Value::from(*ms),
        Value::Float(seconds) => serde_json::Value::from(*seconds),
        Value::String(text) if text.ends_with(|c: char| c.is_ascii_alphabetic()) => {
            return human::parse_duration(text).map_err(|why| format!("is {text:?}: {why}"));
        }
        Value::String(text) => return Err(format!("is {text:?}, which has no unit")),
        other => return Err(format!("is {}, not a duration", kind(other))),
    };
    let ms = parse_duration(&number).map_err(|why| why.to_string())?;
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => kind(other).to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// A file of at most so many bytes. The error continues the sentence that the key begins.
pub fn read_bytes(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        Ok(_) if bytes.len() as u64 > max => Err(format!("{} has more than {max} bytes", path.display())),
        Ok(_) => Ok(bytes),
    }
}

/// As [`read_bytes`], and UTF-8.
pub fn read_text(path: &Path, max: u64) -> Result<String, String> {
    String::from_utf8(read_bytes(path, max)?).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// How many letters apart two words are.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
