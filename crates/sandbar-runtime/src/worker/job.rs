//! A job, as the code that runs in the worker process sees it.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use crate::protocol::{Connection, send_frame};

/// Code of a job. It runs in a confined process of its own, which ends when it returns.
pub(crate) type RunJob = fn(Job);

/// Kinds of frames from a job to the host.
pub(super) const PART: u8 = 0;
pub(super) const END: u8 = 1;
pub(super) const NOT_CONFINED: u8 = 2;

/// A job: its request, its descriptors, and the connection for its answer.
#[derive(Debug)]
pub struct Job {
    /// Directories that may be read, as ordered.
    pub directories: Vec<OwnedFd>,
    /// Other descriptors, as ordered.
    pub descriptors: Vec<OwnedFd>,
    connection: Connection,
}

impl Job {
    pub(super) fn new(
        directories: Vec<OwnedFd>,
        descriptors: Vec<OwnedFd>,
        connection: Connection,
    ) -> Self {
        Self {
            directories,
            descriptors,
            connection,
        }
    }

    /// Waits for the next message of the host. The first one is the request. `None`: the host sends
    /// no more.
    pub fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.connection.wait()
    }

    /// Sends a part of the answer. Blocks while the host is slower. Fails when the host has given
    /// up the job.
    pub fn send(&self, part: &[u8]) -> io::Result<()> {
        send(self.connection.as_fd(), PART, part)
    }

    /// Returns a handle that sends parts of the answer, for code that outlives this borrow.
    pub fn sender(&self) -> io::Result<JobSender> {
        Ok(JobSender {
            socket: self.connection.as_fd().try_clone_to_owned()?,
        })
    }

    /// Sends the last part. An answer without it is incomplete.
    pub fn end(&self, last: &[u8]) -> io::Result<()> {
        send(self.connection.as_fd(), END, last)
    }

    /// Reports that the process could not be confined.
    pub(super) fn not_confined(&self, step: &str, error: &io::Error) -> io::Result<()> {
        let why = format!("{step}: {error}");
        send(self.connection.as_fd(), NOT_CONFINED, why.as_bytes())
    }
}

/// Sends parts of the answer of a [`Job`].
#[derive(Debug)]
pub struct JobSender {
    socket: OwnedFd,
}

impl JobSender {
    /// As [`Job::send`].
    pub fn send(&self, part: &[u8]) -> io::Result<()> {
        send(self.socket.as_fd(), PART, part)
    }
}

fn send(socket: BorrowedFd<'_>, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut body = Vec::with_capacity(content.len() + 1);
    body.push(kind);
    body.extend_from_slice(content);
    send_frame(socket, &body, &[])
}
