//! Accepted sockets: a bounded number, each of which can be cut.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::stream::{self, Stream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Open sockets of one listener; some 20 KiB each. Whoever comes later waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 16_384;
/// A peer that connects and says nothing for this long is gone.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
/// After a failed accept (out of descriptors, as a rule), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts for ever.
pub(super) fn incoming(
    listener: TcpListener,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Wire>> + Send + 'static {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    stream::unfold((listener, seats, cut), |(listener, seats, cut)| async move {
        let seat = seats.clone().acquire_owned().await.ok()?;
        let socket = accept(&listener).await;
        let wire = Wire::new(socket, &cut, seat);
        Some((Ok(wire), (listener, seats, cut)))
    })
}

async fn accept(listener: &TcpListener) -> TcpStream {
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
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A socket that fails when it is cut, or when its peer says nothing at all.
pub(super) struct Wire {
    socket: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    silence: Option<Pin<Box<Sleep>>>,
    _seat: OwnedSemaphorePermit,
}

impl Wire {
    fn new(socket: TcpStream, cut: &CancellationToken, seat: OwnedSemaphorePermit) -> Self {
        Self {
            socket,
            cut: Box::pin(cut.clone().cancelled_owned()),
            silence: Some(Box::pin(tokio::time::sleep(FIRST_BYTE_WITHIN))),
            _seat: seat,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
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

impl AsyncWrite for Wire {
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

impl Connected for Wire {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.socket.connect_info()
    }
}
