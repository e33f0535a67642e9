//! Host side of a connection into a sandbox.

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

use super::named_pipes::NamedPipes;

/// A connection to a port in a sandbox. Dropping it closes the connection.
///
/// Reading and writing goes through pipes that the host has created, so the sandbox cannot make the
/// host block.
#[derive(Debug)]
pub struct Dialed {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
    /// For named pipes only.
    pub(crate) liveness: Option<Liveness>,
}

/// Extra pipes by which each side of a connection detects that the other has closed its data pipe.
/// The data pipes do not show it, because the gofer may hold a read end.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// At end of file once init does not read any more.
    pub(crate) peer_reads: OwnedFd,
    /// Held open as long as the host reads.
    pub(crate) we_read: OwnedFd,
    /// Kept for the whole connection: a relocated box opens the pipes again by name.
    pub(crate) named: NamedPipes,
}

impl Dialed {
    /// Must be called inside a tokio runtime.
    pub fn into_stream(self) -> io::Result<DialedStream> {
        let Self {
            reader,
            writer,
            liveness,
        } = self;
        let (peer_reads, held) = match liveness {
            Some(Liveness {
                peer_reads,
                we_read,
                named,
            }) => (
                Some(Receiver::from_owned_fd(peer_reads)?),
                Some((we_read, named)),
            ),
            None => (None, None),
        };
        let writer = Some(Sender::from_owned_fd(writer)?);
        Ok(DialedStream {
            reader: Receiver::from_owned_fd(reader)?,
            writer,
            peer_reads,
            _held: held,
        })
    }
}

/// Byte stream of a [`Dialed`] connection. Shutting it down closes the sending direction only; the
/// server can still answer.
#[derive(Debug)]
pub struct DialedStream {
    reader: Receiver,
    writer: Option<Sender>,
    peer_reads: Option<Receiver>,
    _held: Option<(OwnedFd, NamedPipes)>,
}

impl DialedStream {
    /// Writes, and fails with `BrokenPipe` once init does not read any more. A pending write is
    /// then woken.
    fn write_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Sender>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut nothing = [0];
        if let Some(peer_reads) = &mut self.peer_reads
            && Pin::new(peer_reads)
                .poll_read(context, &mut ReadBuf::new(&mut nothing))
                .is_ready()
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
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(context, |writer, context| writer.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(context, |writer, context| {
            writer.poll_write_vectored(context, parts)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: a pipe has no buffer to flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer = None;
        Poll::Ready(Ok(()))
    }
}
