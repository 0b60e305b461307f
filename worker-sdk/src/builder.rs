//! How a worker is put together.

use std::{collections::HashMap, fmt, time::Duration};

use bytes::Bytes;
use orch8_proto::{
    client::{Address, ChannelProblem, Dial},
    tls::{Authorities, ClientTls, Half, Identity},
};
use serde::{Serialize, de::DeserializeOwned};
use tonic::{metadata::MetadataValue, transport::Endpoint};
use uuid::Uuid;

use crate::{
    StepContext, StepError, WorkerError,
    backoff::Backoff,
    handler::{self, Handler},
    link::chain,
    runner::{Runner, Settings},
};

/// A process that runs steps. See the example at the top of the crate.
#[derive(Debug)]
pub struct Worker;

/// Settings of a [`Worker`].
#[derive(Clone)]
pub struct WorkerBuilder {
    endpoint: String,
    credential: Option<String>,
    plaintext: bool,
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    tenant: String,
    worker_id: Option<String>,
    version: String,
    handlers: HashMap<String, Handler>,
    max_in_flight: usize,
    drain: Duration,
    reconnect: (Duration, Duration),
}

impl Worker {
    /// A worker of the server at this address, `https://…` or `http://…`; or of several with commas between them, at most
    /// 16: it begins with any of them, and goes on to the next where one is not reachable or does not take it.
    pub fn builder(endpoint: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder {
            endpoint: endpoint.into(),
            credential: None,
            plaintext: false,
            ca: None,
            identity: None,
            tenant: String::new(),
            worker_id: None,
            version: String::new(),
            handlers: HashMap::new(),
            max_in_flight: 16,
            drain: Duration::from_secs(30),
            reconnect: (Duration::from_millis(100), Duration::from_secs(15)),
        }
    }
}

impl WorkerBuilder {
    /// The key that fixes the tenant and allows the role worker.
    pub fn credential(mut self, key: impl Into<String>) -> Self {
        self.credential = Some(key.into());
        self
    }

    /// The code that runs steps with this handler name. The last one of a name counts.
    ///
    /// `params` of the step are read into `I`; what does not fit fails the step for good (`INVALID_PARAMS`). A panic is
    /// a retryable failure (`PANIC`).
    pub fn handler<I, O, F, R>(mut self, name: impl Into<String>, run: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        F: Fn(StepContext, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        self.handlers.insert(name.into(), handler::typed(run));
        self
    }

    /// The same, with params and output as JSON text, untouched.
    pub fn raw_handler<F, R>(mut self, name: impl Into<String>, run: F) -> Self
    where
        F: Fn(StepContext, Bytes) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Bytes, StepError>> + Send + 'static,
    {
        self.handlers.insert(name.into(), handler::raw(run));
        self
    }

    /// Steps that run at the same time, 1 to 256. Default 16.
    pub fn max_in_flight(mut self, steps: usize) -> Self {
        self.max_in_flight = steps;
        self
    }

    /// Name shown to operators, at most 256 bytes. Default: the host's name and a part that is new at every start. A
    /// name that is the same after a restart lets the server end the leases of the process before at once; two
    /// processes must never share one.
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.worker_id = Some(id.into());
        self
    }

    /// Version of the worker's code, shown to operators.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Refuses to run as anybody else's worker: must be the tenant of the credential.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// Trusts these authorities (PEM) instead of those of the machine.
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Shows this certificate (PEM, with its chain) to the server; it may stand in for the credential.
    pub fn client_certificate(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.identity = Some((pem.into(), key_pem.into()));
        self
    }

    /// Allows a credential over `http://` to an address that is not loopback.
    pub fn allow_plaintext(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// How long a shutdown waits for running steps and their commits. Default 30 s.
    pub fn drain_timeout(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// First and longest wait before a reconnect; doubled in between, jittered, forgotten after a healthy minute.
    /// Default 100 ms and 15 s.
    pub fn reconnect(mut self, first: Duration, longest: Duration) -> Self {
        self.reconnect = (first, longest);
        self
    }

    /// Works until `shutdown` is ready, then drains: no new steps, running ones finish, results are committed.
    ///
    /// Errors: a setting that cannot work; a first session refused for good; steps left when the drain time passed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        Runner::new(self.settings()?).run(shutdown).await
    }

    fn settings(self) -> Result<Settings, WorkerError> {
        if self.handlers.is_empty() {
            return Err(setting("a worker needs at least one handler"));
        }
        if self.max_in_flight == 0 {
            return Err(setting("max_in_flight must be at least 1"));
        }
        let endpoints = self.endpoints()?;
        let credential = self.credential.as_ref().map(|key| MetadataValue::try_from(format!("Bearer {key}")));
        let credential = credential
            .transpose()
            .map_err(|_| setting("the credential may hold only visible ASCII characters"))?
            .map(|mut value| {
                value.set_sensitive(true);
                value
            });
        let (first, longest) = self.reconnect;
        Ok(Settings {
            endpoints,
            credential,
            tenant: self.tenant,
            worker_id: self.worker_id.unwrap_or_else(default_worker_id),
            version: self.version,
            handlers: self.handlers,
            max_in_flight: self.max_in_flight,
            drain: self.drain,
            backoff: Backoff::new(first, longest, Duration::from_secs(60)),
        })
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, WorkerError> {
        let addresses = Address::parse_list(&self.endpoint)
            .map_err(|why| setting(format!("{:?} is not an address: it {why}", self.endpoint)))?;
        let open = addresses.iter().find(|address| !address.may_carry_a_key());
        if let Some(address) = open.filter(|_| self.credential.is_some() && !self.plaintext) {
            return Err(setting(format!(
                "a credential over {address} can be read on the way: use https://, or allow_plaintext()"
            )));
        }
        let dial = Dial { tls: self.tls()?, user_agent: concat!("orch8-worker/", env!("CARGO_PKG_VERSION")) };
        let endpoints = addresses.iter().map(|address| dial.endpoint(address));
        endpoints.collect::<Result<_, ChannelProblem>>().map_err(|why| setting(chain(&why)))
    }

    fn tls(&self) -> Result<ClientTls, WorkerError> {
        let authorities = self.ca.as_ref().map(|pem| Authorities::read(pem)).transpose();
        let identity = self.identity.as_ref().map(|(chain, key)| Identity::read(chain, key)).transpose();
        Ok(ClientTls {
            authorities: authorities.map_err(|why| setting(format!("the ca_certificate {why}")))?,
            identity: identity.map_err(|(half, why)| match half {
                Half::Certificate => setting(format!("the client_certificate {why}")),
                Half::Key => setting(format!("the key of the client_certificate {why}")),
            })?,
        })
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers: Vec<&String> = self.handlers.keys().collect();
        f.debug_struct("WorkerBuilder")
            .field("endpoint", &self.endpoint)
            .field("worker_id", &self.worker_id)
            .field("handlers", &handlers)
            .field("max_in_flight", &self.max_in_flight)
            .finish_non_exhaustive()
    }
}

/// Ready when the process is asked to stop: SIGTERM or ctrl-c. For [`WorkerBuilder::run`].
pub async fn termination() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        let terminate = async {
            match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
                Ok(mut signal) => {
                    signal.recv().await;
                }
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! { () = interrupt => {} () = terminate => {} }
    }
    #[cfg(not(unix))]
    interrupt.await;
}

fn setting(text: impl Into<String>) -> WorkerError {
    WorkerError::Setting(text.into())
}

fn default_worker_id() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty() && host.len() <= 200);
    let start = Uuid::new_v4().simple().to_string();
    format!("{}-{}", host.as_deref().unwrap_or("worker"), &start[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_handler(endpoint: &str) -> WorkerBuilder {
        Worker::builder(endpoint).raw_handler("echo", |_, input| async { Ok(input) })
    }

    #[tokio::test]
    async fn a_setting_that_cannot_work_is_refused_before_anything_is_tried() {
        let cases = [
            (Worker::builder("http://localhost:1"), "handler"),
            (with_handler("http://localhost:1").max_in_flight(0), "max_in_flight"),
            (with_handler("localhost:1"), "http"),
            (with_handler("not an address"), "address"),
            (with_handler("http://example.com").credential("k"), "allow_plaintext"),
            (with_handler("http://localhost:1,http://example.com").credential("k"), "http://example.com"),
            (with_handler("http://localhost:1,").credential("k\n"), "ASCII"),
            (with_handler("https://localhost:1").ca_certificate("no PEM"), "ca_certificate"),
            (with_handler("https://localhost:1").client_certificate("no PEM", ""), "client_certificate"),
        ];
        for (builder, names) in cases {
            let shown = format!("{builder:?}");
            match builder.run(std::future::pending()).await {
                Err(WorkerError::Setting(text)) => assert!(text.contains(names), "{shown}: {text}"),
                other => panic!("{shown}: {other:?}"),
            }
        }
    }

    #[test]
    fn loopback_needs_no_encryption() {
        for address in ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1,http://localhost:2"] {
            assert!(with_handler(address).credential("k").settings().is_ok(), "{address}");
        }
    }

    #[test]
    fn a_credential_is_not_shown() {
        let shown = format!("{:?}", with_handler("http://localhost:1").credential("topsecret"));
        assert!(!shown.contains("topsecret"), "{shown}");
    }
}
