//! Host side of the worker server.

use std::{
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use sandbar_core::{Error, ErrorCode, MutexExt as _, Result};

use super::{
    order::{JobOrder, OrderAnswer, WireOrder},
    running::RunningJob,
};
use crate::{protocol::Connection, role};

/// Starts jobs. The worker server starts with the first one, and again after it has died.
#[derive(Debug, Default)]
pub struct Workers {
    /// `None`: this program, or the test binary beside it.
    program: Option<PathBuf>,
    server: Mutex<Option<Server>>,
}

impl Workers {
    /// Takes another program that calls [`run_worker_role`](crate::run_worker_role).
    pub fn served_by(program: PathBuf) -> Self {
        Self {
            program: Some(program),
            server: Mutex::default(),
        }
    }

    /// Returns the process id of the worker server, if it was started.
    pub fn server(&self) -> Option<u32> {
        let server = self.server.lock_unpoisoned();
        server.as_ref().map(|server| server.process.id())
    }

    /// Starts a job. Blocks for about a millisecond; must be called inside a tokio runtime.
    pub fn start(&self, order: &JobOrder<'_>) -> Result<RunningJob> {
        let mut server = self.server.lock_unpoisoned();
        let started = match server.as_mut().map(|running| running.order(order)) {
            // A server that has died is replaced once.
            None | Some(Err(Refusal::ServerDied)) => {
                *server = None;
                let running = server.insert(self.start_server().map_err(no_server)?);
                running.order(order)
            }
            Some(answer) => answer,
        };
        started.map_err(|refusal| match refusal {
            Refusal::ServerDied => no_server(io::ErrorKind::BrokenPipe.into()),
            Refusal::Failed(error) => no_server(error),
        })
    }

    fn start_server(&self) -> io::Result<Server> {
        match &self.program {
            Some(program) => Server::start(program),
            None => Server::start(&role::worker_program()?),
        }
    }
}

fn no_server(error: io::Error) -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "worker process could not be started",
    )
    .with_source(error)
}

enum Refusal {
    ServerDied,
    Failed(io::Error),
}

#[derive(Debug)]
struct Server {
    /// `None` while it is dropped.
    connection: Option<Connection>,
    process: Child,
}

impl Server {
    fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "this module owns the worker server"
        )]
        let process = Command::new(program)
            .arg0(role::WORKER)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            connection: Some(Connection::new(ours.into())),
            process,
        })
    }

    fn order(&mut self, order: &JobOrder<'_>) -> Result<RunningJob, Refusal> {
        let connection = self.connection.as_mut().ok_or(Refusal::ServerDied)?;
        let (ours, theirs) = UnixStream::pair().map_err(Refusal::Failed)?;
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        descriptors.extend(&order.directories);
        descriptors.extend(&order.descriptors);
        connection
            .send(&WireOrder::of(order).encode(), &descriptors)
            .map_err(|_| Refusal::ServerDied)?;
        drop(theirs);
        let answer = connection
            .wait()
            .ok()
            .flatten()
            .ok_or(Refusal::ServerDied)?;
        match OrderAnswer::decode(&answer).map_err(Refusal::Failed)? {
            OrderAnswer::Started => {
                let process = connection.descriptor().map_err(Refusal::Failed)?;
                RunningJob::new(process, ours, order.time).map_err(Refusal::Failed)
            }
            OrderAnswer::Failed { errno } => {
                Err(Refusal::Failed(io::Error::from_raw_os_error(errno)))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends when its socket is closed.
        self.connection = None;
        let _ = self.process.wait();
    }
}
