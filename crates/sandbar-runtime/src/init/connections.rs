//! Connections from the host to ports in the box.
//!
//! Init relays bytes between the socket and two pipes to the host. The host gets no descriptor from
//! the box, only bytes, and the same scheme works for gVisor, where descriptors cannot be passed. A
//! connection ends when the host closes its pipes.

use std::{io, ops::Range};

use rustix::{
    event::PollFd,
    process::{Resource, getrlimit},
};

use super::{
    connect::{Attempt, Progress},
    relay::{Ends, Relay},
};

/// Limits the connections, regardless of the descriptor limit.
const MAX_CONNECTIONS: u64 = 4096;

/// Number of a connection and its errno for the host, 0 on success.
type Answer = (u64, i32);

#[derive(Debug)]
pub(super) struct Connections {
    list: Vec<Connection>,
    /// Answers that are not sent yet.
    answers: Vec<Answer>,
    max: usize,
    /// Buffer for one read.
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Connection {
    Connecting {
        number: u64,
        attempt: Attempt,
        ends: Ends,
    },
    Connected(Relay),
}

impl Connections {
    pub(super) fn new() -> Self {
        // Each takes up to five descriptors; the rest is for commands.
        let max = getrlimit(Resource::Nofile)
            .current
            .map_or(MAX_CONNECTIONS, |limit| (limit / 6).min(MAX_CONNECTIONS));
        Self {
            list: Vec::new(),
            answers: Vec::new(),
            max: usize::try_from(max).unwrap_or(usize::MAX),
            scratch: Vec::new(),
        }
    }

    /// Starts to connect. A later [`step`](Self::step) returns the answer.
    pub(super) fn begin(&mut self, number: u64, port: u16, ends: io::Result<Ends>) {
        match ends.and_then(|ends| self.try_begin(number, port, ends)) {
            Ok(connection) => self.list.push(connection),
            Err(error) => self
                .answers
                .push((number, error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    fn try_begin(&mut self, number: u64, port: u16, ends: Ends) -> io::Result<Connection> {
        if self.list.len() >= self.max {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if ends.is_abandoned() {
            // The host gave up while the box was frozen, so the server must not see a connection.
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        match Attempt::new(port).proceed()? {
            Progress::Connected(socket) => {
                self.answers.push((number, 0));
                Ok(Connection::Connected(Relay::new(socket, ends)))
            }
            Progress::Waiting(attempt) => Ok(Connection::Connecting {
                number,
                attempt,
                ends,
            }),
        }
    }

    /// Appends what the connections poll for. Returns the index range of each connection.
    pub(super) fn add_interests<'a>(&'a self, waiting: &mut Vec<PollFd<'a>>) -> Vec<Range<usize>> {
        self.list
            .iter()
            .map(|connection| {
                let start = waiting.len();
                match connection {
                    Connection::Connecting { attempt, ends, .. } => {
                        waiting.extend(attempt.interest());
                        waiting.extend(ends.host_stopped_reading());
                    }
                    Connection::Connected(relay) => waiting.extend(relay.interests()),
                }
                start..waiting.len()
            })
            .collect()
    }

    /// Advances the connections that are ready and removes those that have ended. Returns the
    /// answers to send.
    pub(super) fn step(&mut self, ready: &[bool]) -> Vec<Answer> {
        let mut answers = std::mem::take(&mut self.answers);
        if !ready.contains(&true) {
            return answers;
        }
        // Connections added since the poll are at the end and not ready.
        let mut ready = ready.iter().copied().chain(std::iter::repeat(false));
        let connections = std::mem::take(&mut self.list);
        for connection in connections {
            let kept = if ready.next() == Some(true) {
                connection.step(&mut self.scratch, &mut answers)
            } else {
                Some(connection)
            };
            self.list.extend(kept);
        }
        answers
    }
}

impl Connection {
    /// Returns `None` if the connection has ended.
    fn step(self, scratch: &mut Vec<u8>, answers: &mut Vec<Answer>) -> Option<Self> {
        match self {
            Self::Connected(mut relay) => relay.step(scratch).then_some(Self::Connected(relay)),
            Self::Connecting { number, ends, .. } if ends.is_abandoned() => {
                answers.push((number, libc::ECANCELED));
                None
            }
            Self::Connecting {
                number,
                attempt,
                ends,
            } => match attempt.proceed() {
                Ok(Progress::Waiting(attempt)) => Some(Self::Connecting {
                    number,
                    attempt,
                    ends,
                }),
                Ok(Progress::Connected(socket)) => {
                    answers.push((number, 0));
                    Some(Self::Connected(Relay::new(socket, ends)))
                }
                Err(error) => {
                    answers.push((number, error.raw_os_error().unwrap_or(libc::EIO)));
                    None
                }
            },
        }
    }
}
