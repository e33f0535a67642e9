//! The calls of one session that are under way.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, Result, ToolCallId, ToolProgress, ToolResponse};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::ToolExecution;
use crate::{PreparedCall, ToolContext};

/// Progress that waits for a caller, and how long it waits. A caller slower than this misses the rest of the progress, not
/// the answer.
const PROGRESS_QUEUE: usize = 64;
const PROGRESS_PATIENCE: Duration = Duration::from_secs(30);

/// Progress between a tool and those who listen.
const TOLD_QUEUE: usize = 16;

/// The way from a tool to those who listen: for [`ToolContext::progress`] and [`Entry::run`].
pub fn progress_channel() -> (mpsc::Sender<ToolProgress>, mpsc::Receiver<ToolProgress>) {
    mpsc::channel(TOLD_QUEUE)
}

/// What a call came to; shared by everybody who waits for it.
pub(super) type Answer = Arc<Result<ToolResponse>>;

/// The calls of one session that are under way.
#[derive(Debug, Default)]
pub struct ToolCalls {
    under_way: Arc<Mutex<HashMap<ToolCallId, Arc<Call>>>>,
    tasks: TaskTracker,
    /// Held by calls that use the session's persistent shell.
    pub shell: Arc<tokio::sync::Mutex<()>>,
}

/// What there is of a call.
#[derive(Debug)]
pub enum Found {
    Joined(ToolExecution),
    Ending(Arc<Call>),
    /// It is new, and has to be done.
    Added(ToolExecution, Entry),
}

/// A call under way.
#[derive(Debug)]
pub struct Call {
    listeners: Mutex<Vec<mpsc::Sender<ToolProgress>>>,
    answer: watch::Sender<Option<Answer>>,
    /// Cancelled when the last caller is gone, or the session is stopped.
    pub cancelled: CancellationToken,
    /// Callers that wait. Changed only while the table is locked, so that nobody joins a call that is given up.
    waiting: Mutex<usize>,
}

impl ToolCalls {
    /// The call of this name; a new one when there is none.
    pub fn find_or_add(&self, id: &ToolCallId, listen: bool) -> Found {
        let mut under_way = lock(&self.under_way);
        match under_way.get(id) {
            Some(call) if call.cancelled.is_cancelled() => Found::Ending(Arc::clone(call)),
            Some(call) => Found::Joined(self.wait_for(call, listen)),
            None => {
                let call = Arc::new(Call {
                    listeners: Mutex::default(),
                    answer: watch::Sender::new(None),
                    cancelled: CancellationToken::new(),
                    waiting: Mutex::new(0),
                });
                under_way.insert(id.clone(), Arc::clone(&call));
                let execution = self.wait_for(&call, listen);
                let table = Arc::clone(&self.under_way);
                Found::Added(execution, Entry { table, tasks: self.tasks.clone(), id: id.clone(), call, ended: false })
            }
        }
    }

    fn wait_for(&self, call: &Arc<Call>, listen: bool) -> ToolExecution {
        *lock(&call.waiting) += 1;
        let progress = listen.then(|| {
            let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE);
            lock(&call.listeners).push(sender);
            receiver
        });
        let waiting = Waiting { table: Arc::clone(&self.under_way), call: Arc::clone(call) };
        ToolExecution::new(call.answer.subscribe(), progress, waiting)
    }

    /// Ends every call that is under way, and says whether there was one.
    pub fn cancel(&self) -> bool {
        let under_way = lock(&self.under_way);
        for call in under_way.values() {
            call.cancelled.cancel();
        }
        !under_way.is_empty()
    }

    /// How many are under way.
    pub fn count(&self) -> usize {
        lock(&self.under_way).len()
    }

    /// Waits until nothing is under way. Nothing new may come meanwhile.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }
}

impl Call {
    /// Waits for the end, whatever it is.
    pub async fn ended(&self) {
        // It fails when the sender is gone, and we hold the sender.
        let _ = self.answer.subscribe().wait_for(Option::is_some).await;
    }

    /// Tells everybody who listens how far the call is.
    async fn tell(&self, progress: ToolProgress) {
        let listeners = std::mem::take(&mut *lock(&self.listeners));
        for listener in listeners {
            if listener.send_timeout(progress.clone(), PROGRESS_PATIENCE).await.is_ok() {
                lock(&self.listeners).push(listener);
            }
        }
    }
}

/// One caller that waits; the call is given up when the last one is gone.
#[derive(Debug)]
pub(super) struct Waiting {
    table: Arc<Mutex<HashMap<ToolCallId, Arc<Call>>>>,
    call: Arc<Call>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _table = lock(&self.table);
        let mut waiting = lock(&self.call.waiting);
        *waiting -= 1;
        if *waiting == 0 {
            self.call.cancelled.cancel();
        }
    }
}

/// A call that is to be done. However that ends, those who wait are told.
#[derive(Debug)]
pub struct Entry {
    table: Arc<Mutex<HashMap<ToolCallId, Arc<Call>>>>,
    tasks: TaskTracker,
    id: ToolCallId,
    call: Arc<Call>,
    ended: bool,
}

impl Entry {
    pub fn id(&self) -> &ToolCallId {
        &self.id
    }

    /// Cancelled when nobody waits for the answer any more.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.call.cancelled
    }

    /// Does the work on a task of its own, which [`ToolCalls::drained`] waits for.
    pub fn spawn<F>(self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let tasks = self.tasks.clone();
        tasks.spawn(work(self));
    }

    /// Does the call, and tells everybody who listens what it says; `told` is the other end of `context.progress`.
    pub async fn run(
        &self,
        prepared: PreparedCall,
        context: &ToolContext,
        mut told: mpsc::Receiver<ToolProgress>,
    ) -> Result<ToolResponse> {
        let response = {
            let mut running = std::pin::pin!(prepared.run(context));
            loop {
                tokio::select! {
                    biased;
                    Some(item) = told.recv() => self.call.tell(item).await,
                    outcome = &mut running => break outcome,
                }
            }
        }?;
        while let Ok(item) = told.try_recv() {
            self.call.tell(item).await;
        }
        Ok(response)
    }

    /// Gives everybody the answer. It must have been written down by now: from here on, a repeated call looks there.
    pub fn end(mut self, answer: Result<ToolResponse>) {
        self.leave(answer);
    }

    fn leave(&mut self, answer: Result<ToolResponse>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        lock(&self.table).remove(&self.id);
        lock(&self.call.listeners).clear();
        self.call.answer.send_replace(Some(Arc::new(answer)));
    }
}

impl Drop for Entry {
    /// Only reached with something left to do when the work panicked, or was dropped with its tokio runtime.
    fn drop(&mut self) {
        self.leave(Err(Error::new(ErrorCode::Internal, "the tool call broke off")));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
