//! Context of a tool call: file tree, command runner, limits and cancellation.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use sandbar_core::{
    Error, ErrorCode, ExecSpec, Resources, Result, ToolParams, ToolProgress, ToolResponse,
};
use sandbar_runtime::RunningCommand;
use sandbar_tree::SessionTree;
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

/// Runs the tools that walk trees and match patterns in a confined process, since a session
/// controls both. The process calls [`PreparedCall::run_walk`](crate::PreparedCall::run_walk).
pub trait WalkRunner: fmt::Debug + Send + Sync {
    /// Runs a tool to its end. Dropping the returned future ends the process.
    fn run<'a>(
        &'a self,
        tool: &'a str,
        params: &'a ToolParams,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolResponse>>;
}

/// Context of one tool call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    pub tree: SessionTree,
    pub runner: Arc<dyn CommandRunner>,
    /// Runner of walking tools. `None`: they run in this process, for trees that it trusts.
    pub walks: Option<Arc<dyn WalkRunner>>,
    /// Limits of commands the call starts.
    pub resources: Resources,
    /// Time limit of the call.
    pub time_limit: Duration,
    /// Progress of the tool. A slow receiver applies back-pressure to the tool; a dropped one does
    /// not.
    pub progress: mpsc::Sender<ToolProgress>,
    /// Cancelled when the last caller is gone.
    pub cancelled: CancellationToken,
    /// Held by calls that use the session's persistent shell, one after the other.
    pub shell: Arc<Mutex<()>>,
}

impl ToolContext {
    /// Returns the context for a tool in this process. The time limit starts now.
    pub(crate) fn host_side(&self) -> HostSide {
        let progress = self.progress.clone();
        let tell = move |item| {
            // A caller that does not read progress still gets the answer.
            let _ = progress.blocking_send(item);
        };
        HostSide {
            tree: self.tree.clone(),
            tell: Box::new(tell),
            cancelled: self.cancelled.clone(),
            deadline: Instant::now().checked_add(self.time_limit),
        }
    }

    /// Waits until no other call uses the session's persistent shell.
    pub(crate) async fn lock_shell(&self) -> Result<MutexGuard<'_, ()>> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(cancelled()),
            turn = tokio::time::timeout(self.time_limit, self.shell.lock()) => turn.map_err(|_| {
                Error::new(ErrorCode::Timeout, "persistent shell was in use by another call until the timeout")
                    .with_hint("wait for that call, or use `shell: fresh`")
            }),
        }
    }

    /// Returns the time limit of a command: the requested one, at most that of the call.
    pub(crate) fn wall_time(&self, asked: Option<Duration>) -> Duration {
        let limits = [asked, self.resources.wall_time];
        limits
            .into_iter()
            .flatten()
            .fold(self.time_limit, Duration::min)
    }
}

/// Context of a tool that runs in this process. Its methods block.
pub(crate) struct HostSide {
    pub(crate) tree: SessionTree,
    tell: Box<dyn Fn(ToolProgress) + Send>,
    cancelled: CancellationToken,
    deadline: Option<Instant>,
}

impl HostSide {
    /// Creates the context of a tool in a worker process, which is killed when the call is
    /// cancelled.
    pub(crate) fn in_worker(
        tree: SessionTree,
        time_limit: Duration,
        tell: Box<dyn Fn(ToolProgress) + Send>,
    ) -> Self {
        Self {
            tree,
            tell,
            cancelled: CancellationToken::new(),
            deadline: Instant::now().checked_add(time_limit),
        }
    }

    /// Fails if the call was cancelled or timed out. Tools call it between steps and before each
    /// change.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cancelled.is_cancelled() {
            return Err(cancelled());
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(
                Error::new(ErrorCode::Timeout, "tool exceeded its time limit")
                    .with_hint("use a narrower path or pattern"),
            );
        }
        Ok(())
    }

    /// Sends progress.
    pub(crate) fn tell(&self, content: &str) {
        (self.tell)(ToolProgress {
            content: content.to_owned(),
            is_error: false,
        });
    }
}

/// Error of a call that was cancelled because its last caller is gone.
pub(crate) fn cancelled() -> Error {
    Error::new(ErrorCode::Unavailable, "tool call was cancelled")
}
