//! Connections of the host's to ports in the box: those that are being made, and those that stand.
//!
//! The host gets no socket, and init needs no further process: two pipes lead to the host, and init moves bytes between
//! them and the socket. So nothing of the box ever comes to the host but bytes, and it is the same where descriptors cannot
//! be passed. A connection ends by itself when the host lets go of its pipes.

use std::{io, ops::Range};

use rustix::{
    event::PollFd,
    process::{Resource, getrlimit},
};

use super::{
    connect::{Attempt, Progress},
    relay::{Ends, Relay},
};

/// More at once are refused, however many descriptors init may have.
const MOST: u64 = 4096;

/// Told to the host: the number of a connection, and why it does not stand; 0 when it does.
type Answer = (u64, i32);

#[derive(Debug)]
pub(super) struct Connections {
    list: Vec<Connection>,
    /// Of those that could not be begun.
    answers: Vec<Answer>,
    most: usize,
    /// Bytes on their way through.
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Connection {
    Beginning { number: u64, attempt: Attempt, ends: Ends },
    Standing(Relay),
}

impl Connections {
    pub(super) fn new() -> Self {
        // Each takes up to five descriptors, and commands need some too.
        let most = getrlimit(Resource::Nofile).current.map_or(MOST, |limit| (limit / 6).min(MOST));
        Self {
            list: Vec::new(),
            answers: Vec::new(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
            scratch: Vec::new(),
        }
    }

    /// Begins to connect. The answer comes with a later [`step`](Self::step).
    pub(super) fn begin(&mut self, number: u64, port: u16, ends: io::Result<Ends>) {
        match ends.and_then(|ends| self.try_begin(number, port, ends)) {
            Ok(connection) => self.list.push(connection),
            Err(error) => self.answers.push((number, error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    fn try_begin(&mut self, number: u64, port: u16, ends: Ends) -> io::Result<Connection> {
        if self.list.len() >= self.most {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if ends.is_forsaken() {
            // The host has given up while we were frozen: whoever listens need not be bothered.
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        match Attempt::new(port).proceed()? {
            Progress::Connected(socket) => {
                self.answers.push((number, 0));
                Ok(Connection::Standing(Relay::new(socket, ends)))
            }
            Progress::Waiting(attempt) => Ok(Connection::Beginning { number, attempt, ends }),
        }
    }

    /// Adds what the connections wait for, and returns where that is, connection by connection.
    pub(super) fn join<'a>(&'a self, waiting: &mut Vec<PollFd<'a>>) -> Vec<Range<usize>> {
        self.list
            .iter()
            .map(|connection| {
                let from = waiting.len();
                match connection {
                    Connection::Beginning { attempt, ends, .. } => {
                        waiting.extend(attempt.interest());
                        waiting.extend(ends.end_of_reader());
                    }
                    Connection::Standing(relay) => waiting.extend(relay.interests()),
                }
                from..waiting.len()
            })
            .collect()
    }

    /// Moves on those that are ready, and forgets those that have ended. Returns the answers there are meanwhile.
    pub(super) fn step(&mut self, ready: &[bool]) -> Vec<Answer> {
        let mut answers = std::mem::take(&mut self.answers);
        if !ready.contains(&true) {
            return answers;
        }
        // Those that have begun since are at the end, and not ready.
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
    /// `None` when it has ended.
    fn step(self, scratch: &mut Vec<u8>, answers: &mut Vec<Answer>) -> Option<Self> {
        match self {
            Self::Standing(mut relay) => relay.step(scratch).then_some(Self::Standing(relay)),
            Self::Beginning { number, ends, .. } if ends.is_forsaken() => {
                answers.push((number, libc::ECANCELED));
                None
            }
            Self::Beginning { number, attempt, ends } => match attempt.proceed() {
                Ok(Progress::Waiting(attempt)) => Some(Self::Beginning { number, attempt, ends }),
                Ok(Progress::Connected(socket)) => {
                    answers.push((number, 0));
                    Some(Self::Standing(Relay::new(socket, ends)))
                }
                Err(error) => {
                    answers.push((number, error.raw_os_error().unwrap_or(libc::EIO)));
                    None
                }
            },
        }
    }
}
