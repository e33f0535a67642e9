//! Relay between a socket in the box and the pipes to the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read, write},
    net::{Shutdown, shutdown},
};

const CHUNK_BYTES: usize = 64 * 1024;
/// Limits the chunks moved in one step, so that one connection does not delay others and commands.
const MAX_CHUNKS_PER_STEP: usize = 4;

/// Init's ends of the pipes of a connection. All are non-blocking.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    /// Named pipes only: held open as long as init reads `input`.
    pub(super) we_read: Option<OwnedFd>,
    /// Named pipes only: at end of file once the host does not read `output` any more.
    pub(super) host_reads: Option<OwnedFd>,
}

impl Ends {
    pub(super) const fn passed(input: OwnedFd, output: OwnedFd) -> Self {
        Self {
            input,
            output,
            we_read: None,
            host_reads: None,
        }
    }

    /// Returns what to poll for to notice that the host has stopped reading.
    pub(super) fn host_stopped_reading(&self) -> impl Iterator<Item = PollFd<'_>> {
        host_stopped_reading(&self.output, self.host_reads.as_ref())
    }

    /// Returns whether the host has stopped reading.
    pub(super) fn is_abandoned(&self) -> bool {
        is_reported(self.host_stopped_reading())
    }
}

/// An established connection.
#[derive(Debug)]
pub(super) struct Relay {
    socket: OwnedFd,
    /// [`Ends::input`] and [`Ends::we_read`]. `None` when this direction has ended.
    input: Option<(OwnedFd, Option<OwnedFd>)>,
    /// [`Ends::output`] and [`Ends::host_reads`]. `None` when this direction has ended.
    output: Option<(OwnedFd, Option<OwnedFd>)>,
    /// Bytes read from the host and not written yet.
    inward: Vec<u8>,
    /// Bytes read from the socket and not written yet.
    outward: Vec<u8>,
}

impl Relay {
    pub(super) fn new(socket: OwnedFd, ends: Ends) -> Self {
        let Ends {
            input,
            output,
            we_read,
            host_reads,
        } = ends;
        let (input, output) = (Some((input, we_read)), Some((output, host_reads)));
        Self {
            socket,
            input,
            output,
            inward: Vec::new(),
            outward: Vec::new(),
        }
    }

    /// Returns what to poll for before the next [`step`](Self::step). Each readiness lets the step
    /// move bytes or end a direction, so the loop never spins.
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
        if let Some((output, host_reads)) = &self.output {
            found.extend(host_stopped_reading(output, host_reads.as_ref()));
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

    /// Moves bytes without blocking. Returns `false` when both directions have ended.
    pub(super) fn step(&mut self, scratch: &mut Vec<u8>) -> bool {
        if let Some((input, _)) = &self.input
            && pump(
                input.as_fd(),
                self.socket.as_fd(),
                &mut self.inward,
                scratch,
            ) == Flow::Ended
        {
            let _ = shutdown(&self.socket, Shutdown::Write);
            self.input = None;
        }
        if let Some((output, host_reads)) = &self.output
            && (is_reported(host_stopped_reading(output, host_reads.as_ref()))
                || pump(
                    self.socket.as_fd(),
                    output.as_fd(),
                    &mut self.outward,
                    scratch,
                ) == Flow::Ended)
        {
            self.output = None;
        }
        self.input.is_some() || self.output.is_some()
    }
}

fn host_stopped_reading<'a>(
    output: &'a OwnedFd,
    host_reads: Option<&'a OwnedFd>,
) -> impl Iterator<Item = PollFd<'a>> {
    // Polled without flags, a pipe reports only the loss of its reader. `host_reads` never carries
    // data, so it becomes readable only at end of file.
    let host_reads = host_reads.map(|pipe| PollFd::new(pipe, PollFlags::IN));
    [PollFd::new(output, PollFlags::empty())]
        .into_iter()
        .chain(host_reads)
}

fn is_reported<'a>(interests: impl Iterator<Item = PollFd<'a>>) -> bool {
    let mut waiting: Vec<PollFd<'_>> = interests.collect();
    poll(
        &mut waiting,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .is_ok_and(|count| count > 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continues,
    /// End of file, or the receiver is closed.
    Ended,
}

fn pump(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    kept: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Flow {
    if !kept.is_empty() {
        match drain(to, kept) {
            Ok(written) => drop(kept.drain(..written)),
            Err(_) => return Flow::Ended,
        }
    }
    scratch.resize(CHUNK_BYTES, 0);
    for _ in 0..MAX_CHUNKS_PER_STEP {
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
    Flow::Continues
}

/// Writes as much as possible without blocking.
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
