//! Tasks of one client connection.

use std::sync::{Arc, Mutex, MutexGuard};

use sandbar_core::MutexExt as _;
use tokio::{runtime::Handle, task::JoinSet};

/// Set of tasks. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

/// Aborts the tasks when dropped. [`Tasks`] cannot do this itself, because tasks hold clones of it.
#[derive(Debug)]
pub(super) struct TasksOwner(Tasks);

impl Tasks {
    pub(super) fn owner(&self) -> TasksOwner {
        TasksOwner(self.clone())
    }

    fn set(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock_unpoisoned()
    }

    /// Spawns a task; does nothing outside a runtime, as during shutdown.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut set = self.set();
        while set.try_join_next().is_some() {}
        set.spawn_on(task, &runtime);
    }

    /// Waits for the tasks that run now.
    pub(super) async fn finished(&self) {
        let mut running = std::mem::take(&mut *self.set());
        while running.join_next().await.is_some() {}
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(async move {
            task.await;
        });
    }
}

impl Drop for TasksOwner {
    fn drop(&mut self) {
        self.0.set().abort_all();
    }
}
