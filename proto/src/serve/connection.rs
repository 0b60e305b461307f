//! One connection from its first byte to its last: handshake, requests, age, the way out. Each is a task of its own, so
//! that dropping the task is what cuts it.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use orch8_seal::Digest;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::{body::Body, service::Routes};
use tower::{Layer, ServiceExt};

use super::{Edge, Phases};

/// A peer that connects and says nothing for this long is gone. Of TLS too, whose handshake has this time once more.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
/// Streams on one connection; a worker needs one, a client one per call in flight.
const STREAMS_MAX: u32 = 1_024;
/// All headers of a request.
const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// A dead peer is noticed after this and [`PING_ANSWER_WITHIN`].
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// From being asked to move on until what is still open is ended, or its age once more where that is less: calls are done
/// by then, streams are begun anew.
const MOVE_WITHIN: Duration = Duration::from_secs(30);
/// Between ending the open answers and cutting the socket: time for the last frames to leave.
pub(super) const LAST_FRAMES: Duration = Duration::from_millis(250);

/// Who is at the other end, and how this connection ends. In the extensions of every request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// The credential that the TLS handshake proved.
    pub certificate: Option<Digest>,
    /// The process's ends, the connection's own age among them.
    pub phases: Phases,
    /// The process's end alone: while it is not near, what ends here may begin anew here.
    pub process_leaving: CancellationToken,
}

/// What every connection of a listener shares.
#[derive(Clone)]
pub(super) struct Manner {
    pub tls: Option<TlsAcceptor>,
    pub edge: Edge,
    pub routes: Routes,
    pub phases: Phases,
    /// Every socket fails from here on.
    pub cut: CancellationToken,
}

impl Manner {
    /// Serves one socket to its end. `age`: after this, the peer is asked to move on.
    pub async fn serve(self, socket: TcpStream, age: Duration) {
        let cut = self.cut.clone();
        let served = async {
            match self.tls.clone() {
                None => self.speak(socket, None, age).await,
                Some(acceptor) => {
                    // The handshake's failure is the peer's affair: a probe, a scanner, an unknown authority.
                    match timeout(FIRST_BYTE_WITHIN, acceptor.accept(socket)).await {
                        Ok(Ok(stream)) => {
                            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                            let certificate = chain
                                .first()
                                .map(|der| crate::identity::certificate_key(&orch8_seal::sha256(der)));
                            self.speak(stream, certificate, age).await;
                        }
                        Ok(Err(why)) => tracing::debug!(%why, "no TLS with a peer"),
                        Err(_) => tracing::debug!(why = "it took too long", "no TLS with a peer"),
                    }
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = cut.cancelled() => {}
        }
    }

    async fn speak<S>(self, socket: S, certificate: Option<Digest>, age: Duration)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let own = Phases { leaving: self.phases.leaving.child_token(), late: self.phases.late.child_token() };
        let process_leaving = self.phases.leaving.clone();
        let peer = Arc::new(Peer { certificate, phases: own.clone(), process_leaving });
        let service = self.edge.layer(self.routes).map_request(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Arc::clone(&peer));
            request
        });
        let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER_WITHIN);
        let socket = TokioIo::new(Wire::new(socket));
        let mut connection = pin!(http.serve_connection(socket, TowerToHyperService::new(service)));
        let mut end = pin!(ended_from_here(&own, age));
        let mut asked = false;
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(why) = ended {
                        tracing::debug!(%why, "a connection broke");
                    }
                    return;
                }
                () = own.leaving.cancelled(), if !asked => {
                    asked = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut end => return,
            }
        }
    }
}

/// Asks an old connection to leave, ends its open answers, and is ready when it is time to drop it. Of a process that
/// is leaving the deadlines are the listener's.
async fn ended_from_here(own: &Phases, age: Duration) {
    sleep(age).await;
    own.leaving.cancel();
    sleep(MOVE_WITHIN.min(age)).await;
    own.late.cancel();
    sleep(LAST_FRAMES).await;
}

/// A socket that fails when its peer says nothing at all.
struct Wire<S> {
    socket: S,
    silence: Option<Pin<Box<Sleep>>>,
}

impl<S> Wire<S> {
    fn new(socket: S) -> Self {
        Self { socket, silence: Some(Box::pin(sleep(FIRST_BYTE_WITHIN))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if read.is_ready() {
            self.silence = None;
        } else if let Some(silence) = &mut self.silence
            && silence.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
