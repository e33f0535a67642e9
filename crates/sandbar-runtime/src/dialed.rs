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
    /// Where the pipes have names.
    pub(crate) lifelines: Option<Lifelines>,
}

/// What tells each side of pipes with names that the other one is gone. Somebody else may hold an end of those for
/// reading.
#[derive(Debug)]
pub(crate) struct Lifelines {
    /// At its end when nobody takes what we write.
    pub(crate) taking: OwnedFd,
    /// Held as long as we read.
    pub(crate) live: OwnedFd,
    /// Needed as long as the connection stands: a box that moves opens them again.
    pub(crate) named: NamedPipes,
}

impl Dialed {
    /// Must be called inside a tokio runtime.
    pub fn into_stream(self) -> io::Result<DialedStream> {
        let Self { reader, writer, lifelines } = self;
        let (taking, held) = match lifelines {
            Some(Lifelines { taking, live, named }) => (Some(Receiver::from_owned_fd(taking)?), Some((live, named))),
            None => (None, None),
        };
        let writer = Some(Sender::from_owned_fd(writer)?);
        Ok(DialedStream { reader: Receiver::from_owned_fd(reader)?, writer, taking, _held: held })
    }
}

/// What is written arrives at the server, what it sends is read. Shutting it down tells the server the end of what we
/// send, and it can still answer.
#[derive(Debug)]
pub struct DialedStream {
    reader: Receiver,
    writer: Option<Sender>,
    taking: Option<Receiver>,
    _held: Option<(OwnedFd, NamedPipes)>,
}

impl DialedStream {
    /// Also wakes who waits when nobody takes what is written any more.
    fn write_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Sender>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut nothing = [0];
        if let Some(taking) = &mut self.taking
            && Pin::new(taking).poll_read(context, &mut ReadBuf::new(&mut nothing)).is_ready()
        {
            self.writer = None;
        }
        match &mut self.writer {
            Some(writer) => write(Pin::new(writer), context),
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
        self.write_with(context, |writer, context| writer.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(context, |writer, context| writer.poll_write_vectored(context, parts))
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
