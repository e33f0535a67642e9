//! What a tool works with.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use sandbar_core::{Error, ErrorCode, ExecSpec, Resources, Result, ToolProgress};
use sandbar_runtime::RunningCommand;
use sandbar_storage::SessionTree;
use tokio::{
    sync::{Mutex, MutexGuard, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Starts commands in the sandbox of one session.
pub trait CommandRunner: fmt::Debug + Send + Sync {
    /// Starts a command, with the environment of the session below the command's own.
    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>>;
}

/// What one call works with.
#[derive(Clone, Debug)]
pub struct ToolContext {
    pub tree: SessionTree,
    pub runner: Arc<dyn CommandRunner>,
    /// Limits of commands the call starts.
    pub resources: Resources,
    /// The longest the call may take.
    pub time_limit: Duration,
    /// Takes what the tool says while it works. A receiver that is slow slows the tool; one that is gone does not.
    pub progress: mpsc::Sender<ToolProgress>,
    /// Cancelled when nobody waits for the answer any more.
    pub cancelled: CancellationToken,
    /// Held by calls that use the session's persistent shell, one after the other.
    pub shell: Arc<Mutex<()>>,
}

impl ToolContext {
    /// What a tool in this process works with, from now on.
    pub(crate) fn host_side(&self) -> HostSide {
        HostSide {
            tree: self.tree.clone(),
            progress: self.progress.clone(),
            cancelled: self.cancelled.clone(),
            deadline: Instant::now().checked_add(self.time_limit),
        }
    }

    /// Waits until no other call uses the session's persistent shell.
    pub(crate) async fn shell_turn(&self) -> Result<MutexGuard<'_, ()>> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(cancelled()),
            turn = tokio::time::timeout(self.time_limit, self.shell.lock()) => turn.map_err(|_| {
                Error::new(ErrorCode::Timeout, "another call has used the persistent shell all the time")
                    .with_hint("wait for it, or use a shell of its own")
            }),
        }
    }

    /// The longest a command may take: what was asked for, within the limits of the call.
    pub(crate) fn wall_time(&self, asked: Option<Duration>) -> Duration {
        let limits = [asked, self.resources.wall_time];
        limits.into_iter().flatten().fold(self.time_limit, Duration::min)
    }
}

/// What a tool in this process works with. Its calls block.
#[derive(Debug)]
pub(crate) struct HostSide {
    pub(crate) tree: SessionTree,
    progress: mpsc::Sender<ToolProgress>,
    cancelled: CancellationToken,
    deadline: Option<Instant>,
}

impl HostSide {
    /// Whether to go on. Asked between steps, and before anything is changed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cancelled.is_cancelled() {
            return Err(cancelled());
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(ErrorCode::Timeout, "the tool was stopped: its time was up")
                .with_hint("ask for less at once: a narrower path or pattern"));
        }
        Ok(())
    }

    /// Tells how far the tool is.
    pub(crate) fn tell(&self, content: &str) {
        // A caller that does not listen gets the answer all the same.
        let _ = self.progress.blocking_send(ToolProgress { content: content.to_owned(), is_error: false });
    }
}

/// What a call that nobody waits for comes to.
pub(crate) fn cancelled() -> Error {
    Error::new(ErrorCode::Unavailable, "the tool call was cancelled")
}
