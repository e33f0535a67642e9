//! Moving bytes between a socket in the box and the pipes to the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read, write},
    net::{Shutdown, shutdown},
};

const CHUNK: usize = 64 * 1024;
/// So many at a time, so that one connection does not hold up the others and the commands.
const CHUNKS_A_TURN: usize = 4;

/// A connection that stands. None of its descriptors ever makes us wait.
#[derive(Debug)]
pub(super) struct Relay {
    socket: OwnedFd,
    /// From the host; `None` when that direction has ended.
    input: Option<OwnedFd>,
    /// To the host; `None` when that direction has ended.
    output: Option<OwnedFd>,
    /// Read and not written yet.
    inward: Vec<u8>,
    outward: Vec<u8>,
}

impl Relay {
    pub(super) fn new(socket: OwnedFd, [input, output]: [OwnedFd; 2]) -> Self {
        Self { socket, input: Some(input), output: Some(output), inward: Vec::new(), outward: Vec::new() }
    }

    /// What to wait for before [`step`](Self::step) can do something. Nothing is waited for in vain: what is reported
    /// either moves bytes or ends a direction.
    pub(super) fn interests(&self) -> Vec<PollFd<'_>> {
        let mut found = Vec::with_capacity(3);
        let mut socket = PollFlags::empty();
        if let Some(input) = &self.input {
            if self.inward.is_empty() {
                found.push(PollFd::new(input, PollFlags::IN));
            } else {
                socket |= PollFlags::OUT;
            }
        }
        if let Some(output) = &self.output {
            // Without a flag it tells that nobody reads any more.
            let flags = if self.outward.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            found.push(PollFd::new(output, flags));
            if self.outward.is_empty() {
                socket |= PollFlags::IN;
            }
        }
        if !socket.is_empty() {
            found.push(PollFd::new(&self.socket, socket));
        }
        found
    }

    /// Moves what can be moved now. `false` when both directions have ended.
    pub(super) fn step(&mut self, scratch: &mut Vec<u8>) -> bool {
        if let Some(input) = &self.input
            && pump(input.as_fd(), self.socket.as_fd(), &mut self.inward, scratch) == Flow::Ended
        {
            let _ = shutdown(&self.socket, Shutdown::Write);
            self.input = None;
        }
        if let Some(output) = &self.output
            && (nobody_reads(output)
                || pump(self.socket.as_fd(), output.as_fd(), &mut self.outward, scratch) == Flow::Ended)
        {
            self.output = None;
        }
        self.input.is_some() || self.output.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    GoesOn,
    /// There is no more, or nobody who takes it.
    Ended,
}

fn pump(from: BorrowedFd<'_>, to: BorrowedFd<'_>, kept: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Flow {
    if !kept.is_empty() {
        match drain(to, kept) {
            Ok(written) => drop(kept.drain(..written)),
            Err(_) => return Flow::Ended,
        }
    }
    scratch.resize(CHUNK, 0);
    for _ in 0..CHUNKS_A_TURN {
        if !kept.is_empty() {
            break;
        }
        match read(from, &mut scratch[..]) {
            Ok(0) => return Flow::Ended,
            Ok(count) => match drain(to, &scratch[..count]) {
                Ok(written) => kept.extend_from_slice(&scratch[written..count]),
                Err(_) => return Flow::Ended,
            },
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(_) => return Flow::Ended,
        }
    }
    Flow::GoesOn
}

/// Writes as much as is taken now.
fn drain(to: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match write(to, &bytes[written..]) {
            Ok(count) => written += count,
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}

/// Whether the other end of a pipe we write to is gone.
pub(super) fn nobody_reads(pipe: &OwnedFd) -> bool {
    let mut waiting = [PollFd::new(pipe, PollFlags::empty())];
    poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}
