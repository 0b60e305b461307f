//! Finding the server, and typed clients for it. The only room of the command that knows channels and credentials.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use orch8_proto::v1::{
    fleet_service_client::FleetServiceClient, instance_service_client::InstanceServiceClient,
    placement_service_client::PlacementServiceClient, sequence_service_client::SequenceServiceClient,
    signal_service_client::SignalServiceClient, tenant_service_client::TenantServiceClient,
    worker_service_client::WorkerServiceClient,
};
use orch8_seal::SecretText;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    cli::GlobalArgs,
    connection::Connection,
    error::{CliError, Exit},
};

/// Time to reach the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Sign of life on an otherwise silent connection, so that a half-open one is noticed while watching.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Answers may be larger than requests: a page of outputs. Above this the server is not ours.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A key is 67 bytes; a file of more than this is something else.
const KEY_FILE_BYTES_MAX: u64 = 4 << 10;

/// A channel that presents the credential.
pub type Authorized = InterceptedService<Channel, Bearer>;

/// Which of the keys in a connection file speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Starts, signals, reads, publishes.
    Client,
    /// Pulls steps.
    Worker,
}

/// Everything the flags and the environment say about the server.
#[derive(Clone, Debug)]
pub struct Caller {
    global: GlobalArgs,
}

/// Where to call, and as whom.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: String,
    pub key: SecretText,
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
        Ok(resolve(&self.global, found, speaks)?)
    }

    /// Connects now, so that an absent server is told as such.
    pub async fn connect(&self) -> anyhow::Result<Server> {
        let target = self.target(Speaks::Client)?;
        let channel =
            endpoint(&target.address)?.connect().await.map_err(|error| unreachable(&target, &error))?;
        Server::new(channel, &target.key)
    }
}

/// Typed clients over one channel. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    channel: Channel,
    bearer: Bearer,
}

impl Server {
    /// Connects when first used, and again whenever the connection is gone.
    pub fn lazy(address: &str, key: &SecretText) -> anyhow::Result<Self> {
        Self::new(endpoint(address)?.connect_lazy(), key)
    }

    fn new(channel: Channel, key: &SecretText) -> anyhow::Result<Self> {
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

/// Puts the key on every request.
#[derive(Clone, Debug)]
pub struct Bearer(MetadataValue<Ascii>);

impl Bearer {
    fn new(key: &SecretText) -> Result<Self, CliError> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", key.reveal()).parse().map_err(|_| {
            CliError::new(Exit::Denied, "CREDENTIAL_INVALID", "the key holds characters that no key has")
        })?;
        // Hidden from debug output and from header compression tables.
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
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

fn endpoint(address: &str) -> Result<Endpoint, CliError> {
    let wrong = |error: tonic::transport::Error| {
        CliError::usage(format!("{address} is not a server address ({error})"))
            .hint("write it like http://127.0.0.1:7233 or https://orch8.example.org")
    };
    let endpoint = Endpoint::from_shared(address.to_owned())
        .map_err(wrong)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .user_agent(concat!("orch8/", env!("CARGO_PKG_VERSION")))
        .map_err(wrong)?;
    match endpoint.uri().scheme_str() {
        Some("http") => Ok(endpoint),
        Some("https") => endpoint.tls_config(ClientTlsConfig::new().with_native_roots()).map_err(wrong),
        Some(_) | None => {
            Err(CliError::usage(format!("{address} begins neither with http:// nor with https://"))
                .hint(format!("try --address http://{address}")))
        }
    }
}

fn unreachable(target: &Target, error: &tonic::transport::Error) -> CliError {
    let cause = innermost(error);
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
            "start one with `orch8 dev`, or name one with --address and --key-file (ORCH8_ADDRESS, ORCH8_KEY_FILE)",
        ));
    };
    // A key from a file goes to the address in that file only: no other server is shown it.
    let found = found.filter(|(_, connection)| connection.address == address);
    let found_key = found.as_ref().map(|(_, connection)| match speaks {
        Speaks::Client => connection.client_key.clone(),
        Speaks::Worker => connection.worker_key.clone(),
    });
    let Some(key) = given_key.or(found_key).filter(|key| !key.reveal().is_empty()) else {
        return Err(CliError::new(Exit::Denied, "NO_KEY", format!("no key for {address}"))
            .hint("give one with --key-file or ORCH8_KEY_FILE"));
    };
    if !global.insecure && !may_carry_a_key(&address) {
        return Err(CliError::usage(format!(
            "{address} is another machine, and http would show the key on the way"
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

/// TLS, or a connection that does not leave this machine.
fn may_carry_a_key(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("http://") else { return true };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
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
            (Some("http://10.0.0.1:1"), Some("mine"), Err("USAGE")),
        ] {
            let target = resolve(&flags(address, key), found(HOME), Speaks::Client);
            let answer =
                target.as_ref().map(|t| (t.address.as_str(), t.key.reveal())).map_err(|e| e.reason.as_str());
            assert_eq!(answer, expected, "{address:?} {key:?}");
        }
    }

    #[test]
    fn a_worker_speaks_with_the_workers_key() {
        let target = resolve(&flags(None, None), found(HOME), Speaks::Worker).expect("resolves");
        assert_eq!(target.key.reveal(), "found-worker");
    }

    #[test]
    fn without_any_server_the_next_step_is_named() {
        let error = resolve(&flags(None, Some("k")), None, Speaks::Client).expect_err("refused");
        assert_eq!(error.exit, Exit::Unavailable);
        assert!(error.hint.expect("a hint").contains("`orch8 dev`"));
    }

    #[test]
    fn a_key_goes_in_plain_text_to_this_machine_only() {
        for (address, allowed) in [
            ("http://127.0.0.1:7233", true),
            ("http://127.9.9.9:7233", true),
            ("http://[::1]:7233", true),
            ("http://localhost:7233", true),
            ("http://localhost", true),
            ("https://example.org", true),
            ("http://example.org:80", false),
            ("http://localhost.example.org:80", false),
            ("http://127.0.0.1.example.org", false),
            ("http://10.0.0.1:1", false),
            ("http://0.0.0.0:1", false),
            ("http://localhost@evil.example:1", false),
        ] {
            assert_eq!(may_carry_a_key(address), allowed, "{address}");
        }
    }

    #[test]
    fn addresses_without_a_scheme_are_refused_with_the_right_spelling() {
        let error = endpoint("127.0.0.1:7233").expect_err("refused");
        assert_eq!(error.exit, Exit::Usage);
        for address in ["", "http://", "ftp://h:1", "not a url"] {
            assert_eq!(endpoint(address).expect_err(address).exit, Exit::Usage, "{address}");
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
