//! The tasks of a gate. None of them outlives it.

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Spawns tasks that end when the gate closes, and waits for them. Copies are of the same gate.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    closed: CancellationToken,
}

impl Tasks {
    pub(crate) fn new(runtime: Handle) -> Self {
        let tracker = TaskTracker::new();
        // It only counts; tasks may still be added.
        tracker.close();
        Self { runtime, tracker, closed: CancellationToken::new() }
    }

    /// Where sockets are to be registered.
    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_until(&self.closed, task);
    }

    /// A task that may end before the gate does.
    pub(crate) fn spawn_until(&self, end: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
        let task = end.clone().run_until_cancelled_owned(task);
        self.tracker.spawn_on(
            async move {
                task.await;
            },
            &self.runtime,
        );
    }

    /// A part of the gate that can be closed by itself.
    pub(crate) fn part(&self) -> CancellationToken {
        self.closed.child_token()
    }

    pub(crate) fn cancel(&self) {
        self.closed.cancel();
    }

    /// Returns when no task is left.
    pub(crate) async fn ended(&self) {
        self.tracker.wait().await;
    }
}
