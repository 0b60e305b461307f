//! A listener, its limits, health, reflection, and a shutdown that ends.
//!
//! tonic's own graceful shutdown waits for ever on an open stream whose handler does not end, and on a peer that does
//! not answer the GOAWAY. Here it has four steps, each with its time: health says NOT_SERVING and GOAWAY is sent;
//! open answers may end by themselves until the drain deadline; then they are ended for them; then the sockets are cut.

mod connection;
mod rim;

use std::{convert::Infallible, io, time::Duration};

use http::{Request, Response};
use orch8_model::limits::REQUEST_BYTES_MAX;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    codec::CompressionEncoding::Gzip,
    server::NamedService,
    service::{Routes, RoutesBuilder},
    transport::Server,
};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::Layer;

use crate::identity::{Authenticate, KeyRing};

/// Streams on one connection; a worker needs one, a client one per call in flight.
const STREAMS_MAX: u32 = 1_024;
/// All headers of a request.
const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// A dead peer is noticed after this and [`PING_ANSWER_WITHIN`].
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Between ending the open answers and cutting the sockets: time for the last frames to leave.
const LAST_FRAMES: Duration = Duration::from_millis(250);
/// Between cutting the sockets and giving up on whoever still holds one.
const CUT_WITHIN: Duration = Duration::from_secs(1);

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
    /// The transport failed as a whole.
    #[error("the listener failed")]
    Transport(#[source] tonic::transport::Error),
    /// The socket could not be used.
    #[error("the listener failed")]
    Socket(#[source] io::Error),
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everybody had left before the deadline.
    Drained,
    /// Answers that were still open at the deadline were ended, and sockets cut.
    Cut,
}

/// Serves until `stop` is cancelled, then drains for at most `drain`. Handlers of streams should watch `stop`
/// themselves and end well; those that do not are ended here with `UNAVAILABLE`, reason `DRAINING`.
///
/// Returns at most 1.25 s after `drain`, whatever handlers and peers do.
pub async fn serve(
    listener: TcpListener,
    services: Services,
    keys: KeyRing,
    stop: CancellationToken,
    drain: Duration,
) -> Result<Ended, ServeError> {
    let reporter = HealthReporter::new();
    let names = services.names.clone();
    report(&reporter, &names, ServingStatus::Serving).await;
    let routes = services.with_health(&reporter).with_reflection()?.routes.routes();

    let phases = rim::Phases::default();
    let cut = CancellationToken::new();
    let goaway = phases.leaving.clone();
    let server =
        tokio::spawn(server(phases.clone(), keys, routes).serve_with_incoming_shutdown(
            connection::incoming(listener, cut.clone()),
            goaway.cancelled_owned(),
        ));
    tokio::pin!(server);
    // Whoever drops this future leaves no open socket behind.
    let _guard = cut.clone().drop_guard();

    tokio::select! {
        ended = &mut server => return finished(ended, Ended::Drained),
        () = stop.cancelled() => {}
    }
    report(&reporter, &names, ServingStatus::NotServing).await;
    phases.leaving.cancel();
    tokio::select! {
        ended = &mut server => return finished(ended, Ended::Drained),
        () = tokio::time::sleep(drain) => {}
    }
    phases.late.cancel();
    tokio::select! {
        ended = &mut server => return finished(ended, Ended::Cut),
        () = tokio::time::sleep(LAST_FRAMES) => {}
    }
    cut.cancel();
    tokio::select! {
        ended = &mut server => finished(ended, Ended::Cut),
        () = tokio::time::sleep(CUT_WITHIN) => {
            tracing::warn!("connections outlived their sockets; leaving them behind");
            Ok(Ended::Cut)
        }
    }
}

type Stack = tower::layer::util::Stack<Edge, tower::layer::util::Identity>;

/// The limits of the transport, and the way in.
fn server(phases: rim::Phases, keys: KeyRing, routes: Routes) -> tonic::transport::server::Router<Stack> {
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADER_LIST_BYTES_MAX)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_ANSWER_WITHIN))
        .layer(Edge { phases, guard: Authenticate::new(keys) })
        .add_routes(routes)
}

/// The rim around the guard around the services.
#[derive(Clone, Debug)]
struct Edge {
    phases: rim::Phases,
    guard: Authenticate,
}

impl<S> Layer<S> for Edge {
    type Service = rim::Rim<<Authenticate as Layer<S>>::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        rim::Rim::new(self.phases.clone(), self.guard.layer(inner))
    }
}

async fn report(reporter: &HealthReporter, names: &[&'static str], status: ServingStatus) {
    for name in names.iter().copied().chain([""]) {
        reporter.set_service_status(name, status).await;
    }
}

fn finished(
    ended: Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>,
    how: Ended,
) -> Result<Ended, ServeError> {
    match ended {
        Ok(Ok(())) => Ok(how),
        Ok(Err(error)) => Err(ServeError::Transport(error)),
        Err(error) => Err(ServeError::Socket(io::Error::other(error))),
    }
}
