//! The host's handle on one running job.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, pidfd_send_signal},
};
use sandbar_core::{Error, ErrorCode, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::{Instant, timeout_at},
};

use super::job;

/// Limits one part of an answer.
const MAX_PART_BYTES: u32 = 16 << 20;

/// Time for the process of a job to exit after it was killed, which takes well below a millisecond.
/// Until then it may keep a file system busy.
const EXIT_TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Part of the answer of a job.
#[derive(Debug, PartialEq, Eq)]
pub enum JobPart {
    Part(Vec<u8>),
    /// The last part.
    End(Vec<u8>),
}

/// A running job. Dropping it kills the job and waits for its exit.
#[derive(Debug)]
pub struct RunningJob {
    process: OwnedFd,
    socket: UnixStream,
    deadline: Option<Instant>,
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        // Fails when the job has ended.
        if pidfd_send_signal(&self.process, Signal::KILL).is_ok() {
            let _ = poll(
                &mut [PollFd::new(&self.process, PollFlags::IN)],
                Some(&EXIT_TIMEOUT),
            );
        }
    }
}

impl RunningJob {
    pub(super) fn new(
        process: OwnedFd,
        socket: std::os::unix::net::UnixStream,
        time: Duration,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            process,
            socket: UnixStream::from_std(socket)?,
            deadline: Instant::now().checked_add(time),
        })
    }

    /// Sends a message to the job. The first one is its request.
    pub async fn send(&mut self, message: &[u8]) -> Result<()> {
        let length = u32::try_from(message.len())
            .map_err(|_| Error::internal("message to a worker is too long"))?;
        let deadline = self.deadline;
        let sent = async {
            self.socket.write_all(&length.to_le_bytes()).await?;
            self.socket.write_all(message).await
        };
        within(deadline, sent).await?.map_err(|_| died())
    }

    /// Returns the next part of the answer. `Timeout` when the job has exceeded its time, and
    /// `Unavailable` when it ended without an answer, as after exceeding its memory.
    pub async fn next(&mut self) -> Result<JobPart> {
        let deadline = self.deadline;
        let body = within(deadline, self.receive())
            .await?
            .map_err(|_| died())?;
        match body.split_first() {
            Some((&job::PART, part)) => Ok(JobPart::Part(part.to_vec())),
            Some((&job::END, last)) => Ok(JobPart::End(last.to_vec())),
            Some((&job::NOT_CONFINED, why)) => Err(Error::internal(format!(
                "worker could not be confined: {}",
                String::from_utf8_lossy(why)
            ))),
            _ => Err(Error::internal("worker sent a malformed frame")),
        }
    }

    async fn receive(&mut self) -> io::Result<Vec<u8>> {
        let length = self.socket.read_u32_le().await?;
        if length > MAX_PART_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length as usize];
        self.socket.read_exact(&mut body).await?;
        Ok(body)
    }
}

async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.map_err(|_| {
            Error::new(ErrorCode::Timeout, "operation exceeded its time limit")
                .with_hint("use a narrower path or pattern")
        }),
        None => Ok(work.await),
    }
}

fn died() -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "worker process ended before its answer: it exceeded its memory or crashed",
    )
    .with_hint("use a narrower path or pattern")
}
