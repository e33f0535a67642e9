//! One output stream on its way from the pipe to the reader.

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{net::unix::pipe::Receiver, sync::mpsc::Sender};

use crate::ExecEvent;

const CHUNK: usize = 16 * 1024;

/// Reads a pipe no faster than the events are taken, up to a limit; drops what comes beyond.
#[derive(Debug)]
pub(crate) struct OutputStream {
    pipe: Receiver,
    event: fn(Bytes) -> ExecEvent,
    buffer: BytesMut,
    /// Bytes that may still be passed on.
    left: u64,
    pub(crate) truncated: bool,
    pub(crate) open: bool,
}

impl OutputStream {
    pub(crate) fn new(pipe: Receiver, event: fn(Bytes) -> ExecEvent, limit: u64) -> Self {
        Self { pipe, event, buffer: BytesMut::new(), left: limit, truncated: false, open: true }
    }

    /// Passes on one chunk, or finds the end. Dropping the future loses nothing: a read is never parted from its send
    /// by a wait.
    pub(crate) async fn step(&mut self, events: &Sender<ExecEvent>) {
        self.pass_on(events, CHUNK).await;
    }

    /// Passes on what the pipe holds at this moment, and not what may be written while we read.
    pub(crate) async fn flush(&mut self, events: &Sender<ExecEvent>) {
        let mut held =
            rustix::io::ioctl_fionread(&self.pipe).map_or(0, |held| usize::try_from(held).unwrap_or(usize::MAX));
        while self.open && held > 0 {
            held -= self.pass_on(events, held.min(CHUNK)).await;
        }
    }

    /// Reads at most `most` bytes and passes on those the limit allows; returns how many were read.
    async fn pass_on(&mut self, events: &Sender<ExecEvent>, most: usize) -> usize {
        if self.pipe.readable().await.is_err() {
            self.open = false;
            return 0;
        }
        let permit = if self.left > 0 { events.reserve().await.ok() } else { None };
        let Some(mut bytes) = self.read(most) else { return 0 };
        let read = bytes.len();
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(read);
        match permit {
            Some(permit) => {
                self.truncated |= fits < read;
                self.left -= fits as u64;
                bytes.truncate(fits);
                permit.send((self.event)(bytes));
            }
            None => self.truncated = true,
        }
        read
    }

    /// Reads and drops everything until the last writer is gone, so that background jobs can go on writing.
    pub(crate) async fn discard(&mut self) {
        while self.open {
            if self.pipe.readable().await.is_err() {
                return;
            }
            self.read(CHUNK);
        }
    }

    /// `None` when nothing is there just now.
    fn read(&mut self, most: usize) -> Option<Bytes> {
        self.buffer.reserve(most);
        match self.pipe.try_read_buf(&mut (&mut self.buffer).limit(most)) {
            Ok(0) => {
                self.open = false;
                None
            }
            Ok(_) => Some(self.buffer.split().freeze()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.open = false;
                None
            }
        }
    }
}
