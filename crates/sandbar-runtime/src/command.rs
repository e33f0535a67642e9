//! One command, seen from the host.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use sandbar_core::{Error, ErrorCode, ExecEvent, ExitStatus, Result, TerminalSize};
use tokio::sync::{mpsc, oneshot};

/// What can be done to a running command.
pub(crate) trait Control: Send + Sync {
    /// Sends a signal to its process group. `ProcessNotFound` after it has exited.
    fn signal(&self, signal: i32) -> Result<()>;

    /// Ends it with everything it started.
    fn kill(&self);

    /// `InvalidState` when it has no terminal.
    fn resize(&self, size: TerminalSize) -> Result<()>;
}

/// A command that was started. Dropping it before it has exited ends the command with everything it started.
pub struct RunningCommand {
    pub pid: u32,
    pub(crate) events: mpsc::Receiver<ExecEvent>,
    pub(crate) exit: Option<oneshot::Receiver<ExitStatus>>,
    pub(crate) stdin: Option<StdinHandle>,
    pub(crate) process: Arc<dyn Control>,
    pub(crate) held: Option<Box<dyn Send + Sync>>,
}

impl RunningCommand {
    /// The next event; `None` after `Exited`. Dropping the returned future loses nothing.
    pub async fn next_event(&mut self) -> Option<ExecEvent> {
        if let Some(event) = self.events.recv().await {
            return Some(event);
        }
        let exit = self.exit.as_mut()?;
        // The supervisor always tells, except when the tokio runtime itself is torn down below us.
        let status = exit.await.unwrap_or_default();
        self.exit = None;
        Some(ExecEvent::Exited(status))
    }

    /// A handle that feeds stdin; `None` when the command was started without one. The command sees the end of its
    /// input only after [`StdinHandle::close`].
    pub fn stdin(&self) -> Option<StdinHandle> {
        self.stdin.clone()
    }

    /// Keeps `something` until the command is dropped.
    pub fn hold(&mut self, something: impl Send + Sync + 'static) {
        self.held = Some(Box::new(something));
    }

    /// Sends a signal to the command's process group. `ProcessNotFound` after it has exited.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.process.signal(signal)
    }

    /// Ends the command with everything it started. Its exit is still told.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Changes the size of its terminal; the command is told with SIGWINCH. `InvalidState` when it has none.
    pub fn resize(&self, size: TerminalSize) -> Result<()> {
        self.process.resize(size)
    }
}

impl fmt::Debug for RunningCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCommand").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Feeds a command's stdin. Clones feed the same pipe.
#[derive(Clone, Debug)]
pub struct StdinHandle {
    sender: Arc<Mutex<Option<mpsc::Sender<Bytes>>>>,
}

impl StdinHandle {
    /// The handle, and the end the supervisor reads from.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(4);
        (Self { sender: Arc::new(Mutex::new(Some(sender))) }, receiver)
    }

    /// Hands bytes to the command; waits while it is slow to read. `InvalidState` when it reads no more.
    pub async fn write(&self, bytes: Bytes) -> Result<()> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let closed = || Error::new(ErrorCode::InvalidState, "the command's stdin is closed");
        sender.ok_or_else(closed)?.send(bytes).await.map_err(|_| closed())
    }

    /// Ends the input: the command reads what was written, then end of file.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
