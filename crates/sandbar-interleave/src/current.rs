//! Thread-local handle on the run that a thread belongs to.

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    sync::{Arc, MutexGuard},
    thread::Thread,
    time::Duration,
};

use crate::{
    explorer::ThreadId,
    pending::{Address, Pending},
    run::{Run, State},
};

/// A timeout of this length or more never expires in a run: the wait has no deadline.
const FOREVER: Duration = Duration::from_hours(24 * 365 * 100);

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The run a thread belongs to, and the thread's id in it.
#[derive(Clone)]
pub(crate) struct Current {
    run: Arc<Run>,
    id: ThreadId,
}

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Mine,
    /// The run has failed while this thread was unwinding, so it cannot be unwound again. All
    /// threads of the run unwind now, side by side, and use what they share as ordinary threads do.
    GivenUp,
}

/// Panic payload that unwinds a thread after the run has failed in another thread.
struct GivenUp;

/// Returns the run of the calling thread, when it belongs to one.
pub(crate) fn current() -> Option<Current> {
    // Access fails while the thread ends, once its thread-local storage is destroyed.
    CURRENT
        .try_with(|current| current.borrow().clone())
        .ok()
        .flatten()
}

impl Current {
    pub(crate) fn new(run: Arc<Run>, id: ThreadId) -> Self {
        Self { run, id }
    }

    /// Makes the calling thread one of the run, until `body` returns or panics.
    pub(crate) fn run_to_the_end(self, body: impl FnOnce()) {
        let outer = CURRENT.replace(Some(self.clone()));
        assert!(outer.is_none(), "a run cannot be started inside another");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.wait_for_turn();
            body();
        }));
        let mut state = self.run.lock();
        if let Err(panic) = outcome
            && !panic.is::<GivenUp>()
        {
            state.fail(format!(
                "thread {} panicked: {}",
                self.id,
                panic_message(&*panic)
            ));
        }
        state.announce(self.id, Pending::Done, Location::caller());
        self.hand_over(state);
        CURRENT.set(None);
    }

    /// Announces what the thread is about to do, and returns when it is its turn to do it. Unwinds
    /// when the run fails meanwhile.
    pub(crate) fn reach(&self, pending: Pending, at: &'static Location<'static>) -> Turn {
        let mut state = self.run.lock();
        if !state.has_failed() {
            state.announce(self.id, pending, at);
        }
        self.hand_over(state);
        self.wait_for_turn()
    }

    /// Starts or unparks the thread that runs next, or unparks all threads when the run has failed.
    /// A thread that is unparked out of turn parks again.
    fn hand_over(&self, mut state: MutexGuard<'_, State>) {
        let mut woken: Vec<Thread> = Vec::new();
        if state.has_failed() {
            woken.extend(
                state
                    .threads
                    .iter()
                    .filter_map(|thread| thread.handle.clone()),
            );
        } else if state.running != self.id {
            let id = state.running;
            if let Some(body) = state.threads[id].body.take() {
                let next = Self {
                    run: Arc::clone(&self.run),
                    id,
                };
                let thread = state
                    .crew
                    .employ(Box::new(move || next.run_to_the_end(body)));
                state.threads[id].handle = Some(thread);
            } else {
                woken.extend(state.threads[id].handle.clone());
            }
        }
        drop(state);
        woken.iter().for_each(Thread::unpark);
    }

    fn wait_for_turn(&self) -> Turn {
        let mut state = self.run.lock();
        while state.running != self.id && !state.has_failed() {
            drop(state);
            std::thread::park();
            state = self.run.lock();
        }
        let failed = state.has_failed();
        drop(state);
        if !failed {
            Turn::Mine
        } else if std::thread::panicking() {
            Turn::GivenUp
        } else {
            resume_unwind(Box::new(GivenUp))
        }
    }

    /// Waits for a notification and then for the lock, which the caller has just released. Returns
    /// whether the timeout expired first.
    pub(crate) fn wait(
        &self,
        condition: Address,
        lock: Address,
        timeout: Option<Duration>,
        at: &'static Location<'static>,
    ) -> (Turn, bool) {
        let deadline = {
            let mut state = self.run.lock();
            state.threads[self.id].timed_out = false;
            timeout
                .filter(|timeout| *timeout < FOREVER)
                .map(|timeout| state.clock + timeout)
        };
        let turn = self.reach(
            Pending::Notification {
                condition,
                lock,
                deadline,
            },
            at,
        );
        (turn, self.run.lock().threads[self.id].timed_out)
    }

    pub(crate) fn release(&self, lock: Address) {
        self.run.lock().release(lock);
    }

    pub(crate) fn notify_one(&self, condition: Address) {
        self.run.lock().notify_one(condition);
    }

    pub(crate) fn notify_all(&self, condition: Address) {
        self.run.lock().notify_all(condition);
    }

    pub(crate) fn clock(&self) -> Duration {
        self.run.lock().clock
    }

    pub(crate) fn has_ended(&self, thread: ThreadId) -> bool {
        self.run.lock().threads[thread].pending == Pending::Done
    }

    /// Starts a thread of the same run. It goes on when it is picked.
    pub(crate) fn spawn(
        &self,
        body: impl FnOnce() + Send + 'static,
        at: &'static Location<'static>,
    ) -> ThreadId {
        self.run.lock().spawn(self.id, Box::new(body), at)
    }
}

/// The text of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is no text")
}
