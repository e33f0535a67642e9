//! Our stdin, read on a thread that stops when the reader is dropped.
//!
//! A blocking read of a terminal cannot be cancelled. The thread therefore polls for input *or* for
//! the drop, and reads only available bytes: later input is left to the next program at the
//! terminal.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    thread,
};

use bytes::Bytes;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use tokio::sync::mpsc;

/// Size of the read buffer.
const READ_BYTES: usize = 64 << 10;

/// Reads that may queue for a slow consumer.
const MAX_QUEUED_READS: usize = 4;

/// Reader of stdin. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Input {
    pieces: mpsc::Receiver<Bytes>,
    /// Write end of a pipe whose hang-up tells the thread to stop.
    _stop_on_drop: OwnedFd,
}

impl Input {
    /// Starts to read stdin.
    pub(crate) fn open() -> io::Result<Self> {
        Self::from(io::stdin())
    }

    fn from(source: impl AsFd + Send + 'static) -> io::Result<Self> {
        let (hang_up, stop_on_drop) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, pieces) = mpsc::channel(MAX_QUEUED_READS);
        thread::Builder::new()
            .name("input".into())
            .spawn(move || read(&source, &hang_up, &sender))?;
        Ok(Self {
            pieces,
            _stop_on_drop: stop_on_drop,
        })
    }

    /// Returns the next bytes; `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        self.pieces.recv().await
    }
}

fn read(source: &impl AsFd, hang_up: &OwnedFd, pieces: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let mut ready = [
            PollFd::new(source, PollFlags::IN),
            PollFd::new(hang_up, PollFlags::empty()),
        ];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !ready[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        match rustix::io::read(source, &mut buffer) {
            // Another process has read it, or a signal interrupted the read.
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if pieces
                    .blocking_send(Bytes::copy_from_slice(&buffer[..length]))
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
    };

    use sandbar_testing::{Pty, eventually};

    use super::*;

    #[tokio::test]
    async fn written_bytes_arrive_and_then_the_end() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut input = Input::from(reader).unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"one").unwrap();
        assert_eq!(input.next().await.as_deref(), Some(&b"one"[..]));
        drop(writer);
        assert_eq!(input.next().await, None);
    }

    #[test]
    fn dropped_reader_takes_no_key_from_the_terminal() {
        let pty = Pty::open(24, 80);
        let device = std::sync::Arc::new(pty.device().try_clone_to_owned().unwrap());
        let input = Input::from(std::sync::Arc::clone(&device)).unwrap();
        drop(input);
        eventually("the thread ends", || {
            std::sync::Arc::strong_count(&device) == 1
        });
        File::from(pty.controller().try_clone_to_owned().unwrap())
            .write_all(b"later\n")
            .unwrap();
        let mut typed = [0; 6];
        File::from(pty.device().try_clone_to_owned().unwrap())
            .read_exact(&mut typed)
            .unwrap();
        assert_eq!(&typed, b"later\n");
    }
}
