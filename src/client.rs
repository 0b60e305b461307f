//! Finding the server, and typed clients for it. The only room of the command that knows channels and credentials.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use orch8_proto::v1::{
    fleet_service_client::FleetServiceClient, instance_service_client::InstanceServiceClient,
    placement_service_client::PlacementServiceClient, sequence_service_client::SequenceServiceClient,
    signal_service_client::SignalServiceClient, tenant_service_client::TenantServiceClient,
    worker_service_client::WorkerServiceClient,
};
use orch8_proto::{
    client::{Address, ChannelProblem, Channels, Dial},
    tls::{Authorities, ClientTls, Half, Identity},
};
use orch8_seal::SecretText;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
};

use crate::{
    cli::GlobalArgs,
    connection::Connection,
    error::{CliError, Exit},
};

/// Answers may be larger than requests: a page of outputs. Above this the server is not ours.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A key is 67 bytes; a file of more than this is something else.
const KEY_FILE_BYTES_MAX: u64 = 4 << 10;
/// Certificates; a bundle of all public authorities has 250 KiB.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Channels that present the credential.
pub type Authorized = InterceptedService<Channels, Bearer>;

/// Which of the keys in a connection file speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Starts, signals, reads, publishes.
    Client,
    /// Pulls steps.
    Worker,
    /// Everything within the deployment.
    Operator,
}

/// Everything the flags and the environment say about the server.
#[derive(Clone, Debug)]
pub struct Caller {
    global: GlobalArgs,
}

/// Where to call, and as whom.
#[derive(Clone, Debug)]
pub struct Target {
    /// With commas between them, when there are several.
    pub address: String,
    /// `None`: the client certificate says who this is.
    pub key: Option<SecretText>,
    /// The folder in which address or key were found.
    pub found_in: Option<PathBuf>,
}

impl Caller {
    pub fn new(global: GlobalArgs) -> Self {
        Self { global }
    }

    /// What to put into `tenant_id` of requests; empty = the tenant of the credential.
    pub fn tenant(&self) -> String {
        self.global.tenant.clone().unwrap_or_default()
    }

    /// Plain text to another machine was asked for.
    pub fn is_insecure(&self) -> bool {
        self.global.insecure
    }

    /// Address and key, from the flags or from the nearest connection file.
    pub fn target(&self, speaks: Speaks) -> anyhow::Result<Target> {
        let dir = std::env::var_os("ORCH8_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let found = Connection::find(dir.as_deref(), &std::env::current_dir()?)?;
        let found = found.map(|(dir, connection)| match speaks {
            Speaks::Client | Speaks::Worker => (dir, connection),
            Speaks::Operator => (dir, connection.for_operators()),
        });
        Ok(resolve(&self.global, found, speaks)?)
    }

    /// Connects now, so that an absent server is told as such.
    pub async fn connect(&self) -> anyhow::Result<Server> {
        self.connect_to(self.target(Speaks::Client)?).await
    }

    /// Connects to a control plane, as an operator: the one that is named, else the server itself.
    pub async fn connect_to_control_plane(&self, named: Option<&str>) -> anyhow::Result<Server> {
        let mut global = self.global.clone();
        global.address = named.map(str::to_owned).or(global.address);
        self.connect_to(Self::new(global).target(Speaks::Operator)?).await
    }

    async fn connect_to(&self, target: Target) -> anyhow::Result<Server> {
        let addresses = addresses(&target.address)?;
        let dial = dial(self.tls()?.client()?);
        let channels = Channels::connect(&addresses, &dial, anywhere()).await;
        Server::new(channels.map_err(|error| unreachable(&target, &error))?, target.key.as_ref())
    }

    /// The PEM files that the flags name.
    pub fn tls(&self) -> Result<TlsFiles, CliError> {
        TlsFiles::read(&self.global)
    }
}

/// Certificates as they stand in their files.
#[derive(Clone, Default)]
pub struct TlsFiles {
    /// Authorities to trust instead of the machine's.
    pub ca: Option<Vec<u8>>,
    /// Certificate and key of this client.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsFiles {
    fn read(global: &GlobalArgs) -> Result<Self, CliError> {
        let read = |flag: &str, path: &Option<PathBuf>| {
            let read = |path: &PathBuf| crate::config::read_bytes(path, PEM_BYTES_MAX);
            path.as_ref().map(read).transpose().map_err(|why| CliError::usage(format!("{flag}: {why}")))
        };
        let certificate = read("--client-certificate", &global.client_certificate)?;
        let identity = certificate.zip(read("--client-key", &global.client_key)?);
        let files = Self { ca: read("--ca", &global.ca)?, identity };
        files.client()?;
        Ok(files)
    }

    fn client(&self) -> Result<ClientTls, CliError> {
        let wrong = |flag: &str, why| CliError::usage(format!("{flag}: the file {why}"));
        let authorities = self.ca.as_ref().map(|pem| Authorities::read(pem)).transpose();
        let identity = self.identity.as_ref().map(|(chain, key)| Identity::read(chain, key)).transpose();
        Ok(ClientTls {
            authorities: authorities.map_err(|why| wrong("--ca", why))?,
            identity: identity.map_err(|(half, why)| match half {
                Half::Certificate => wrong("--client-certificate", why),
                Half::Key => wrong("--client-key", why),
            })?,
        })
    }
}

/// Typed clients over the channels to the servers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    channel: Channels,
    bearer: Bearer,
}

impl Server {
    /// Connects when first used, and again whenever the connection is gone.
    pub fn lazy(address: &str, key: &SecretText) -> anyhow::Result<Self> {
        let addresses = addresses(address)?;
        Self::new(Channels::lazy(&addresses, &dial(ClientTls::default()), anywhere())?, Some(key))
    }

    fn new(channel: Channels, key: Option<&SecretText>) -> anyhow::Result<Self> {
        Ok(Self { channel, bearer: Bearer::new(key)? })
    }

    pub fn sequences(&self) -> SequenceServiceClient<Authorized> {
        SequenceServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn instances(&self) -> InstanceServiceClient<Authorized> {
        InstanceServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn signals(&self) -> SignalServiceClient<Authorized> {
        SignalServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }

    pub fn workers(&self) -> WorkerServiceClient<Authorized> {
        WorkerServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn tenants(&self) -> TenantServiceClient<Authorized> {
        TenantServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }

    pub fn placements(&self) -> PlacementServiceClient<Authorized> {
        PlacementServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
    }

    pub fn fleet(&self) -> FleetServiceClient<Authorized> {
        FleetServiceClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

/// Puts the key on every request, if there is one.
#[derive(Clone, Debug)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(key: Option<&SecretText>) -> Result<Self, CliError> {
        let Some(key) = key else { return Ok(Self(None)) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", key.reveal()).parse().map_err(|_| {
            CliError::new(Exit::Denied, "CREDENTIAL_INVALID", "the key holds characters that no key has")
        })?;
        // Hidden from debug output and from header compression tables.
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = &self.0 {
            request.metadata_mut().insert("authorization", bearer.clone());
        }
        Ok(request)
    }
}

/// Whether the same call may succeed in a moment: no room, no server, or a connection that broke on the way. A status
/// with a source was made on this side, by the transport. Only for calls that may be repeated.
pub fn is_passing(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => true,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DeadlineExceeded => {
            std::error::Error::source(status).is_some()
        }
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}

fn addresses(text: &str) -> Result<Vec<Address>, CliError> {
    Address::parse_list(text).map_err(|why| {
        CliError::usage(format!("the server address {text:?} {why}"))
            .hint("write it like http://127.0.0.1:7233 or https://orch8.example.org; several with commas")
    })
}

fn dial(tls: ClientTls) -> Dial {
    Dial { tls, user_agent: concat!("orch8/", env!("CARGO_PKG_VERSION")) }
}

/// Which of several servers is asked first.
fn anywhere() -> usize {
    let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
    usize::try_from(low >> 33).unwrap_or_default()
}

fn unreachable(target: &Target, error: &ChannelProblem) -> CliError {
    let cause = innermost(error);
    if matches!(error, ChannelProblem::Setting { .. }) {
        return CliError::usage(format!("{error}: {cause}"))
            .hint("--ca names the authority to trust, when this machine knows none");
    }
    let hint = match &target.found_in {
        Some(dir) => format!(
            "`orch8 dev` is not running: start it with `orch8 dev --dir {}` (address and key came from {})",
            dir.display(),
            dir.join(crate::connection::FILE).display()
        ),
        None => "is the address right, and the server running? `orch8 dev` starts one here".to_owned(),
    };
    CliError::new(Exit::Unavailable, "UNREACHABLE", format!("cannot reach {}: {cause}", target.address))
        .hint(hint)
}

/// The cause that says something: `Connection refused`, below three layers of "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Flags first, then what was found. Pure but for the key file.
fn resolve(
    global: &GlobalArgs,
    found: Option<(PathBuf, Connection)>,
    speaks: Speaks,
) -> Result<Target, CliError> {
    let given_key = match (&global.key, &global.key_file) {
        (Some(key), _) => Some(SecretText::new(key.trim().to_owned())),
        (None, Some(file)) => Some(read_key(file)?),
        (None, None) => None,
    };
    let Some(address) = global.address.clone().or_else(|| found.as_ref().map(|(_, c)| c.address.clone()))
    else {
        return Err(CliError::new(Exit::Unavailable, "NO_SERVER", "no server is known in this folder").hint(
            match speaks {
                Speaks::Client | Speaks::Worker => {
                    "start one with `orch8 dev`, or name one with --address and --key-file (ORCH8_ADDRESS, ORCH8_KEY_FILE)"
                }
                Speaks::Operator => {
                    "start one with `orch8 dev`, or name a control plane with --control-plane and --key-file (ORCH8_CONTROL_PLANE, ORCH8_KEY_FILE)"
                }
            },
        ));
    };
    // A key from a file goes to the address in that file only: no other server is shown it.
    let found = found.filter(|(_, connection)| connection.address == address);
    let found_key = found.as_ref().map(|(_, connection)| match speaks {
        Speaks::Client => connection.client_key.clone(),
        Speaks::Worker => connection.worker_key.clone(),
        Speaks::Operator => connection.operator_key.clone(),
    });
    let key = given_key.or(found_key).filter(|key| !key.reveal().is_empty());
    if key.is_none() && global.client_certificate.is_none() {
        return Err(CliError::new(Exit::Denied, "NO_KEY", format!("no key for {address}"))
            .hint("give one with --key-file or ORCH8_KEY_FILE, or show a --client-certificate"));
    }
    let open = addresses(&address)?.into_iter().find(|address| !address.may_carry_a_key());
    if let Some(open) = open.filter(|_| key.is_some() && !global.insecure) {
        return Err(CliError::usage(format!(
            "{open} is another machine, and http would show the key on the way"
        ))
        .hint("use https://, or --insecure if the network between is yours"));
    }
    Ok(Target { address, key, found_in: found.map(|(dir, _)| dir) })
}

fn read_key(file: &Path) -> Result<SecretText, CliError> {
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| CliError::usage(format!("cannot read the key file {}: {error}", file.display())))?;
    Ok(SecretText::new(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str) -> Option<(PathBuf, Connection)> {
        let key = |text: &str| SecretText::new(text.to_owned());
        let connection = Connection {
            address: address.to_owned(),
            tenant: "dev".to_owned(),
            client_key: key("found-client"),
            worker_key: key("found-worker"),
            operator_key: key("found-operator"),
            control_plane: None,
            pid: 1,
        };
        Some((PathBuf::from("/x/.orch8"), connection))
    }

    fn flags(address: Option<&str>, key: Option<&str>) -> GlobalArgs {
        GlobalArgs {
            address: address.map(str::to_owned),
            key: key.map(str::to_owned),
            ..GlobalArgs::default()
        }
    }

    fn key_of(target: &Target) -> &str {
        target.key.as_ref().map_or("", SecretText::reveal)
    }

    #[test]
    fn a_certificate_stands_in_for_a_key() {
        let mut flags = flags(Some("https://h:1"), None);
        flags.client_certificate = Some(PathBuf::from("me.crt"));
        let target = resolve(&flags, None, Speaks::Client).expect("resolves");
        assert_eq!(key_of(&target), "");
    }

    const HOME: &str = "http://127.0.0.1:7233";

    #[test]
    fn flags_win_over_the_connection_file() {
        for (address, key, expected) in [
            (None, None, Ok((HOME, "found-client"))),
            (Some(HOME), None, Ok((HOME, "found-client"))),
            (None, Some("mine"), Ok((HOME, "mine"))),
            (Some("https://h:1"), Some("mine"), Ok(("https://h:1", "mine"))),
            (Some("https://h:1"), None, Err("NO_KEY")),
            (None, Some(""), Err("NO_KEY")),
            (Some("https://h:1,https://i:1"), Some("mine"), Ok(("https://h:1,https://i:1", "mine"))),
            (Some("http://10.0.0.1:1"), Some("mine"), Err("USAGE")),
            (Some("https://h:1,http://10.0.0.1:1"), Some("mine"), Err("USAGE")),
            (Some("nowhere"), Some("mine"), Err("USAGE")),
        ] {
            let target = resolve(&flags(address, key), found(HOME), Speaks::Client);
            let answer =
                target.as_ref().map(|t| (t.address.as_str(), key_of(t))).map_err(|e| e.reason.as_str());
            assert_eq!(answer, expected, "{address:?} {key:?}");
        }
    }

    #[test]
    fn a_worker_speaks_with_the_workers_key() {
        let target = resolve(&flags(None, None), found(HOME), Speaks::Worker).expect("resolves");
        assert_eq!(key_of(&target), "found-worker");
    }

    #[test]
    fn an_operator_speaks_to_the_control_plane_with_a_key_that_no_other_server_is_shown() {
        let (dir, connection) = found(HOME).expect("found");
        let connection = Connection { control_plane: Some("http://127.0.0.1:7232".into()), ..connection };
        let found = || Some((dir.clone(), connection.clone().for_operators()));
        let target = resolve(&flags(None, None), found(), Speaks::Operator).expect("resolves");
        assert_eq!((target.address.as_str(), key_of(&target)), ("http://127.0.0.1:7232", "found-operator"));
        let elsewhere = resolve(&flags(Some("https://h:1"), None), found(), Speaks::Operator);
        assert_eq!(elsewhere.expect_err("no key").reason, "NO_KEY");
    }

    #[test]
    fn without_any_server_the_next_step_is_named() {
        let error = resolve(&flags(None, Some("k")), None, Speaks::Client).expect_err("refused");
        assert_eq!(error.exit, Exit::Unavailable);
        assert!(error.hint.expect("a hint").contains("`orch8 dev`"));
    }

    #[test]
    fn addresses_without_a_scheme_are_refused_with_the_right_spelling() {
        let error = addresses("127.0.0.1:7233").expect_err("refused");
        assert!(error.hint.expect("a hint").contains("http://127.0.0.1:7233"));
        for address in ["", "http://", "ftp://h:1", "not a url", "http://h:1,h:2"] {
            assert_eq!(addresses(address).expect_err(address).exit, Exit::Usage, "{address}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for (code, passing) in [
            (Code::Unavailable, true),
            (Code::ResourceExhausted, true),
            (Code::Internal, false),
            (Code::Unknown, false),
            (Code::NotFound, false),
            (Code::InvalidArgument, false),
            (Code::Unauthenticated, false),
        ] {
            assert_eq!(is_passing(&Status::new(code, "from the server")), passing, "{code:?}");
        }
        let mut broken = Status::new(Code::Unknown, "transport error");
        broken.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
        assert!(is_passing(&broken), "a connection that broke on the way");
    }
}
