//! A client that sends bytes.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, stream};
use http_body::{Body as _, Frame};
use prost_reflect::MethodDescriptor;
use tonic::{
    Request, Status,
    body::Body,
    client::{Grpc, GrpcService as _},
    codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};

use crate::rig::PATIENCE;

/// Longest wait for the first answer of a watch; one that is fine may have none.
const WATCH: Duration = Duration::from_millis(500);

/// One connection, whoever's key a call carries.
pub struct Raw {
    channel: Channel,
}

impl Raw {
    pub fn connect(address: &str) -> Self {
        let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
        Self { channel: endpoint.connect_lazy() }
    }

    /// Sends the messages and answers the last message back; `None`: the stream said nothing.
    pub async fn call(
        &self,
        method: &MethodDescriptor,
        key: &str,
        messages: Vec<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Status> {
        self.send(method, Some(key), messages, None).await
    }

    /// The same, compressed.
    pub async fn call_with_gzip(
        &self,
        method: &MethodDescriptor,
        key: &str,
        messages: Vec<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Status> {
        self.send(method, Some(key), messages, Some(CompressionEncoding::Gzip)).await
    }

    /// The same with this `authorization`, or none.
    pub async fn call_as(
        &self,
        method: &MethodDescriptor,
        authorization: Option<&str>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut request = Request::new(stream::iter([Vec::new()]));
        if let Some(text) = authorization {
            request.metadata_mut().insert("authorization", text.parse().expect("a header"));
        }
        self.stream(method, request, None).await
    }

    /// A body of these bytes, whatever they are; `encoding` is `grpc-encoding`.
    pub async fn post(
        &self,
        path: &str,
        key: &str,
        encoding: &'static str,
        body: Vec<u8>,
    ) -> http::Response<Body> {
        let request = http::Request::post(path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-encoding", encoding)
            .header("authorization", format!("Bearer {key}"))
            .body(Body::new(Whole(Some(body.into()))))
            .expect("a request");
        let mut channel = self.channel.clone();
        futures::future::poll_fn(|cx| channel.poll_ready(cx)).await.expect("a connection");
        channel.call(request).await.expect("an answer")
    }

    async fn send(
        &self,
        method: &MethodDescriptor,
        key: Option<&str>,
        messages: Vec<Vec<u8>>,
        encoding: Option<CompressionEncoding>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut request = Request::new(stream::iter(messages));
        if let Some(key) = key {
            let bearer = format!("Bearer {key}").parse().expect("a header");
            request.metadata_mut().insert("authorization", bearer);
        }
        self.stream(method, request, encoding).await
    }

    /// A unary call is a stream of one message each way.
    async fn stream(
        &self,
        method: &MethodDescriptor,
        request: Request<impl Stream<Item = Vec<u8>> + Send + 'static>,
        encoding: Option<CompressionEncoding>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_encoding_message_size(64 << 20);
        if let Some(encoding) = encoding {
            grpc = grpc.send_compressed(encoding);
        }
        grpc.ready().await.expect("a connection");
        let path = crate::path_of(method).parse().expect("a path");
        let mut answers = grpc.streaming(request, path, Bytes).await?.into_inner();
        if method.is_server_streaming() && !method.is_client_streaming() {
            // A watch has no end; its first message says that it was taken.
            return tokio::time::timeout(WATCH, answers.message()).await.unwrap_or(Ok(None));
        }
        let mut last = None;
        let all = async {
            while let Some(answer) = answers.message().await? {
                last = Some(answer);
            }
            Ok(last)
        };
        // Whoever has said everything is answered to the end, also on a stream.
        tokio::time::timeout(PATIENCE, all).await.expect("an end of the answer")
    }
}

/// A body in one piece.
struct Whole(Option<bytes::Bytes>);

impl http_body::Body for Whole {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The status of an answer, from its headers or its trailers.
pub async fn status_of(answer: http::Response<Body>) -> Status {
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let mut body = answer.into_body();
    let mut next = async || {
        let frame = futures::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        tokio::time::timeout(PATIENCE, frame).await.expect("an end of the answer")
    };
    while let Some(frame) = next().await {
        if let Ok(trailers) = frame.expect("a frame").into_trailers() {
            return Status::from_header_map(&trailers).expect("a status");
        }
    }
    panic!("an answer without a status");
}

/// A codec of bytes.
#[derive(Clone, Copy)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Bytes
    }

    fn decoder(&mut self) -> Self {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(into, &item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; bytes::Buf::remaining(from)];
        bytes::Buf::copy_to_slice(from, &mut item);
        Ok(Some(item))
    }
}
