//! Every key that a process knows, as a table: what is allowed, and what holds when nobody says anything.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As in the file, with dots; `*` stands for a name. The variable is `ORCH8_` and the same in capitals with `_`.
    pub path: &'static str,
    pub about: &'static str,
    /// What its value may be.
    pub allowed: &'static str,
    /// As text; `None`: there is none.
    pub default: Option<&'static str>,
    /// May also be the content of the file that `<path>_file` names; never shown.
    pub secret: bool,
}

const fn key(path: &'static str, about: &'static str, allowed: &'static str) -> Key {
    Key { path, about, allowed, default: None, secret: false }
}

const fn secret(path: &'static str, about: &'static str, allowed: &'static str) -> Key {
    Key { path, about, allowed, default: None, secret: true }
}

const fn with(default: &'static str, key: Key) -> Key {
    Key { default: Some(default), ..key }
}

const ADDRESS: &str = "an IP address and a port, like 127.0.0.1:7233 or [::]:7233; port 0 takes any free one";
const DURATION: &str = "0 to 1 h: \"20s\", a whole number of milliseconds, or a number of seconds with '.'";
const AGE: &str = "1 s to 7 d: \"30m\", a whole number of milliseconds, or a number of seconds with '.'";
const SWITCH: &str = "true or false";
const PEM: &str = "a readable PEM file of at most 1 MiB";

const DRAIN: Key = with("20s", key("drain", "longest time that leaving may take", DURATION));
const CONNECTION_AGE: Key =
    with("30m", key("connection_age", "a connection is asked to move on after this, ± a tenth", AGE));
const PLAINTEXT: Key = with("false", key("plaintext", "keys may cross the network unencrypted", SWITCH));
const CERTIFICATE: Key = key("tls.certificate", "certificate of the listener, with its chain", PEM);
const KEY: Key = key("tls.key", "private key of that certificate", PEM);
const CLIENT_CA: Key = key("tls.client_ca", "authorities whose clients may show a certificate", PEM);

/// Keys of `orch8 control-plane`.
pub const CONTROL_PLANE: &[Key] = &[
    with("127.0.0.1:7232", key("listen", "where to listen", ADDRESS)),
    secret("database", "the control plane's own database", "postgres://… or sqlite:FILE"),
    CERTIFICATE,
    KEY,
    CLIENT_CA,
    PLAINTEXT,
    DRAIN,
    CONNECTION_AGE,
];

/// Keys of `orch8 data-plane`.
pub const DATA_PLANE: &[Key] = &[
    key(
        "node",
        "name of this process, unlike that of any other",
        "1 to 256 bytes without control characters",
    ),
    with("127.0.0.1:7233", key("listen", "where to listen", ADDRESS)),
    key(
        "advertise",
        "where clients and workers reach this process; what `listen` says, when that is one address",
        "http://host:port or https://host:port, at most 512 bytes",
    ),
    key(
        "control_plane",
        "replicas of the control plane",
        "1 to 16 addresses like https://host:port, with commas or as a list",
    ),
    secret("key", "key with the role node", "the key, on one line"),
    key("control_plane_tls.ca", "authorities trusted for the control plane; absent: the machine's", PEM),
    key("control_plane_tls.certificate", "certificate shown to the control plane", PEM),
    key("control_plane_tls.key", "private key of that certificate", PEM),
    secret(
        "stores.*.url",
        "the stores this process serves, by name",
        "1 to 256 stores, each postgres://… or sqlite:FILE",
    ),
    CERTIFICATE,
    KEY,
    CLIENT_CA,
    PLAINTEXT,
    DRAIN,
    CONNECTION_AGE,
];

/// Two lines per key, for `--help`.
pub fn help(keys: &[Key]) -> String {
    let mut text = String::from("Settings, by their key in the file (--config FILE, TOML):\n");
    for key in keys {
        let default = key.default.map(|d| format!(" [default: {d}]")).unwrap_or_default();
        let file = if key.secret { " (or KEY_file: a file that holds it)" } else { "" };
        text.push_str(&format!("  {:<29} {}{default}{file}\n", key.path, key.about));
    }
    text.push_str("Each is also a variable: ORCH8_ and the key in capitals, with _ for every dot (ORCH8_TLS_KEY, ORCH8_STORES_EU_URL);\n");
    text.push_str("and a flag: --set KEY=VALUE. Flags win over variables, variables over the file, the file over defaults.");
    text
}

/// The variable of a key.
pub fn variable(path: &str) -> String {
    let upper = path.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("ORCH8_{}", upper.collect::<String>())
}
