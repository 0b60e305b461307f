//! Around every call: a span with fixed fields, the caller's deadline, a net for panics, an end for every answer, and
//! our own statuses in place of the transport's.

use std::{
    convert::Infallible,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use orch8_model::{Fault, Reason};
use tokio::time::Instant;
use tonic::{Code, Status, body::Body};
use tower::Service;
use tracing::{Instrument, Span, field::Empty};

use super::Peer;
use crate::{identity::access, status};

/// The longest deadline that is told apart from none: a day.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// When whoever has to move on may be back.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The service described above.
#[derive(Clone, Debug)]
pub(super) struct Rim<S> {
    inner: S,
}

impl<S> Rim<S> {
    pub fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S> Service<Request<Body>> for Rim<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The clone that was polled ready is the one that is called.
        let fresh = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, fresh);
        let (span, method) = span(request.uri().path());
        let Peer { phases, process_leaving, .. } =
            request.extensions().get::<Arc<Peer>>().map(|peer| Peer::clone(peer)).unwrap_or_default();
        let end = match access::is_open(request.uri().path()) {
            true => phases.leaving,
            false => phases.late,
        };
        let end = async move {
            end.cancelled().await;
            status::of(if process_leaving.is_cancelled() { draining() } else { too_old() })
        };
        async move { Ok(answer(inner, request, method, end).await) }.instrument(span).boxed()
    }
}

async fn answer<S>(
    mut inner: S,
    request: Request<Body>,
    method: &'static str,
    end: impl Future<Output = Status> + Send + 'static,
) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send,
    S::Future: Send,
{
    let since = Instant::now();
    let deadline = match deadline(request.headers()) {
        Ok(after) => after.map(|after| since + after),
        Err(fault) => return status::of(fault).into_http(),
    };
    // The call itself is inside, so that a panic before its first await is caught too.
    let call = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
    let called = match deadline {
        Some(at) => tokio::time::timeout_at(at, call).await.ok(),
        None => Some(call.await),
    };
    let response = match called {
        Some(Ok(Ok(response))) => recast(response),
        Some(Err(_)) => {
            tracing::error!(rpc.method = method, "a handler panicked");
            status::of(Fault::new(Reason::Internal, "")).into_http()
        }
        None => status::deadline_exceeded().into_http(),
    };
    note(&response, since.elapsed());
    response.map(|body| Body::new(Ending::new(body, end, deadline)))
}

/// Fixed fields; the guard fills in who calls. Unknown paths share one name, since they are the caller's text.
fn span(path: &str) -> (Span, &'static str) {
    let method = match access::row(path) {
        Some((known, _)) => known,
        None if access::is_open(path) => "open",
        None => "unknown",
    };
    let span = tracing::info_span!(
        "rpc",
        rpc.method = method,
        tenant.id = Empty,
        key.id = Empty,
        rpc.response.status_code = Empty,
    );
    (span, method)
}

fn note(response: &Response<Body>, took: Duration) {
    let code = status::read(response.headers()).map_or(Code::Ok, |s| s.code());
    Span::current().record("rpc.response.status_code", i32::from(code));
    tracing::debug!(rpc.server.call.duration = took.as_secs_f64(), "answered");
}

/// `grpc-timeout`: at most 8 digits and a unit. tonic reads it too, but answers CANCELLED.
fn deadline(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let bad = || Fault::invalid("grpc-timeout", "must be 1 to 8 digits and one of H M S m u n");
    let text = value.to_str().map_err(|_| bad())?;
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(bad)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let count: u64 = digits.parse().map_err(|_| bad())?;
    let after = match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return Err(bad()),
    };
    Ok((after < DEADLINE_MAX).then_some(after))
}

/// What tonic says about a request that it could not read, in our words: a bad request is never `INTERNAL`. Answers of
/// our handlers carry details and pass.
fn recast(response: Response<Body>) -> Response<Body> {
    let Some(said) = status::read(response.headers()) else { return response };
    match status::of_transport(&said) {
        Some(ours) => ours.into_http(),
        // No handler of ours says so without a word: the guard knows the method, and nobody here serves it.
        None if said.code() == Code::Unimplemented && said.message().is_empty() => {
            status::not_served_here().into_http()
        }
        None => response,
    }
}

/// A body that ends with a status when the process or the caller's deadline wants it to, whatever its handler does.
struct Ending {
    body: Option<Body>,
    end: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl Ending {
    fn new(
        body: Body,
        stop: impl Future<Output = Status> + Send + 'static,
        deadline: Option<Instant>,
    ) -> Self {
        let end = async move {
            match deadline {
                Some(at) => tokio::select! {
                    last = stop => last,
                    () = tokio::time::sleep_until(at) => status::deadline_exceeded(),
                },
                None => stop.await,
            }
        };
        Self { body: Some(body), end: Box::pin(end) }
    }
}

fn draining() -> Fault {
    Fault::new(Reason::Draining, "this process is leaving; ask another one")
}

fn too_old() -> Fault {
    Fault::new(Reason::Draining, "this connection has become old; connect again").retry_after(AT_ONCE)
}

impl http_body::Body for Ending {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        // What is ready goes first: the health stream's last word is NOT_SERVING.
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let last = ready!(self.end.as_mut().poll(cx));
        self.body = None;
        let mut trailers = HeaderMap::new();
        last.add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    #[test]
    fn a_timeout_is_read_or_refused() {
        for (text, expected) in [
            ("5S", Some(Some(Duration::from_secs(5)))),
            ("0n", Some(Some(Duration::ZERO))),
            ("99999999H", Some(None)),
            ("100m", Some(Some(Duration::from_millis(100)))),
            ("", None),
            ("S", None),
            ("5", None),
            ("-1S", None),
            ("+1S", None),
            ("123456789S", None),
            ("1d", None),
        ] {
            let headers = [(http::HeaderName::from_static("grpc-timeout"), text.parse().expect("a header"))];
            let read = deadline(&headers.into_iter().collect());
            assert_eq!(read.ok(), expected, "{text:?}");
        }
        assert_eq!(deadline(&HeaderMap::new()), Ok(None));
    }

    fn asks(timeout: &str) -> Request<Body> {
        let request = Request::builder().header("grpc-timeout", timeout).uri("/grpc.health.v1.Health/Watch");
        request.body(Body::empty()).expect("a request")
    }

    #[tokio::test]
    async fn a_handler_that_is_late_is_answered_for() {
        let never = tower::service_fn(|_| futures::future::pending::<Result<Response<Body>, Infallible>>());
        let answer = Rim::new(never).call(asks("50m")).await.expect("infallible");
        let status = Status::from_header_map(answer.headers()).expect("a status");
        assert_eq!(status.code(), Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn a_stream_ends_at_the_callers_deadline() {
        let silent = tower::service_fn(|_| async { Ok(Response::new(Body::new(Silence))) });
        let answer = Rim::new(silent).call(asks("50m")).await.expect("infallible");
        let mut body = answer.into_body();
        let mut frames = Vec::new();
        while let Some(frame) = futures::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            frames.push(frame.expect("a frame").into_trailers().expect("trailers"));
        }
        let codes: Vec<_> = frames.iter().filter_map(Status::from_header_map).map(|s| s.code()).collect();
        assert_eq!(codes, [Code::DeadlineExceeded]);
    }

    /// A body whose handler never says anything.
    struct Silence;

    impl http_body::Body for Silence {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }
}
