//! Settings of `orch8 data-plane`.

use std::net::SocketAddr;

use orch8_model::{DatabaseUrl, NodeName, StoreName};
use orch8_proto::{client::Address, tls::ClientTls};
use orch8_seal::SecretText;

use super::{
    key::DATA_PLANE,
    listener::{Listener, read_authorities, read_identity, read_listen},
    problem::Problems,
    reader::{Named, Reader, Shown},
    sources::Sources,
};

/// Stores of one process: as many as a node may offer the control plane.
const STORES_MAX: usize = 256;

/// A data plane, ready to be started.
#[derive(Debug)]
pub struct DataPlaneConfig {
    pub node: NodeName,
    pub listener: Listener,
    /// `None`: whatever the listener's address turns out to be.
    pub advertise: Option<Address>,
    pub uplink: Uplink,
    /// By name; at least one.
    pub stores: Vec<(StoreName, DatabaseUrl)>,
}

/// The way to the control plane.
#[derive(Debug)]
pub struct Uplink {
    /// At least one.
    pub addresses: Vec<Address>,
    pub tls: ClientTls,
    /// `None`: the certificate in `tls` says who this is.
    pub key: Option<SecretText>,
}

impl DataPlaneConfig {
    /// Reads everything, and with it what may be shown. Errors: all that is wrong.
    pub fn read(sources: &Sources, problems: Problems) -> Result<(Self, Vec<Shown>), Problems> {
        let mut reader = Reader::new(sources, DATA_PLANE, problems);
        let node = reader.required("node", NodeName::parse).map(|node| node.value);
        let listen = read_listen(&mut reader);
        let plaintext = reader.switch("plaintext");
        let listener = Listener::read(&mut reader, listen.clone(), plaintext);
        let advertise = read_advertise(&mut reader, listen.as_ref());
        let uplink = read_uplink(&mut reader, plaintext);
        let stores = read_stores(&mut reader);
        match (node, listener, advertise, uplink) {
            (Some(node), Some(listener), Some(advertise), Some(uplink)) if reader.problems.is_empty() => {
                Ok((Self { node, listener, advertise, uplink, stores }, reader.shown))
            }
            _ => Err(reader.problems),
        }
    }

    /// The stores alone: for `migrate`, which opens no port.
    pub fn read_stores(
        sources: &Sources,
        problems: Problems,
    ) -> Result<Vec<(StoreName, DatabaseUrl)>, Problems> {
        let mut reader = Reader::new(sources, DATA_PLANE, problems);
        let stores = read_stores(&mut reader);
        if reader.problems.is_empty() { Ok(stores) } else { Err(reader.problems) }
    }
}

/// `Some(None)`: follows from the listener.
fn read_advertise(reader: &mut Reader<'_>, listen: Option<&Named<SocketAddr>>) -> Option<Option<Address>> {
    let before = reader.problems.clone();
    match reader.text("advertise", Address::parse) {
        Some(found) => Some(Some(found.value)),
        None if reader.problems != before => None,
        None if listen.is_some_and(|listen| listen.value.ip().is_unspecified()) => {
            reader.problems.add(
                "advertise",
                "is missing, and `listen` names every address of this machine and so none",
                reader.allowed("advertise"),
            );
            None
        }
        None => Some(None),
    }
}

fn read_uplink(reader: &mut Reader<'_>, plaintext: Option<bool>) -> Option<Uplink> {
    let before = reader.problems.clone();
    let addresses = reader.list("control_plane", Address::parse_list);
    if addresses.is_none() && reader.problems == before {
        reader.missing("control_plane");
    }
    let authorities = read_authorities(reader, "control_plane_tls.ca");
    let identity = read_identity(reader, ["control_plane_tls.certificate", "control_plane_tls.key"]);
    let key = read_key(reader, identity.is_some());
    let addresses = addresses?;
    if key.is_some() && plaintext == Some(false) {
        refuse_plain_text(reader, &addresses);
    }
    let tls = ClientTls { authorities, identity };
    Some(Uplink { addresses: addresses.value, tls, key })
}

fn read_key(reader: &mut Reader<'_>, has_certificate: bool) -> Option<SecretText> {
    let before = reader.problems.clone();
    let read = |text: &str| {
        let visible = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        visible
            .then(|| SecretText::new(text.to_owned()))
            .ok_or("is empty, or holds characters that no key has")
    };
    let key = reader.secret("key", read, |_| "(not shown)".to_owned());
    if key.is_none() && reader.problems == before && !has_certificate {
        reader.problems.add(
            "key",
            "is missing, and there is no control_plane_tls.certificate instead",
            reader.allowed("key"),
        );
    }
    key.map(|key| key.value)
}

fn refuse_plain_text(reader: &mut Reader<'_>, addresses: &Named<Vec<Address>>) {
    for address in addresses.value.iter().filter(|address| !address.may_carry_a_key()) {
        reader.problems.add(
            addresses.name.clone(),
            format_args!("names {address}, and the key could be read on the way"),
            "https://…; http:// on loopback; or plaintext = true (--plaintext)",
        );
    }
}

/// In the order of their names. Fewer than were named when some are wrong; that is noted.
fn read_stores(reader: &mut Reader<'_>) -> Vec<(StoreName, DatabaseUrl)> {
    let names = reader.names("stores");
    let allowed = reader.allowed("stores.x.url");
    if names.is_empty() {
        reader.problems.add("stores", "names no store", allowed);
    }
    if names.len() > STORES_MAX {
        reader.problems.add("stores", format_args!("names {} stores", names.len()), allowed);
        return Vec::new();
    }
    let mut stores = Vec::with_capacity(names.len());
    for text in names {
        let path = format!("stores.{text}.url");
        let before = reader.problems.clone();
        let name = match StoreName::parse(&text) {
            Ok(name) => Some(name),
            Err(why) => {
                reader.problems.add(format!("stores.{text}"), why, "a name of 1 to 256 bytes");
                None
            }
        };
        let url = reader.secret(&path, DatabaseUrl::parse, ToString::to_string);
        if url.is_none() && reader.problems == before {
            reader.problems.add(&path, "is missing", allowed);
        }
        stores.extend(name.zip(url.map(|url| url.value)));
    }
    refuse_one_database_twice(reader, &stores);
    stores
}

/// Two names of one database would each schedule all that is in it.
fn refuse_one_database_twice(reader: &mut Reader<'_>, stores: &[(StoreName, DatabaseUrl)]) {
    for (n, (name, url)) in stores.iter().enumerate() {
        if let Some((other, _)) = stores[..n].iter().find(|(_, known)| known == url) {
            let wrong = format!("is the database of stores.{other} too");
            reader.problems.add(format!("stores.{name}.url"), wrong, "a database of its own");
        }
    }
}
