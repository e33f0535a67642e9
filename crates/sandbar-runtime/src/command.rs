//! The host's handle on one command.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use sandbar_core::{Error, ErrorCode, ExecEvent, ExitStatus, MutexExt as _, Result, TerminalSize};
use tokio::sync::{mpsc, oneshot};

/// Control operations on a running command.
pub(crate) trait Control: Send + Sync {
    /// Sends a signal to its process group. `ProcessNotFound` after it has exited.
    fn signal(&self, signal: i32) -> Result<()>;

    /// Kills it with all its descendants.
    fn kill(&self);

    /// Changes the size of its terminal. `InvalidState` if it has none.
    fn resize(&self, size: TerminalSize) -> Result<()>;
}

/// A started command. Dropping it before its exit kills the command with all its descendants.
pub struct RunningCommand {
    pub pid: u32,
    pub(crate) events: mpsc::Receiver<ExecEvent>,
    pub(crate) exit: Option<oneshot::Receiver<ExitStatus>>,
    pub(crate) stdin: Option<StdinHandle>,
    pub(crate) process: Arc<dyn Control>,
    pub(crate) held: Option<Box<dyn Send + Sync>>,
}

impl RunningCommand {
    /// Returns the next event, or `None` after `Exited`. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<ExecEvent> {
        if let Some(event) = self.events.recv().await {
            return Some(event);
        }
        let exit = self.exit.as_mut()?;
        // Fails only if the tokio runtime shuts down.
        let status = exit.await.unwrap_or_default();
        self.exit = None;
        Some(ExecEvent::Exited(status))
    }

    /// Returns a handle that writes to stdin, or `None` if the command was started without stdin.
    /// The command reads end of file only after [`StdinHandle::close`].
    pub fn stdin(&self) -> Option<StdinHandle> {
        self.stdin.clone()
    }

    /// Keeps a value alive until the command is dropped.
    pub fn hold(&mut self, something: impl Send + Sync + 'static) {
        self.held = Some(Box::new(something));
    }

    /// Sends a signal to the command's process group. `ProcessNotFound` after it has exited.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.process.signal(signal)
    }

    /// Kills the command with all its descendants. Its exit is still reported.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Changes the size of its terminal, which sends SIGWINCH. `InvalidState` if it has none.
    pub fn resize(&self, size: TerminalSize) -> Result<()> {
        self.process.resize(size)
    }
}

impl fmt::Debug for RunningCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCommand")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// Writes to a command's stdin. Clones write to the same pipe.
#[derive(Clone, Debug)]
pub struct StdinHandle {
    sender: Arc<Mutex<Option<mpsc::Sender<Bytes>>>>,
}

impl StdinHandle {
    /// Returns the handle, and the receiver for the supervisor.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(4);
        (
            Self {
                sender: Arc::new(Mutex::new(Some(sender))),
            },
            receiver,
        )
    }

    /// Writes bytes, with back-pressure from the command. `InvalidState` if its stdin is closed.
    pub async fn write(&self, bytes: Bytes) -> Result<()> {
        let sender = self.sender.lock_unpoisoned().clone();
        let closed = || Error::new(ErrorCode::InvalidState, "stdin of the command is closed");
        sender
            .ok_or_else(closed)?
            .send(bytes)
            .await
            .map_err(|_| closed())
    }

    /// Closes stdin: the command reads what was written, then end of file.
    pub fn close(&self) {
        self.sender.lock_unpoisoned().take();
    }
}
