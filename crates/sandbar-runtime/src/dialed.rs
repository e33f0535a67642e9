//! A connection into a sandbox, seen from the host.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::unix::pipe::{Receiver, Sender},
};

use crate::boxed::NamedPipes;

/// A connection to a port in a sandbox. Dropping it closes the connection.
///
/// Both ends are pipes the host made, so that nothing the sandbox does can make the host wait.
#[derive(Debug)]
pub struct Dialed {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
    /// Where the pipes have names, these are needed as long as the connection stands: a box that moves opens them again.
    pub(crate) named: Option<NamedPipes>,
}

impl Dialed {
    /// Must be called inside a tokio runtime.
    pub fn into_stream(self) -> io::Result<DialedStream> {
        let Self { reader, writer, named } = self;
        Ok(DialedStream {
            reader: Receiver::from_owned_fd(reader)?,
            writer: Some(Sender::from_owned_fd(writer)?),
            _named: named,
        })
    }
}

/// What is written arrives at the server, what it sends is read. Shutting it down tells the server the end of what we
/// send, and it can still answer.
#[derive(Debug)]
pub struct DialedStream {
    reader: Receiver,
    writer: Option<Sender>,
    _named: Option<NamedPipes>,
}

impl DialedStream {
    fn write_with(
        &mut self,
        write: impl FnOnce(Pin<&mut Sender>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &mut self.writer {
            Some(writer) => write(Pin::new(writer)),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

impl AsyncRead for DialedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

impl AsyncWrite for DialedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write_with(|writer| writer.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(|writer| writer.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A pipe keeps nothing back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer = None;
        Poll::Ready(Ok(()))
    }
}
