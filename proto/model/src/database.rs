//! Where a database is: a Postgres URL, or a SQLite file. Shown without what is secret.

use std::{fmt, path::PathBuf};

/// Longest accepted address, in bytes.
pub const DATABASE_URL_MAX: usize = 4_096;

/// A database's address. `Debug` and `Display` leave out user, password and parameters.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// `postgres://…` or `postgresql://…`, whole.
    Postgres(String),
    /// The file of `sqlite:PATH`.
    Sqlite(PathBuf),
}

/// Why a text is no address. Says nothing of the text itself, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    #[error("must begin with postgres:// or sqlite:")]
    Scheme,
    #[error("names no host or file")]
    Empty,
    #[error("may have at most {DATABASE_URL_MAX} bytes and no control characters")]
    Form,
}

impl DatabaseUrl {
    /// Reads an address. Whether it leads anywhere shows when it is opened.
    pub fn parse(text: &str) -> Result<Self, DatabaseUrlError> {
        if text.len() > DATABASE_URL_MAX || text.chars().any(char::is_control) {
            return Err(DatabaseUrlError::Form);
        }
        let postgres = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        match (postgres, text.strip_prefix("sqlite:")) {
            (Some(""), _) | (_, Some("")) => Err(DatabaseUrlError::Empty),
            (Some(_), _) => Ok(Self::Postgres(text.to_owned())),
            (None, Some(path)) => Ok(Self::Sqlite(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))),
            (None, None) => Err(DatabaseUrlError::Scheme),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
                write!(f, "postgres://{place}")
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_shown_without_its_secrets() {
        for (text, shown) in [
            ("postgres://u:p%40ss@db:5432/orch8?password=x", Ok("postgres://db:5432/orch8")),
            ("postgresql://db/orch8", Ok("postgres://db/orch8")),
            ("postgres://u:a/b@c@db/orch8", Ok("postgres://db/orch8")),
            ("sqlite:store.db", Ok("sqlite:store.db")),
            ("sqlite:///var/store.db", Ok("sqlite:/var/store.db")),
            ("sqlite:", Err(DatabaseUrlError::Empty)),
            ("postgres://", Err(DatabaseUrlError::Empty)),
            ("mysql://db", Err(DatabaseUrlError::Scheme)),
            ("", Err(DatabaseUrlError::Scheme)),
            ("sqlite:a\0b", Err(DatabaseUrlError::Form)),
        ] {
            let read = DatabaseUrl::parse(text).map(|url| url.to_string());
            assert_eq!(read.as_deref(), shown.as_deref(), "{text:?}");
            if let Ok(url) = DatabaseUrl::parse(text) {
                assert!(!format!("{url:?}").contains("ss@"));
            }
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        assert_eq!(
            DatabaseUrl::parse(&format!("sqlite:{}", "a".repeat(DATABASE_URL_MAX))),
            Err(DatabaseUrlError::Form)
        );
    }
}
