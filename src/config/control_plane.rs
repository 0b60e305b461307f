//! Settings of `orch8 control-plane`.

use orch8_model::DatabaseUrl;

use super::{
    key::CONTROL_PLANE,
    listener::{Listener, read_listen},
    problem::Problems,
    reader::{Reader, Shown},
    sources::Sources,
};

/// A control plane, ready to be started.
#[derive(Debug)]
pub struct ControlPlaneConfig {
    pub listener: Listener,
    pub database: DatabaseUrl,
}

impl ControlPlaneConfig {
    /// Reads everything, and with it what may be shown. Errors: all that is wrong.
    pub fn read(sources: &Sources, problems: Problems) -> Result<(Self, Vec<Shown>), Problems> {
        let mut reader = Reader::new(sources, CONTROL_PLANE, problems);
        let database = read_database(&mut reader);
        let listen = read_listen(&mut reader);
        let plaintext = reader.switch("plaintext");
        let listener = Listener::read(&mut reader, listen, plaintext);
        match (listener, database) {
            (Some(listener), Some(database)) if reader.problems.is_empty() => {
                Ok((Self { listener, database }, reader.shown))
            }
            _ => Err(reader.problems),
        }
    }

    /// The database alone: for `init` and `migrate`, which open no port.
    pub fn read_database(sources: &Sources, problems: Problems) -> Result<DatabaseUrl, Problems> {
        let mut reader = Reader::new(sources, CONTROL_PLANE, problems);
        let database = read_database(&mut reader);
        database.filter(|_| reader.problems.is_empty()).ok_or(reader.problems)
    }
}

fn read_database(reader: &mut Reader<'_>) -> Option<DatabaseUrl> {
    let before = reader.problems.clone();
    let database = reader.secret("database", DatabaseUrl::parse, ToString::to_string);
    if database.is_none() && reader.problems == before {
        reader.missing("database");
    }
    database.map(|database| database.value)
}
