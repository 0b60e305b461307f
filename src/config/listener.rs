//! What both processes say about their listener.

use std::{
    net::{AddrParseError, SocketAddr},
    time::Duration,
};

use orch8_proto::{
    serve::Terms,
    tls::{Authorities, Half, Identity, ServerTls, TlsProblem},
};

use super::reader::{Named, Reader};

/// Nobody waits longer for a process to leave.
const DRAIN_MAX: Duration = Duration::from_secs(60 * 60);
const AGE_MIN: Duration = Duration::from_secs(1);
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Where to listen, how, and how to leave.
#[derive(Clone, Debug)]
pub struct Listener {
    pub listen: SocketAddr,
    pub protection: Protection,
    pub drain: Duration,
    pub connection_age: Duration,
}

/// What keeps a key from being read on the way.
#[derive(Clone, Debug)]
pub enum Protection {
    Tls(ServerTls),
    /// Nothing leaves this machine, or the operator said that it may.
    PlainText,
}

impl Listener {
    /// The beginning of an address that leads here.
    pub fn scheme(&self) -> &'static str {
        match self.protection {
            Protection::Tls(_) => "https",
            Protection::PlainText => "http",
        }
    }

    /// How to serve on it.
    pub fn terms(&self) -> Terms {
        let tls = match &self.protection {
            Protection::Tls(tls) => Some(tls.clone()),
            Protection::PlainText => None,
        };
        Terms { tls, drain: self.drain, connection_age: self.connection_age }
    }

    /// Reads `tls`, `drain` and `connection_age`, and judges them with `listen` and `plaintext`, which were read before.
    /// `None`: noted among the problems.
    pub fn read(
        reader: &mut Reader<'_>,
        listen: Option<Named<SocketAddr>>,
        plaintext: Option<bool>,
    ) -> Option<Self> {
        let drain = reader.duration("drain", Duration::ZERO..=DRAIN_MAX);
        let connection_age = reader.duration("connection_age", AGE_MIN..=AGE_MAX);
        let tls = read_tls(reader);
        let listen = listen?;
        let protection = match (tls, plaintext) {
            (Tls::Ready(tls), _) => Protection::Tls(tls),
            (Tls::Wrong, _) => return None,
            (Tls::Absent, Some(true)) => Protection::PlainText,
            (Tls::Absent, _) if listen.value.ip().is_loopback() => Protection::PlainText,
            (Tls::Absent, None) => return None,
            (Tls::Absent, Some(false)) => {
                reader.problems.add(
                    listen.name,
                    format_args!("is {}, where others could read keys on the way", listen.value),
                    "loopback; or set tls.certificate and tls.key; or plaintext = true (--plaintext)",
                );
                return None;
            }
        };
        Some(Self { listen: listen.value, protection, drain: drain?, connection_age: connection_age? })
    }
}

/// Reads `listen`.
pub fn read_listen(reader: &mut Reader<'_>) -> Option<Named<SocketAddr>> {
    reader.text("listen", |text| {
        text.parse::<SocketAddr>().map_err(|_: AddrParseError| format!("is {text:?}, which is no address"))
    })
}

enum Tls {
    Ready(ServerTls),
    Absent,
    Wrong,
}

fn read_tls(reader: &mut Reader<'_>) -> Tls {
    let before = reader.problems.clone();
    let identity = read_identity(reader, ["tls.certificate", "tls.key"]);
    let clients = read_authorities(reader, "tls.client_ca");
    if reader.problems != before {
        return Tls::Wrong;
    }
    match (identity, clients) {
        (Some(identity), clients) => match ServerTls::new(&identity, clients.as_ref()) {
            Ok(tls) => Tls::Ready(tls),
            Err(why) => {
                reader.problems.add("tls.client_ca", why, reader.allowed("tls.client_ca"));
                Tls::Wrong
            }
        },
        (None, Some(_)) => {
            reader.problems.add("tls.client_ca", "needs TLS", "tls.certificate and tls.key beside it");
            Tls::Wrong
        }
        (None, None) => Tls::Absent,
    }
}

/// A certificate and its key: both, or neither.
pub fn read_identity(reader: &mut Reader<'_>, paths: [&'static str; 2]) -> Option<Identity> {
    let before = reader.problems.clone();
    let [certificate, key] = paths.map(|path| reader.pem(path));
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => return None,
        // The other one is there, and cannot be read: that has been said.
        (Some(_), None) | (None, Some(_)) if reader.problems != before => return None,
        (Some(given), None) => {
            reader.problems.add(
                paths[1],
                format_args!("is missing beside {}", given.name),
                reader.allowed(paths[1]),
            );
            return None;
        }
        (None, Some(given)) => {
            reader.problems.add(
                paths[0],
                format_args!("is missing beside {}", given.name),
                reader.allowed(paths[0]),
            );
            return None;
        }
    };
    match Identity::read(&certificate.value.1, &key.value.1) {
        Ok(identity) => Some(identity),
        Err((half, why)) => {
            let (wrong, path) = match half {
                Half::Certificate => (&certificate, paths[0]),
                Half::Key => (&key, paths[1]),
            };
            let why = match why {
                TlsProblem::Mismatch => {
                    format!("{} does not belong to the private key in {}", file(&certificate), file(&key))
                }
                why => format!("{} {why}", file(wrong)),
            };
            reader.problems.add(wrong.name.clone(), why, reader.allowed(path));
            None
        }
    }
}

/// Certificates of authorities.
pub fn read_authorities(reader: &mut Reader<'_>, path: &'static str) -> Option<Authorities> {
    let given = reader.pem(path)?;
    match Authorities::read(&given.value.1) {
        Ok(authorities) => Some(authorities),
        Err(why) => {
            reader.problems.add(
                given.name.clone(),
                format_args!("{} {why}", file(&given)),
                reader.allowed(path),
            );
            None
        }
    }
}

fn file(given: &Named<(std::path::PathBuf, Vec<u8>)>) -> String {
    given.value.0.display().to_string()
}
