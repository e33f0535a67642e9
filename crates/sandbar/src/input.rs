//! Our stdin, read on a thread of its own that stops when nobody wants it any longer.
//!
//! A read that waits for a key cannot be cancelled. The thread therefore waits for the key *or* the end of the wish to
//! read, and reads only what is there: what is typed later belongs to whoever uses the terminal next.

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

/// Largest piece read at once.
const PIECE: usize = 64 << 10;

/// Pieces that may wait for a command that is slow to read.
const QUEUE: usize = 4;

/// What comes in, piece by piece. Dropping it ends the reading.
#[derive(Debug)]
pub(crate) struct Input {
    pieces: mpsc::Receiver<Bytes>,
    /// The other end hangs up when this is dropped, and that is what the thread waits for beside the input.
    _wanted: OwnedFd,
}

impl Input {
    /// Starts to read our stdin.
    pub(crate) fn open() -> io::Result<Self> {
        Self::from(io::stdin())
    }

    fn from(source: impl AsFd + Send + 'static) -> io::Result<Self> {
        let (hang_up, wanted) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, pieces) = mpsc::channel(QUEUE);
        thread::Builder::new().name("input".into()).spawn(move || read(&source, &hang_up, &sender))?;
        Ok(Self { pieces, _wanted: wanted })
    }

    /// The next piece; `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        self.pieces.recv().await
    }
}

fn read(source: &impl AsFd, hang_up: &OwnedFd, pieces: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let mut ready = [PollFd::new(source, PollFlags::IN), PollFd::new(hang_up, PollFlags::empty())];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !ready[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        match rustix::io::read(source, &mut buffer) {
            // Somebody else has taken it, or a signal came first.
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if pieces.blocking_send(Bytes::copy_from_slice(&buffer[..length])).is_err() {
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
    async fn what_is_written_comes_in_and_then_the_end() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut input = Input::from(reader).unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"one").unwrap();
        assert_eq!(input.next().await.as_deref(), Some(&b"one"[..]));
        drop(writer);
        assert_eq!(input.next().await, None);
    }

    #[test]
    fn a_reader_nobody_wants_any_longer_lets_go_of_an_open_terminal_and_takes_no_key() {
        let pty = Pty::open(24, 80);
        let device = std::sync::Arc::new(pty.device().try_clone_to_owned().unwrap());
        let input = Input::from(std::sync::Arc::clone(&device)).unwrap();
        drop(input);
        eventually("the thread lets go", || std::sync::Arc::strong_count(&device) == 1);
        File::from(pty.controller().try_clone_to_owned().unwrap()).write_all(b"later\n").unwrap();
        let mut typed = [0; 6];
        File::from(pty.device().try_clone_to_owned().unwrap()).read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"later\n");
    }
}
