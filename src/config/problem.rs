//! What is wrong with a configuration: all of it at once.

use std::fmt;

use crate::error::{CliError, Exit, Field};

/// One wrong setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key as the one who set it knows it: `drain`, `ORCH8_DRAIN`, `--drain`.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub text: String,
}

/// Every wrong setting of one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `wrong` continues the sentence that the key begins; `allowed` is the form of the key.
    pub fn add(&mut self, key: impl Into<String>, wrong: impl fmt::Display, allowed: &str) {
        let text =
            if allowed.is_empty() { wrong.to_string() } else { format!("{wrong}; allowed: {allowed}") };
        self.0.push(Problem { key: key.into(), text });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `KEY: what is wrong; allowed: what is`.
    #[cfg(test)]
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(|problem| format!("{}: {}", problem.key, problem.text)).collect()
    }
}

impl From<Problems> for CliError {
    fn from(problems: Problems) -> Self {
        let count = match problems.0.len() {
            1 => "1 setting is wrong".to_owned(),
            n => format!("{n} settings are wrong"),
        };
        let mut error = CliError::new(Exit::Usage, "CONFIG", format!("{count}; nothing was started"));
        error.fields = problems.0.into_iter().map(|p| Field { name: p.key, description: p.text }).collect();
        error.hint("`orch8 config check` says the same without starting anything")
    }
}
