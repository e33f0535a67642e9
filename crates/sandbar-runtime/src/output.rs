//! One output stream of a command, from its pipe to the event channel.

use bytes::{BufMut, Bytes, BytesMut};
use rustix::io::Errno;
use tokio::{
    net::unix::pipe::Receiver,
    sync::mpsc::{Permit, Sender},
};

use crate::ExecEvent;

/// Limits the bytes of one event.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// Reads a pipe with back-pressure from the event channel, and discards output beyond a limit.
#[derive(Debug)]
pub(crate) struct OutputStream {
    pipe: Receiver,
    event: fn(Bytes) -> ExecEvent,
    buffer: BytesMut,
    /// Bytes left until the limit.
    left: u64,
    pub(crate) truncated: bool,
    pub(crate) open: bool,
}

impl OutputStream {
    pub(crate) fn new(pipe: Receiver, event: fn(Bytes) -> ExecEvent, limit: u64) -> Self {
        Self {
            pipe,
            event,
            buffer: BytesMut::new(),
            left: limit,
            truncated: false,
            open: true,
        }
    }

    /// Sends one chunk, or detects end of file. Cancel-safe: there is no await between a read and
    /// its send.
    pub(crate) async fn step(&mut self, events: &Sender<ExecEvent>) {
        self.forward(events, MAX_CHUNK_BYTES).await;
    }

    /// Sends what the pipe holds now, but not what is written later. Waits only for the event
    /// channel, never for the pipe: a process in the sandbox may open and drain the pipe meanwhile.
    pub(crate) async fn flush(&mut self, events: &Sender<ExecEvent>) {
        let mut held = rustix::io::ioctl_fionread(&self.pipe)
            .map_or(0, |held| usize::try_from(held).unwrap_or(usize::MAX));
        while self.open && held > 0 {
            let permit = if self.left > 0 {
                events.reserve().await.ok()
            } else {
                None
            };
            let Some(bytes) = self.read_now(held.min(MAX_CHUNK_BYTES)) else {
                return;
            };
            held -= bytes.len();
            self.deliver(permit, bytes);
        }
    }

    /// Reads at most `max` bytes and sends those within the limit. Returns how many were read.
    async fn forward(&mut self, events: &Sender<ExecEvent>, max: usize) -> usize {
        if self.pipe.readable().await.is_err() {
            self.open = false;
            return 0;
        }
        let permit = if self.left > 0 {
            events.reserve().await.ok()
        } else {
            None
        };
        let Some(bytes) = self.read(max) else {
            return 0;
        };
        let read = bytes.len();
        self.deliver(permit, bytes);
        read
    }

    /// Sends the bytes within the limit.
    fn deliver(&mut self, permit: Option<Permit<'_, ExecEvent>>, mut bytes: Bytes) {
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
    }

    /// Reads and discards until end of file, so that background jobs do not block or get SIGPIPE.
    pub(crate) async fn discard(&mut self) {
        while self.open {
            if self.pipe.readable().await.is_err() {
                return;
            }
            self.read(MAX_CHUNK_BYTES);
        }
    }

    /// Reads without consulting tokio's readiness, which may be stale. `None` if nothing was read.
    fn read_now(&mut self, max: usize) -> Option<Bytes> {
        self.buffer.resize(max, 0);
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.pipe, &mut self.buffer[..])) {
            Ok(read) => {
                self.open = read > 0;
                self.buffer.truncate(read);
            }
            Err(errno) => {
                self.open = errno == Errno::AGAIN;
                self.buffer.clear();
            }
        }
        (!self.buffer.is_empty()).then(|| self.buffer.split().freeze())
    }

    /// Reads if tokio considers the pipe readable. `None` if nothing was read.
    fn read(&mut self, max: usize) -> Option<Bytes> {
        self.buffer.reserve(max);
        match self.pipe.try_read_buf(&mut (&mut self.buffer).limit(max)) {
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn flush_returns_if_another_reader_drained_the_pipe() {
        let (mut other_reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[1; 1000]).unwrap();
        let ours = other_reader.try_clone().unwrap().into();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let mut stream = OutputStream::new(
            Receiver::from_owned_fd(ours).unwrap(),
            ExecEvent::Stdout,
            1 << 20,
        );
        let (events, mut taken) = mpsc::channel(1);
        events
            .send(ExecEvent::Stdout(Bytes::from_static(b"before")))
            .await
            .unwrap();
        // Has read the number of buffered bytes and waits for the event channel.
        let flushing = tokio::spawn(async move {
            stream.flush(&events).await;
            stream.open
        });
        tokio::task::yield_now().await;
        other_reader.read_exact(&mut [0; 1000]).unwrap();
        assert!(matches!(taken.recv().await, Some(ExecEvent::Stdout(_))));
        assert!(flushing.await.unwrap(), "the pipe is still open");
        assert!(taken.recv().await.is_none());
        drop(writer);
    }

    #[tokio::test]
    async fn flush_sends_data_before_tokio_reports_readiness() {
        let (ours, mut writer) = std::io::pipe().unwrap();
        let ours = ours.into();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let mut stream = OutputStream::new(
            Receiver::from_owned_fd(ours).unwrap(),
            ExecEvent::Stdout,
            40_000,
        );
        writer.write_all(&vec![1; 50_000]).unwrap();
        let (events, mut taken) = mpsc::channel(16);
        stream.flush(&events).await;
        drop(events);
        let mut bytes = 0;
        while let Some(ExecEvent::Stdout(chunk)) = taken.recv().await {
            bytes += chunk.len();
        }
        assert_eq!((bytes, stream.truncated, stream.open), (40_000, true, true));
    }
}
