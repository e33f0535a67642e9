//! Threads of a run.

use std::{
    panic::Location,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    current::{Current, current},
    explorer::ThreadId,
    pending::Pending,
};

/// A thread that can be waited for.
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: ThreadId,
    result: Arc<Mutex<Option<T>>>,
}

/// Starts a thread of this run. It needs no decision of its own: whatever the caller does next is
/// one.
#[track_caller]
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let result = Arc::new(Mutex::new(None));
    let written = Arc::clone(&result);
    let body = move || {
        let value = body();
        *written.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    };
    JoinHandle {
        thread: this().spawn(body, Location::caller()),
        result,
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread. One that panics fails the run, so there is always a result.
    #[track_caller]
    pub fn join(self) -> T {
        let this = this();
        // Joining a thread that has ended does not block, and is invisible to other threads.
        if !this.has_ended(self.thread) {
            this.reach(Pending::Join(self.thread), Location::caller());
        }
        let result = self
            .result
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        result.unwrap_or_else(|| panic!("thread {} was given up", self.thread))
    }
}

/// A moment in which others may go on: what work looks like from outside. Nothing happens outside
/// of a run.
#[track_caller]
pub fn step() {
    if let Some(this) = current() {
        this.reach(Pending::Step("takes a step"), Location::caller());
    }
}

/// Lets others go first, as far as they can; for loops that wait for something.
#[track_caller]
pub fn yield_now() {
    match current() {
        Some(this) => {
            this.reach(Pending::Yield, Location::caller());
        }
        None => std::thread::yield_now(),
    }
}

#[track_caller]
fn this() -> Current {
    current().unwrap_or_else(|| panic!("threads are started and joined inside of a run only"))
}
