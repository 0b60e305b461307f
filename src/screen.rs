//! Where answers go: text for people, one line of JSON for scripts. Knows nothing of what it prints.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
};

use clap::ValueEnum;
use serde_json::Value;

/// For whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Tables, trees, colour on a terminal.
    #[default]
    Human,
    /// JSON, one document per line.
    Json,
}

/// Standard output, as this run may use it.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub mode: Mode,
    pub paint: Paint,
    /// Progress may be drawn (on standard error).
    pub progress: bool,
}

impl Screen {
    /// Colour only for people on a terminal who did not set `NO_COLOR`.
    pub fn detect(mode: Mode) -> Self {
        let colour = mode == Mode::Human
            && io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { mode, paint: Paint(colour), progress: mode == Mode::Human && io::stderr().is_terminal() }
    }

    /// Prints the one or the other.
    pub fn show(
        self,
        human: impl FnOnce(Paint) -> String,
        json: impl FnOnce() -> Value,
    ) -> anyhow::Result<()> {
        match self.mode {
            Mode::Human => self.line(&human(self.paint)),
            Mode::Json => self.line(&json().to_string()),
        }
    }

    /// Prints for people only.
    pub fn tell(self, text: &str) -> anyhow::Result<()> {
        match self.mode {
            Mode::Human => self.line(text),
            Mode::Json => Ok(()),
        }
    }

    /// One line of whatever the mode asks for.
    pub fn line(self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        let text = text.strip_suffix('\n').unwrap_or(text);
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(anyhow::Error::from)
    }
}

/// Colour, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(pub bool);

impl Paint {
    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub fn blue(self, text: &str) -> String {
        self.with("34", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A table without lines and without spaces at the ends of lines: greppable, and it fits.
#[derive(Debug)]
pub struct Table(comfy_table::Table);

impl Table {
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_header(headings);
        table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
        Self(table)
    }

    /// As many cells as there are headings.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self
            .0
            .lines()
            .map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned())
            .collect();
        f.write_str(&lines.join("\n"))
    }
}
