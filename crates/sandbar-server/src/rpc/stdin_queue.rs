//! Stdin of a running program, buffered between the request stream and the program.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use sandbar_core::{Error, Result};

/// Bytes buffered for a slow program before requests are no longer read. Larger than the stdin
/// window of our client, so that its signals are read while the program does not read.
const MAX_QUEUED_BYTES: usize = 512 << 10;

/// Writer to the stdin of a program.
pub(crate) trait StdinSink: Clone + Send + Sync + 'static {
    fn write(&self, bytes: Bytes) -> impl Future<Output = Result<()>> + Send;
    fn close(&self);
}

/// Queue of bytes for the stdin of a program.
pub(super) struct StdinQueue<S> {
    /// `None` when the program was started without stdin.
    sink: Option<S>,
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    writing: Option<BoxFuture<'static, usize>>,
    /// Set when no more input follows: stdin is closed after the last byte.
    closing: bool,
    /// Bytes written since the last [`take_written`](Self::take_written).
    written: u64,
}

impl<S: StdinSink> StdinQueue<S> {
    pub(super) fn new(sink: Option<S>) -> Self {
        Self {
            sink,
            queue: VecDeque::new(),
            queued_bytes: 0,
            writing: None,
            closing: false,
            written: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: Bytes) -> Result<()> {
        if self.sink.is_none() {
            return Err(Error::invalid("stdin", "program was started without stdin")
                .with_hint("start it with `stdin`"));
        }
        if self.closing {
            return Err(Error::invalid("stdin", "stdin is already closed")
                .with_hint("send `close_stdin` last"));
        }
        self.queued_bytes += bytes.len();
        self.queue.push_back(bytes);
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
        self.close_when_empty();
    }

    fn close_when_empty(&self) {
        if let (true, false, Some(sink)) = (self.closing, self.has_work(), &self.sink) {
            sink.close();
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.queued_bytes < MAX_QUEUED_BYTES
    }

    pub(super) fn has_work(&self) -> bool {
        self.writing.is_some() || !self.queue.is_empty()
    }

    /// Returns the bytes written since the last call, which the caller gets as window update.
    pub(super) fn take_written(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.written)).filter(|written| *written > 0)
    }

    /// Writes the next chunk. Cancel-safe.
    pub(super) async fn write_next(&mut self) {
        if self.writing.is_none()
            && let (Some(sink), Some(bytes)) = (self.sink.clone(), self.queue.pop_front())
        {
            let length = bytes.len();
            // A write fails when the program no longer reads. The bytes are discarded, as with a
            // closed pipe.
            self.writing = Some(
                async move { sink.write(bytes).await }
                    .map(move |_| length)
                    .boxed(),
            );
        }
        if let Some(writing) = &mut self.writing {
            let length = writing.await;
            self.writing = None;
            self.queued_bytes -= length;
            self.written += length as u64;
            self.close_when_empty();
        }
    }
}
