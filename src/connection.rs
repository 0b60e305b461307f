//! `connection.json`: what `orch8 dev` writes so that commands in the same folder find it. Address, keys, process.
//!
//! The file holds secrets: it is written for its owner alone (0600) and replaced in one step, so that a reader sees
//! the old one or the new one and never half of it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use orch8_seal::SecretText;
use serde::{Deserialize, Serialize};

/// Folder of `orch8 dev`, in the current folder or a parent.
pub const DEFAULT_DIR: &str = ".orch8";
/// Name of the file in that folder.
pub const FILE: &str = "connection.json";
/// A real file has half a KiB; more is not ours.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// How to reach an engine, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// `http://127.0.0.1:7233`
    pub address: String,
    pub tenant: String,
    /// Starts, signals, reads, publishes.
    pub client_key: SecretText,
    /// Pulls steps.
    pub worker_key: SecretText,
    /// Everything within the deployment.
    pub operator_key: SecretText,
    /// Where operators call, if it is not `address`.
    pub control_plane: Option<String>,
    /// The process that wrote the file.
    pub pid: u32,
}

/// Why a connection file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Not readable or writable.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Not what `orch8 dev` writes.
    #[error("{} is not a connection file: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
}

impl Connection {
    /// The same, with the control plane's address for the only one.
    pub fn for_operators(self) -> Self {
        let address = self.control_plane.clone().unwrap_or(self.address);
        Self { address, ..self }
    }

    /// Puts the file into `dir`, readable by its owner alone. Replaces an older one in one step.
    pub fn write(&self, dir: &Path) -> Result<(), ConnectionError> {
        let path = dir.join(FILE);
        self.write_to(&path, &dir.join(format!("{FILE}.new")))
            .map_err(|source| ConnectionError::Io { path, source })
    }

    fn write_to(&self, path: &Path, draft: &Path) -> io::Result<()> {
        // A draft left behind by a killed process may have other permissions: it is not reused.
        match fs::remove_file(draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(draft)?;
        serde_json::to_writer_pretty(&mut file, &Written::from(self))?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(draft, path)
    }

    /// Reads the file in `dir`. `None`: there is none.
    pub fn read(dir: &Path) -> Result<Option<Self>, ConnectionError> {
        let path = dir.join(FILE);
        let mut text = String::new();
        let read = fs::File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ConnectionError::Io { path, source }),
        }
        let written: Written = serde_json::from_str(&text)
            .map_err(|error| ConnectionError::Malformed { path, why: error.to_string() })?;
        Ok(Some(written.into()))
    }

    /// Looks in `explicit` (`$ORCH8_DIR`) if given, else in `.orch8` of `start` and its parents, nearest first.
    /// Answers the folder too.
    pub fn find(explicit: Option<&Path>, start: &Path) -> Result<Option<(PathBuf, Self)>, ConnectionError> {
        if let Some(dir) = explicit {
            return Ok(Self::read(dir)?.map(|connection| (dir.to_owned(), connection)));
        }
        for folder in start.ancestors() {
            let dir = folder.join(DEFAULT_DIR);
            if let Some(connection) = Self::read(&dir)? {
                return Ok(Some((dir, connection)));
            }
        }
        Ok(None)
    }
}

/// The shape on disk. Unknown fields are let through: a newer engine may tell more.
#[derive(Serialize, Deserialize)]
struct Written {
    address: String,
    tenant: String,
    client_key: String,
    worker_key: String,
    operator_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control_plane: Option<String>,
    pid: u32,
}

impl From<&Connection> for Written {
    fn from(connection: &Connection) -> Self {
        Self {
            address: connection.address.clone(),
            tenant: connection.tenant.clone(),
            client_key: connection.client_key.reveal().to_owned(),
            worker_key: connection.worker_key.reveal().to_owned(),
            operator_key: connection.operator_key.reveal().to_owned(),
            control_plane: connection.control_plane.clone(),
            pid: connection.pid,
        }
    }
}

impl From<Written> for Connection {
    fn from(written: Written) -> Self {
        Self {
            address: written.address,
            tenant: written.tenant,
            client_key: SecretText::new(written.client_key),
            worker_key: SecretText::new(written.worker_key),
            operator_key: SecretText::new(written.operator_key),
            control_plane: written.control_plane,
            pid: written.pid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(address: &str) -> Connection {
        Connection {
            address: address.to_owned(),
            tenant: "dev".to_owned(),
            client_key: SecretText::new("o8_c".to_owned()),
            worker_key: SecretText::new("o8_w".to_owned()),
            operator_key: SecretText::new("o8_o".to_owned()),
            control_plane: None,
            pid: 7,
        }
    }

    #[test]
    fn what_was_written_is_read_and_a_second_write_replaces_it() {
        let dir = tempfile::tempdir().expect("temp folder");
        assert_eq!(Connection::read(dir.path()).expect("no file is no error"), None);
        connection("http://127.0.0.1:1").write(dir.path()).expect("writes");
        connection("http://127.0.0.1:2").write(dir.path()).expect("replaces");
        assert_eq!(Connection::read(dir.path()).expect("reads"), Some(connection("http://127.0.0.1:2")));
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1, "no draft stays behind");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it_even_after_a_draft_was_left_open_to_all() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("temp folder");
        fs::write(dir.path().join("connection.json.new"), "half").expect("draft");
        connection("http://127.0.0.1:1").write(dir.path()).expect("writes");
        let mode = fs::metadata(dir.path().join(FILE)).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_nearest_parent_wins_and_an_explicit_folder_wins_over_all() {
        let root = tempfile::tempdir().expect("temp folder");
        let inner = root.path().join("a");
        let deep = inner.join("b/c");
        fs::create_dir_all(&deep).expect("folders");
        for (folder, address) in [(root.path(), "http://outer:1"), (inner.as_path(), "http://inner:1")] {
            let dir = folder.join(DEFAULT_DIR);
            fs::create_dir(&dir).expect("folder");
            connection(address).write(&dir).expect("writes");
        }
        let found = Connection::find(None, &deep).expect("looks").expect("finds");
        assert_eq!(found.1.address, "http://inner:1");
        let outer = root.path().join(DEFAULT_DIR);
        let found = Connection::find(Some(&outer), &deep).expect("looks").expect("finds");
        assert_eq!(found.1.address, "http://outer:1");
        assert_eq!(Connection::find(Some(&deep), &deep).expect("looks"), None);
    }

    #[test]
    fn a_broken_file_is_named_and_its_keys_are_not_shown() {
        let dir = tempfile::tempdir().expect("temp folder");
        fs::write(dir.path().join(FILE), r#"{"client_key":"o8_secret"}"#).expect("writes");
        let error = Connection::read(dir.path()).expect_err("refused").to_string();
        assert!(error.contains("connection.json is not a connection file: missing field"), "{error}");
        assert!(!error.contains("o8_secret"), "{error}");
        assert!(!format!("{:?}", connection("http://h:1")).contains("o8_c"));
    }
}
