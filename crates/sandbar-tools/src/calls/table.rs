//! The table of running tool calls of one session.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use sandbar_core::{
    Error, ErrorCode, MutexExt as _, Result, ToolCallId, ToolProgress, ToolResponse,
};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::ToolExecution;
use crate::{PreparedCall, ToolContext};

/// Progress events queued for each caller.
const PROGRESS_QUEUE: usize = 64;

/// Timeout for queueing a progress event. A slower caller misses the rest of the progress, not the
/// answer.
const PROGRESS_SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Progress events queued between a tool and [`Entry::run`].
const TOOL_PROGRESS_QUEUE: usize = 16;

/// Creates the channel from a tool ([`ToolContext::progress`]) to its callers ([`Entry::run`]).
pub fn progress_channel() -> (mpsc::Sender<ToolProgress>, mpsc::Receiver<ToolProgress>) {
    mpsc::channel(TOOL_PROGRESS_QUEUE)
}

/// Result of a call, shared by all its callers.
pub(super) type Answer = Arc<Result<ToolResponse>>;

/// Running calls of one session, by call id.
#[derive(Debug, Default)]
pub struct ToolCalls {
    under_way: Arc<Mutex<HashMap<ToolCallId, Arc<Call>>>>,
    tasks: TaskTracker,
    /// Held by calls that use the session's persistent shell.
    pub shell: Arc<tokio::sync::Mutex<()>>,
}

/// Result of looking up a call id.
#[derive(Debug)]
pub enum Found {
    /// The call is running, and the request joined it.
    Joined(ToolExecution),
    /// The call is cancelled but has not ended yet.
    Ending(Arc<Call>),
    /// The call is new; the request has to execute it.
    Added(ToolExecution, Entry),
}

/// A running call.
#[derive(Debug)]
pub struct Call {
    listeners: Mutex<Vec<mpsc::Sender<ToolProgress>>>,
    answer: watch::Sender<Option<Answer>>,
    /// Cancelled when the last caller is gone, or the session is stopped.
    pub cancelled: CancellationToken,
    /// Number of waiting callers. Changed only while the table is locked, so that no caller joins a
    /// call that is being cancelled.
    waiting: Mutex<usize>,
}

impl ToolCalls {
    /// Joins the call with this id, or adds it.
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
                Found::Added(
                    execution,
                    Entry {
                        table,
                        tasks: self.tasks.clone(),
                        id: id.clone(),
                        call,
                        ended: false,
                    },
                )
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
        let waiting = Waiting {
            table: Arc::clone(&self.under_way),
            call: Arc::clone(call),
        };
        ToolExecution::new(call.answer.subscribe(), progress, waiting)
    }

    /// Cancels every running call. Returns whether there was one.
    pub fn cancel(&self) -> bool {
        let under_way = lock(&self.under_way);
        for call in under_way.values() {
            call.cancelled.cancel();
        }
        !under_way.is_empty()
    }

    /// Returns the number of running calls.
    pub fn count(&self) -> usize {
        lock(&self.under_way).len()
    }

    /// Waits until no call is running. The caller must keep new calls out meanwhile.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }
}

impl Call {
    /// Waits for the call to end, with an answer or an error.
    pub async fn ended(&self) {
        // Fails only once the sender is dropped, and `self` holds it.
        let _ = self.answer.subscribe().wait_for(Option::is_some).await;
    }

    /// Sends progress to every listener, and drops listeners that are gone or too slow.
    async fn tell(&self, progress: ToolProgress) {
        let listeners = std::mem::take(&mut *lock(&self.listeners));
        for listener in listeners {
            if listener
                .send_timeout(progress.clone(), PROGRESS_SEND_TIMEOUT)
                .await
                .is_ok()
            {
                lock(&self.listeners).push(listener);
            }
        }
    }
}

/// One waiting caller. Dropping the last one cancels the call.
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

/// A call to execute. Its callers get an answer or an error in any case, also when it is dropped.
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

    /// Returns the token that is cancelled when the last caller is gone.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.call.cancelled
    }

    /// Spawns the work on a task that [`ToolCalls::drained`] waits for.
    pub fn spawn<F>(self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let tasks = self.tasks.clone();
        tasks.spawn(work(self));
    }

    /// Executes the call and forwards its progress to all listeners. `progress` is the receiver for
    /// `context.progress`.
    pub async fn run(
        &self,
        prepared: PreparedCall,
        context: &ToolContext,
        mut progress: mpsc::Receiver<ToolProgress>,
    ) -> Result<ToolResponse> {
        let response = {
            let mut running = std::pin::pin!(prepared.run(context));
            loop {
                tokio::select! {
                    biased;
                    Some(item) = progress.recv() => self.call.tell(item).await,
                    outcome = &mut running => break outcome,
                }
            }
        }?;
        while let Ok(item) = progress.try_recv() {
            self.call.tell(item).await;
        }
        Ok(response)
    }

    /// Sends the answer to all callers. It must be stored by now: from here on, a repeated call id
    /// is answered from storage.
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
    /// Answers with an error when the work panicked or was dropped with its tokio runtime; does
    /// nothing after [`Entry::end`].
    fn drop(&mut self) {
        self.leave(Err(Error::new(
            ErrorCode::Internal,
            "tool call ended without an answer",
        )));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}
