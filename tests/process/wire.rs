//! A peer that speaks HTTP/2 by hand, and badly.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;

/// What the server sent that a test asks about.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Headers,
    Data,
    GoAway,
    Other,
    /// The socket was closed or reset.
    End,
}

/// One connection.
pub struct Peer(TcpStream);

impl Peer {
    pub async fn connect(address: SocketAddr) -> Self {
        let mut peer = Self(TcpStream::connect(address).await.expect("connects"));
        peer.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("a preface");
        peer.send(SETTINGS, 0, 0, &[]).await;
        peer
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        // A server that has closed is what some tests wait for.
        let _ = self.0.write_all(&frame).await;
    }

    /// Begins a call and sends one message, but never its end. Every header is literal, so that no table is needed.
    pub async fn call(&mut self, stream: u32, path: &str, key: &str, message: &[u8]) {
        let bearer = format!("Bearer {key}");
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("authorization", &bearer),
        ];
        let mut block = Vec::new();
        for text in headers.iter().flat_map(|(name, value)| [Err(()), Ok(*name), Ok(*value)]) {
            match text {
                // Literal, not indexed, with a new name.
                Err(()) => block.push(0),
                Ok(text) => {
                    block.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).expect("short"));
                    block.extend(text.as_bytes());
                }
            }
        }
        self.send(HEADERS, END_HEADERS, stream, &block).await;
        let mut body = vec![0];
        body.extend(u32::try_from(message.len()).expect("short").to_be_bytes());
        body.extend(message);
        // END_STREAM, which has the value 1: a unary request is whole then.
        self.send(DATA, 1, stream, &body).await;
    }

    /// A sign of life that says nothing.
    pub async fn ping(&mut self) {
        self.send(PING, 0, 0, &[7; 8]).await;
    }

    /// The next frame. Settings and pings are never acknowledged.
    pub async fn hear(&mut self) -> Heard {
        let mut head = [0; 9];
        if self.0.read_exact(&mut head).await.is_err() {
            return Heard::End;
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        if self.0.read_exact(&mut payload).await.is_err() {
            return Heard::End;
        }
        match head[3] {
            HEADERS => Heard::Headers,
            DATA => Heard::Data,
            GOAWAY => Heard::GoAway,
            _ => Heard::Other,
        }
    }

    /// Reads on until this is heard.
    pub async fn until(&mut self, wanted: Heard) {
        loop {
            let heard = self.hear().await;
            if heard == wanted {
                return;
            }
            assert_ne!(heard, Heard::End, "waiting for {wanted:?}");
        }
    }
}
