//! The tasks of one connection, which end with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{runtime::Handle, task::JoinSet};

/// Where tasks of a connection run.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

/// Ends the tasks when it goes. Tasks may hold [`Tasks`] themselves, so that those cannot.
#[derive(Debug)]
pub(super) struct TasksOwner(Tasks);

impl Tasks {
    pub(super) fn owner(&self) -> TasksOwner {
        TasksOwner(self.clone())
    }

    fn set(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task. Where nothing runs any more, nothing is started.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut set = self.set();
        while set.try_join_next().is_some() {}
        set.spawn_on(task, &runtime);
    }

    /// Waits for those that run now.
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
