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

/// Init's ends of the pipes of a connection. None of them ever makes us wait.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    /// Held as long as we read `input`, where the host cannot tell otherwise.
    pub(super) taking: Option<OwnedFd>,
    /// At its end when the host does not read `output` any more, where we cannot tell otherwise.
    pub(super) live: Option<OwnedFd>,
}

impl Ends {
    pub(super) const fn passed(input: OwnedFd, output: OwnedFd) -> Self {
        Self { input, output, taking: None, live: None }
    }

    /// Reported when the host does not read any more.
    pub(super) fn end_of_reader(&self) -> impl Iterator<Item = PollFd<'_>> {
        end_of_reader(&self.output, self.live.as_ref())
    }

    /// Whether the host does not read any more.
    pub(super) fn is_forsaken(&self) -> bool {
        is_reported(self.end_of_reader())
    }
}

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Relay {
    socket: OwnedFd,
    /// From the host, and what is held as long as we read it; `None` when that direction has ended.
    input: Option<(OwnedFd, Option<OwnedFd>)>,
    /// To the host, and what tells that it reads; `None` when that direction has ended.
    output: Option<(OwnedFd, Option<OwnedFd>)>,
    /// Read and not written yet.
    inward: Vec<u8>,
    outward: Vec<u8>,
}

impl Relay {
    pub(super) fn new(socket: OwnedFd, ends: Ends) -> Self {
        let Ends { input, output, taking, live } = ends;
        let (input, output) = (Some((input, taking)), Some((output, live)));
        Self { socket, input, output, inward: Vec::new(), outward: Vec::new() }
    }

    /// What to wait for before [`step`](Self::step) can do something. Nothing is reported in vain: it either moves bytes or
    /// ends a direction.
    pub(super) fn interests(&self) -> Vec<PollFd<'_>> {
        let mut found = Vec::with_capacity(4);
        let mut socket = PollFlags::empty();
        if let Some((input, _)) = &self.input {
            if self.inward.is_empty() {
                found.push(PollFd::new(input, PollFlags::IN));
            } else {
                socket |= PollFlags::OUT;
            }
        }
        if let Some((output, live)) = &self.output {
            found.extend(end_of_reader(output, live.as_ref()));
            if self.outward.is_empty() {
                socket |= PollFlags::IN;
            } else {
                found.push(PollFd::new(output, PollFlags::OUT));
            }
        }
        if !socket.is_empty() {
            found.push(PollFd::new(&self.socket, socket));
        }
        found
    }

    /// Moves what can be moved now. `false` when both directions have ended.
    pub(super) fn step(&mut self, scratch: &mut Vec<u8>) -> bool {
        if let Some((input, _)) = &self.input
            && pump(input.as_fd(), self.socket.as_fd(), &mut self.inward, scratch) == Flow::Ended
        {
            let _ = shutdown(&self.socket, Shutdown::Write);
            self.input = None;
        }
        if let Some((output, live)) = &self.output
            && (is_reported(end_of_reader(output, live.as_ref()))
                || pump(self.socket.as_fd(), output.as_fd(), &mut self.outward, scratch) == Flow::Ended)
        {
            self.output = None;
        }
        self.input.is_some() || self.output.is_some()
    }
}

fn end_of_reader<'a>(output: &'a OwnedFd, live: Option<&'a OwnedFd>) -> impl Iterator<Item = PollFd<'a>> {
    // Without a flag, a pipe reports that its other end is gone. Nothing is ever written to the other one.
    let live = live.map(|live| PollFd::new(live, PollFlags::IN));
    [PollFd::new(output, PollFlags::empty())].into_iter().chain(live)
}

fn is_reported<'a>(interests: impl Iterator<Item = PollFd<'a>>) -> bool {
    let mut waiting: Vec<PollFd<'_>> = interests.collect();
    poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
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
