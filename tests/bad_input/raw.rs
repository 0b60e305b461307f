//! A client that sends bytes.

use std::time::Duration;

use futures::stream;
use prost_reflect::MethodDescriptor;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};

/// Longest wait for the first answer of a stream; a stream that is fine may have none.
const STREAM: Duration = Duration::from_millis(500);

pub struct Raw {
    channel: Channel,
    bearer: tonic::metadata::MetadataValue<tonic::metadata::Ascii>,
}

impl Raw {
    pub async fn connect(address: &str, key: &str) -> Self {
        let channel = Endpoint::from_shared(address.to_owned()).expect("an address").connect_lazy();
        Self { channel, bearer: format!("Bearer {key}").parse().expect("a header") }
    }

    /// Sends the messages and answers the first message back; `None`: the stream said nothing.
    pub async fn call(
        &self,
        method: &MethodDescriptor,
        messages: Vec<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_encoding_message_size(64 << 20);
        grpc.ready().await.expect("a connection");
        let path =
            format!("/{}/{}", method.parent_service().full_name(), method.name()).parse().expect("a path");
        if !method.is_client_streaming() && !method.is_server_streaming() {
            let message = messages.into_iter().next_back().unwrap_or_default();
            let mut request = Request::new(message);
            request.metadata_mut().insert("authorization", self.bearer.clone());
            return grpc.unary(request, path, Bytes).await.map(|answer| Some(answer.into_inner()));
        }
        let mut request = Request::new(stream::iter(messages));
        request.metadata_mut().insert("authorization", self.bearer.clone());
        let mut answers = grpc.streaming(request, path, Bytes).await?.into_inner();
        let mut last = None;
        loop {
            match tokio::time::timeout(STREAM, answers.message()).await {
                Ok(Ok(Some(answer))) => last = Some(answer),
                Ok(Ok(None)) | Err(_) => return Ok(last),
                Ok(Err(status)) => return Err(status),
            }
            if !method.is_client_streaming() {
                return Ok(last);
            }
        }
    }
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
