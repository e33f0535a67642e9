//! Connections that can be closed with a TCP reset.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use sandbar_e2b::ResetOnClose;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use super::connections::Registration;

/// Stream over a TCP connection.
pub(crate) trait OverTcp: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn tcp(&self) -> &TcpStream;
}

impl OverTcp for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl OverTcp for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Connection that is closed with a TCP reset when `reset` asks for it. The peer of a response that
/// is delimited by the end of the connection then sees that it was truncated.
#[derive(Debug)]
pub(crate) struct Connection<S: OverTcp> {
    stream: S,
    reset: ResetOnClose,
    _registration: Arc<Registration>,
}

impl<S: OverTcp> Connection<S> {
    pub(crate) fn new(stream: S, reset: ResetOnClose, registration: Arc<Registration>) -> Self {
        Self {
            stream,
            reset,
            _registration: registration,
        }
    }
}

impl<S: OverTcp> Drop for Connection<S> {
    fn drop(&mut self) {
        if self.reset.is_requested()
            && let Err(error) = self.stream.tcp().set_zero_linger()
        {
            tracing::debug!(%error, "could not set SO_LINGER to reset a connection");
        }
    }
}

impl<S: OverTcp> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: OverTcp> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
