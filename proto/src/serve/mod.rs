//! A listener, its limits, health, reflection, and a shutdown that ends.
//!
//! A shutdown that only asks waits for ever on an open stream whose handler does not end, and on a peer that does not
//! answer the GOAWAY. Here it has four steps, each with its time: health says NOT_SERVING and GOAWAY is sent;
//! open answers may end by themselves until the drain deadline; then they are ended for them; then the sockets are cut.
//! A connection that has become old goes the same way alone, so that load spreads over servers that came later.

mod connection;
mod rim;

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response};
use orch8_model::limits::REQUEST_BYTES_MAX;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{body::Body, codec::CompressionEncoding::Gzip, server::NamedService, service::RoutesBuilder};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::Layer;

pub(crate) use self::connection::Peer;
use self::connection::{LAST_FRAMES, Manner};
use crate::{
    identity::{Authenticate, KeyRing},
    tls::ServerTls,
};

/// Open sockets of one listener; some 20 KiB each. Whoever comes later waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 16_384;
/// After a failed accept (out of descriptors, as a rule), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Between cutting the sockets and giving up on whoever still holds one.
const CUT_WITHIN: Duration = Duration::from_secs(1);
/// A connection lives this long when nobody says otherwise.
const CONNECTION_AGE: Duration = Duration::from_secs(30 * 60);

/// Adds the house's limits to a generated server: message size (also after decompression) and gzip.
///
/// A macro, because the generated servers share these methods but no trait.
#[macro_export]
macro_rules! limited {
    ($server:expr) => {
        $server
            .accept_compressed($crate::serve::GZIP)
            .max_decoding_message_size($crate::serve::MESSAGE_BYTES_MAX)
    };
}

/// For [`limited!`].
pub const GZIP: tonic::codec::CompressionEncoding = Gzip;
/// One message, compressed or not.
pub const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX;

/// What a listener answers.
#[derive(Default)]
pub struct Services {
    routes: RoutesBuilder,
    names: Vec<&'static str>,
}

impl Services {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a generated server, wrapped in [`limited!`].
    pub fn with<S>(mut self, service: S) -> Self
    where
        S: tower::Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.routes.add_service(service);
        self
    }

    fn with_health(self, reporter: &HealthReporter) -> Self {
        let health = tonic_health::server::HealthService::from_health_reporter(reporter.clone());
        self.with(limited!(tonic_health::pb::health_server::HealthServer::new(health)))
    }

    fn with_reflection(self) -> Result<Self, ServeError> {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(crate::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        };
        Ok(self
            .with(limited!(reflection().build_v1().map_err(ServeError::Descriptors)?))
            .with(limited!(reflection().build_v1alpha().map_err(ServeError::Descriptors)?)))
    }
}

/// Why a listener could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptors compiled into this program do not fit together.
    #[error("the service descriptors cannot be read")]
    Descriptors(#[source] tonic_reflection::server::Error),
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everybody had left before the deadline.
    Drained,
    /// Answers that were still open at the deadline were ended, and sockets cut.
    Cut,
}

/// How a listener serves.
#[derive(Clone, Debug)]
pub struct Terms {
    /// `None`: plain text.
    pub tls: Option<ServerTls>,
    /// How long open answers may go on once the process is leaving.
    pub drain: Duration,
    /// A connection is asked to move on after this, ± a tenth.
    pub connection_age: Duration,
}

impl From<Duration> for Terms {
    /// Plain text, and this much time to drain.
    fn from(drain: Duration) -> Self {
        Self { tls: None, drain, connection_age: CONNECTION_AGE }
    }
}

/// How far the shutdown is: of the process, or of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phases {
    /// The process is leaving: streams about its health end, all others may go on.
    pub leaving: CancellationToken,
    /// The time to leave has passed: every answer ends.
    pub late: CancellationToken,
}

/// Serves until `stop` is cancelled, then drains. Handlers of streams should watch `stop` themselves and end well; those
/// that do not are ended here with `UNAVAILABLE`, reason `DRAINING`.
///
/// Returns at most 1.25 s after the time to drain, whatever handlers and peers do.
pub async fn serve(
    listener: TcpListener,
    services: Services,
    keys: KeyRing,
    stop: CancellationToken,
    terms: impl Into<Terms>,
) -> Result<Ended, ServeError> {
    let Terms { tls, drain, connection_age } = terms.into();
    let reporter = HealthReporter::new();
    let names = services.names.clone();
    report(&reporter, &names, ServingStatus::Serving).await;
    let manner = Manner {
        tls: tls.map(|tls| TlsAcceptor::from(tls.0)),
        edge: Edge { guard: Authenticate::new(keys) },
        routes: services.with_health(&reporter).with_reflection()?.routes.routes(),
        phases: Phases::default(),
        cut: CancellationToken::new(),
    };
    // Whoever drops this future leaves no open socket behind.
    let _guard = manner.cut.clone().drop_guard();
    let connections = TaskTracker::new();
    tokio::select! {
        () = accept(listener, &manner, &connections, connection_age) => {}
        () = stop.cancelled() => {}
    }

    connections.close();
    report(&reporter, &names, ServingStatus::NotServing).await;
    manner.phases.leaving.cancel();
    if timeout(drain, connections.wait()).await.is_ok() {
        return Ok(Ended::Drained);
    }
    manner.phases.late.cancel();
    if timeout(LAST_FRAMES, connections.wait()).await.is_ok() {
        return Ok(Ended::Cut);
    }
    manner.cut.cancel();
    if timeout(CUT_WITHIN, connections.wait()).await.is_err() {
        tracing::warn!("connections outlived their sockets; leaving them behind");
    }
    Ok(Ended::Cut)
}

/// Accepts for ever; each connection becomes a task.
async fn accept(listener: TcpListener, manner: &Manner, connections: &TaskTracker, age: Duration) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Never closed.
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else { return };
        let socket = next(&listener).await;
        let connection = manner.clone().serve(socket, jittered(age));
        connections.spawn(async move {
            connection.await;
            drop(seat);
        });
    }
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(why = %error, "a socket keeps its delay");
                }
                return socket;
            }
            Err(error) => {
                tracing::warn!(why = %error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Within a tenth of it, so that connections made together do not all leave together.
fn jittered(age: Duration) -> Duration {
    let random = orch8_seal::random_bytes::<1>().map_or(128, |[byte]| byte);
    age.mul_f64(0.9 + f64::from(random) / 255.0 / 5.0)
}

/// The rim around the guard around the services.
#[derive(Clone, Debug)]
struct Edge {
    guard: Authenticate,
}

impl<S> Layer<S> for Edge {
    type Service = rim::Rim<<Authenticate as Layer<S>>::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        rim::Rim::new(self.guard.layer(inner))
    }
}

async fn report(reporter: &HealthReporter, names: &[&'static str], status: ServingStatus) {
    for name in names.iter().copied().chain([""]) {
        reporter.set_service_status(name, status).await;
    }
}
