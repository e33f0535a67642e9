//! Tasks of a session's listeners. None of them outlives the listeners.

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Spawns tasks, cancels them when the listeners close, and waits for them. Clones share the tasks.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    closed: CancellationToken,
}

impl Tasks {
    pub(crate) fn new(runtime: Handle) -> Self {
        let tracker = TaskTracker::new();
        // A closed tracker still accepts tasks; `wait` returns only on a closed one.
        tracker.close();
        Self {
            runtime,
            tracker,
            closed: CancellationToken::new(),
        }
    }

    /// Returns the runtime to register sockets with.
    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_until(&self.closed, task);
    }

    /// Spawns a task that is cancelled with `end`, before the listeners close.
    pub(crate) fn spawn_until(
        &self,
        end: &CancellationToken,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = end.clone().run_until_cancelled_owned(task);
        self.tracker.spawn_on(
            async move {
                task.await;
            },
            &self.runtime,
        );
    }

    /// Returns a token for tasks that can be cancelled separately.
    pub(crate) fn part(&self) -> CancellationToken {
        self.closed.child_token()
    }

    pub(crate) fn cancel(&self) {
        self.closed.cancel();
    }

    /// Waits until every task has ended.
    pub(crate) async fn ended(&self) {
        self.tracker.wait().await;
    }
}
