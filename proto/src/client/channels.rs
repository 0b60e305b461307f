//! Channels to several servers that are as good as each other: a call that one of them cannot take goes to the next.

use std::{
    error::Error as _,
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body as _;
use orch8_model::{Reason, limits::REQUEST_BYTES_MAX};
use tonic::{
    body::Body,
    transport::{self, Channel, Endpoint},
};
use tower::{Service, ServiceExt};

use super::{Address, Failure};
use crate::{status, tls::ClientTls};

/// Time to reach a server.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Signs of life on an otherwise silent connection, so that a half-open one is noticed.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait before the next server is asked; the shortest is half of it, so that many clients come spread out.
const NEXT_AFTER: Duration = Duration::from_millis(100);

/// How to connect.
#[derive(Clone, Debug)]
pub struct Dial {
    pub tls: ClientTls,
    /// What the client calls itself.
    pub user_agent: &'static str,
}

/// Why no channel can be had.
#[derive(Debug, thiserror::Error)]
pub enum ChannelProblem {
    /// Certificates, or the absence of any authority on this machine.
    #[error("TLS towards {address} cannot be set up")]
    Setting {
        address: Address,
        #[source]
        source: transport::Error,
    },
    /// Nobody answers.
    #[error("cannot reach {address}")]
    Unreachable {
        address: Address,
        #[source]
        source: transport::Error,
    },
    /// There is nobody to ask.
    #[error("no address is given")]
    NoAddress,
}

impl Dial {
    /// Everything about a connection but the connection.
    pub fn endpoint(&self, address: &Address) -> Result<Endpoint, ChannelProblem> {
        let wrong = |source| ChannelProblem::Setting { address: address.clone(), source };
        let endpoint = Endpoint::from(address.uri().clone())
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER_WITHIN)
            .keep_alive_while_idle(true)
            .user_agent(self.user_agent)
            .map_err(wrong)?;
        match address.is_encrypted() {
            true => endpoint.tls_config(self.tls.config()).map_err(wrong),
            false => Ok(endpoint),
        }
    }
}

/// One channel per address. Clones share them, and which of them answered last.
#[derive(Clone)]
pub struct Channels {
    channels: Arc<[Channel]>,
    current: Arc<AtomicUsize>,
}

impl Channels {
    /// Connects when first used, and again whenever a connection is gone. Begins with the address at `first`, modulo
    /// their number.
    pub fn lazy(addresses: &[Address], dial: &Dial, first: usize) -> Result<Self, ChannelProblem> {
        let channels = addresses.iter().map(|address| dial.endpoint(address).map(|e| e.connect_lazy()));
        let channels: Arc<[Channel]> = channels.collect::<Result<_, _>>()?;
        match channels.len() {
            0 => Err(ChannelProblem::NoAddress),
            count => Ok(Self { channels, current: Arc::new(AtomicUsize::new(first % count)) }),
        }
    }

    /// Connects to the first address that can be reached, from `first` on, so that the absence of all is told as such.
    pub async fn connect(addresses: &[Address], dial: &Dial, first: usize) -> Result<Self, ChannelProblem> {
        let mut failed = ChannelProblem::NoAddress;
        for step in 0..addresses.len() {
            let at = first.wrapping_add(step) % addresses.len();
            match dial.endpoint(&addresses[at])?.connect().await {
                Err(source) => {
                    failed = ChannelProblem::Unreachable { address: addresses[at].clone(), source };
                }
                Ok(open) => {
                    let mut this = Self::lazy(addresses, dial, at)?;
                    let channels = this.channels.iter().cloned().enumerate();
                    this.channels =
                        channels.map(|(n, lazy)| if n == at { open.clone() } else { lazy }).collect();
                    return Ok(this);
                }
            }
        }
        Err(failed)
    }

    /// Asks one after the other, each once, until one takes the call.
    async fn ask(self, request: Request<Body>) -> Result<Response<Body>, transport::Error> {
        let (parts, body) = request.into_parts();
        let count = self.channels.len();
        let first = self.current.load(Relaxed);
        if count == 1 {
            return ask(&self.channels[0], Request::from_parts(parts, body)).await;
        }
        let body = match replayable(body).await {
            Ok(bytes) => bytes,
            Err(whole) => return ask(&self.channels[first % count], Request::from_parts(parts, whole)).await,
        };
        let mut step = 0;
        loop {
            let at = first.wrapping_add(step) % count;
            let request = Request::from_parts(parts.clone(), Body::new(Whole(Some(body.clone()))));
            let answer = ask(&self.channels[at], request).await;
            step += 1;
            if step == count || !is_for_another(&answer) {
                self.current.store(at, Relaxed);
                return answer;
            }
            tokio::time::sleep(jittered(NEXT_AFTER)).await;
        }
    }
}

async fn ask(channel: &Channel, request: Request<Body>) -> Result<Response<Body>, transport::Error> {
    let mut channel = channel.clone();
    channel.ready().await?.call(request).await
}

/// Whether this server did nothing at all and another one may: it was not reached, it is leaving, or it does not own
/// what the call is about. A call that may have been done is never repeated here.
fn is_for_another(answer: &Result<Response<Body>, transport::Error>) -> bool {
    match answer {
        Err(error) => {
            let mut cause = error.source();
            while let Some(inner) = cause {
                if inner.is::<tonic::ConnectError>() {
                    return true;
                }
                cause = inner.source();
            }
            false
        }
        Ok(response) => status::read(response.headers()).is_some_and(|status| {
            matches!(
                Failure::from(status).known(),
                Some(Reason::Draining | Reason::ShardMoving | Reason::StoreUnsupported)
            )
        }),
    }
}

/// Uniform between half and all of it.
fn jittered(wait: Duration) -> Duration {
    let random = orch8_seal::random_bytes::<1>().map_or(u8::MAX, |[byte]| byte);
    wait.mul_f64(0.5 + f64::from(random) / 510.0)
}

/// The whole body of a call with one message. `Err`: the body as it was, when it may be a stream.
async fn replayable(mut body: Body) -> Result<Bytes, Body> {
    let mut whole = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) if whole.len() + data.len() <= REQUEST_BYTES_MAX + FRAME_HEAD => whole.extend(data),
            Ok(Ok(data)) => {
                whole.extend(data);
                return Err(Body::new(Rest { head: Some(whole.freeze()), rest: body }));
            }
            // Requests have no trailers, and a body that cannot be made is told by the one who sends it.
            Ok(Err(_)) | Err(_) => return Err(body),
        }
    }
    Ok(whole.freeze())
}

/// gRPC's own five bytes before a message.
const FRAME_HEAD: usize = 5;

/// A body that is here already.
struct Whole(Option<Bytes>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, tonic::Status>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

/// What was read of a body, and the rest.
struct Rest {
    head: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, tonic::Status>>> {
        match self.head.take() {
            Some(head) => Poll::Ready(Some(Ok(http_body::Frame::data(head)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

impl Service<Request<Body>> for Channels {
    type Response = Response<Body>;
    type Error = transport::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, transport::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), transport::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().ask(request))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channels({})", self.channels.len())
    }
}
