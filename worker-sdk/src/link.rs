//! One connection to a server: opened with a Hello, standing once the Welcome is read.

use std::time::{Duration, Instant};

use orch8_proto::{
    client::Failure,
    v1::{self, worker_service_client::WorkerServiceClient},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Streaming, metadata::MetadataValue, transport::Endpoint};

/// Frames between us and the transport. Few: what waits here is not batched any more.
const OUT_FRAMES: usize = 2;

/// How long a server may take to say Welcome. It commits the results of the Hello before.
const WELCOME: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct Link {
    pub out: mpsc::Sender<v1::SessionRequest>,
    pub inbound: Streaming<v1::SessionResponse>,
    pub opened: Instant,
    pub heard: Instant,
    pub spoke: Instant,
}

/// Opens a connection and a session on it.
///
/// Errors: no connection, a refusal, no Welcome in time.
pub(crate) async fn open(
    endpoint: Endpoint,
    credential: Option<MetadataValue<tonic::metadata::Ascii>>,
    hello: v1::Hello,
) -> Result<(Link, v1::Welcome), Failure> {
    use v1::{session_request::Frame as Out, session_response::Frame as In};
    let channel = endpoint.connect().await.map_err(|why| unavailable(chain(&why)))?;
    let (out, frames) = mpsc::channel(OUT_FRAMES);
    let hello = v1::SessionRequest { frame: Some(Out::Hello(hello)) };
    out.try_send(hello).map_err(|_| unavailable("the connection closed at once"))?;

    let mut request = Request::new(ReceiverStream::new(frames));
    if let Some(credential) = credential {
        request.metadata_mut().insert("authorization", credential);
    }
    let welcomed = async {
        let session = WorkerServiceClient::new(channel).session(request).await;
        let mut inbound = session.map_err(Failure::from)?.into_inner();
        let first = inbound.message().await.map_err(Failure::from)?;
        match first.and_then(|first| first.frame) {
            Some(In::Welcome(welcome)) => Ok((inbound, welcome)),
            Some(_) => Err(Failure::here(Code::Internal, "the server did not begin with a Welcome")),
            None => Err(unavailable("the server closed the stream before its Welcome")),
        }
    };
    let (inbound, welcome) =
        timeout(WELCOME, welcomed).await.map_err(|_| unavailable("no Welcome in time"))??;
    let now = Instant::now();
    Ok((Link { out, inbound, opened: now, heard: now, spoke: now }, welcome))
}

impl Link {
    /// Closes our half and waits until the server closed its own, a moment at most.
    pub async fn close(mut self) {
        drop(self.out);
        let rest = async { while let Ok(Some(_)) = self.inbound.message().await {} };
        let _ = timeout(Duration::from_secs(2), rest).await;
    }
}

pub(crate) fn unavailable(why: impl Into<String>) -> Failure {
    Failure::here(Code::Unavailable, why)
}

/// An error with its causes: a transport error alone says only "transport error".
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
