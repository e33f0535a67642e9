//! Connections that take turns.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a connection writes before other tasks run.
const MAX_BYTES_PER_TURN: usize = 64 * 1024;

/// Stream that yields to other tasks after it has written [`MAX_BYTES_PER_TURN`].
///
/// Responses are encoded in the task of their connection. Tokio's budget counts operations, not
/// bytes: a task may write 128 chunks in one turn, which takes a hundred milliseconds where chunks
/// are encoded. A hundred such connections would delay every other call by seconds.
#[derive(Debug)]
pub(super) struct FairWrites<S> {
    stream: S,
    written: usize,
}

impl<S> FairWrites<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, written: 0 }
    }

    /// Is pending once after the bytes of a turn, and wakes the task again.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.written < MAX_BYTES_PER_TURN {
            return Poll::Ready(());
        }
        self.written = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FairWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FairWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(context));
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.written += count;
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(context));
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces))?;
        self.written += count;
        Poll::Ready(Ok(count))
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn writer_yields_after_the_bytes_of_a_turn() {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut stream = FairWrites::new(tokio::io::sink());
        let chunk = [0; MAX_BYTES_PER_TURN];
        for _ in 0..3 {
            let mut write = std::pin::pin!(stream.write(&chunk));
            let first = write.as_mut().poll(&mut context);
            assert!(matches!(first, Poll::Ready(Ok(MAX_BYTES_PER_TURN))));
            let mut write = std::pin::pin!(stream.write(&chunk[..1]));
            assert!(write.as_mut().poll(&mut context).is_pending());
            assert!(matches!(write.poll(&mut context), Poll::Ready(Ok(1))));
            stream.written = 0;
        }
    }
}
