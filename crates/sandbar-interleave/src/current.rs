//! The run a thread belongs to, seen from that thread.

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

/// Whoever waits for longer than this waits without a limit.
const FOREVER: Duration = Duration::from_hours(24 * 365 * 100);

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The run a thread belongs to, and the thread's place in it.
#[derive(Clone)]
pub(crate) struct Current {
    run: Arc<Run>,
    id: ThreadId,
}

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Mine,
    /// The run has failed while this thread was unwinding, so it cannot be unwound again. All threads of the run unwind
    /// now, side by side, and use what they share as ordinary threads do.
    GivenUp,
}

/// What threads unwind with when the run has failed elsewhere.
struct GivenUp;

/// The run of the calling thread, when it belongs to one.
pub(crate) fn current() -> Option<Current> {
    // Without the thread's local storage the thread is as good as gone.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
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
            state.fail(format!("thread {} panicked: {}", self.id, panic_message(&*panic)));
        }
        state.announce(self.id, Pending::Done, Location::caller());
        self.hand_over(state);
        CURRENT.set(None);
    }

    /// Announces what the thread is about to do, and returns when it is its turn to do it. Unwinds when the run fails
    /// meanwhile.
    pub(crate) fn reach(&self, pending: Pending, at: &'static Location<'static>) -> Turn {
        let mut state = self.run.lock();
        if !state.has_failed() {
            state.announce(self.id, pending, at);
        }
        self.hand_over(state);
        self.wait_for_turn()
    }

    /// Starts or wakes whoever is to go on; everybody when the run is given up. Those whose turn it is not sleep on.
    fn hand_over(&self, mut state: MutexGuard<'_, State>) {
        let mut woken: Vec<Thread> = Vec::new();
        if state.has_failed() {
            woken.extend(state.threads.iter().filter_map(|thread| thread.handle.clone()));
        } else if state.running != self.id {
            let id = state.running;
            if let Some(body) = state.threads[id].body.take() {
                let next = Self { run: Arc::clone(&self.run), id };
                let thread = state.crew.employ(Box::new(move || next.run_to_the_end(body)));
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

    /// Waits to be notified and for the lock, which the caller has just released. Says whether patience ended first.
    pub(crate) fn wait(
        &self,
        condition: Address,
        lock: Address,
        patience: Option<Duration>,
        at: &'static Location<'static>,
    ) -> (Turn, bool) {
        let deadline = {
            let mut state = self.run.lock();
            state.threads[self.id].timed_out = false;
            patience.filter(|patience| *patience < FOREVER).map(|patience| state.clock + patience)
        };
        let turn = self.reach(Pending::Notification { condition, lock, deadline }, at);
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
    pub(crate) fn spawn(&self, body: impl FnOnce() + Send + 'static, at: &'static Location<'static>) -> ThreadId {
        self.run.lock().spawn(self.id, Box::new(body), at)
    }
}

/// The text of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("something that is no text")
}
