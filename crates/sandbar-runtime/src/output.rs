//! One output stream on its way from the pipe to the reader.

use bytes::{BufMut, Bytes, BytesMut};
use rustix::io::Errno;
use tokio::{
    net::unix::pipe::Receiver,
    sync::mpsc::{Permit, Sender},
};

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

    /// Passes on what the pipe holds at this moment, and not what may be written while we read. It waits for the reader
    /// of the events only: a process in the sandbox may have opened the pipe and read it empty meanwhile.
    pub(crate) async fn flush(&mut self, events: &Sender<ExecEvent>) {
        let mut held =
            rustix::io::ioctl_fionread(&self.pipe).map_or(0, |held| usize::try_from(held).unwrap_or(usize::MAX));
        while self.open && held > 0 {
            let permit = if self.left > 0 { events.reserve().await.ok() } else { None };
            let Some(bytes) = self.read_now(held.min(CHUNK)) else { return };
            held -= bytes.len();
            self.deliver(permit, bytes);
        }
    }

    /// Reads at most `most` bytes and passes on those the limit allows; returns how many were read.
    async fn pass_on(&mut self, events: &Sender<ExecEvent>, most: usize) -> usize {
        if self.pipe.readable().await.is_err() {
            self.open = false;
            return 0;
        }
        let permit = if self.left > 0 { events.reserve().await.ok() } else { None };
        let Some(bytes) = self.read(most) else { return 0 };
        let read = bytes.len();
        self.deliver(permit, bytes);
        read
    }

    /// Sends as much as the limit allows.
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

    /// Reads and drops everything until the last writer is gone, so that background jobs can go on writing.
    pub(crate) async fn discard(&mut self) {
        while self.open {
            if self.pipe.readable().await.is_err() {
                return;
            }
            self.read(CHUNK);
        }
    }

    /// Reads what is there, without asking tokio, which may not have heard of it yet. `None` when nothing is.
    fn read_now(&mut self, most: usize) -> Option<Bytes> {
        self.buffer.resize(most, 0);
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn flush_ends_when_another_reader_took_the_output() {
        let (mut thief, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[1; 1000]).unwrap();
        let ours = thief.try_clone().unwrap().into();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let mut stream = OutputStream::new(Receiver::from_owned_fd(ours).unwrap(), ExecEvent::Stdout, 1 << 20);
        let (events, mut taken) = mpsc::channel(1);
        events.send(ExecEvent::Stdout(Bytes::from_static(b"before"))).await.unwrap();
        // It has counted what is there and waits for the reader of the events.
        let flushing = tokio::spawn(async move {
            stream.flush(&events).await;
            stream.open
        });
        tokio::task::yield_now().await;
        thief.read_exact(&mut [0; 1000]).unwrap();
        assert!(matches!(taken.recv().await, Some(ExecEvent::Stdout(_))));
        assert!(flushing.await.unwrap(), "the pipe is still open");
        assert!(taken.recv().await.is_none());
        drop(writer);
    }

    #[tokio::test]
    async fn flush_passes_on_what_tokio_has_not_heard_of() {
        let (ours, mut writer) = std::io::pipe().unwrap();
        let ours = ours.into();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let mut stream = OutputStream::new(Receiver::from_owned_fd(ours).unwrap(), ExecEvent::Stdout, 40_000);
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
