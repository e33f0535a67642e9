//! Actors on one admission lock, the overlaps they record, and the schedules they run under.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use sandbar_core::{Error, ErrorCode};
use sandbar_interleave::{
    Exhaustive, Random,
    sync::{Condvar, Mutex},
    thread,
};

use super::new_lock;
use crate::admission::{AdmissionLock, ExclusiveWork};

/// Preemptions and expired timeouts in an exhaustive search, for two actors and for more. Without a
/// bound the search would not end, since the timeout of a destroyer may expire any number of times.
const PREEMPTIONS: [usize; 2] = [5, 2];
const RANDOM_SCHEDULES: usize = 2000;

/// A lock and a record of its holders. The record uses plain atomics, which the checker does not
/// see: only one thread runs at a time, and `thread::step` marks where another may read them.
pub(super) struct Scene {
    pub(super) lock: Arc<AdmissionLock>,
    shared: AtomicUsize,
    alone: AtomicUsize,
    pub(super) paused: AtomicBool,
    pub(super) acknowledged: AtomicBool,
    /// A caller was refused with `RollbackInProgress`.
    pub(super) refused: AtomicBool,
    pub(super) rolled_back: AtomicBool,
    pub(super) destroyed: AtomicUsize,
    cancelled: Mutex<bool>,
    was_cancelled: Condvar,
}

pub(super) type Actor = fn(&Scene);

impl Scene {
    fn new() -> Self {
        Self {
            lock: new_lock(),
            shared: AtomicUsize::new(0),
            alone: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            acknowledged: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            rolled_back: AtomicBool::new(false),
            destroyed: AtomicUsize::new(0),
            cancelled: Mutex::new(false),
            was_cancelled: Condvar::new(),
        }
    }

    /// Runs as a tool that holds a shared entry.
    pub(super) fn work_beside_others(&self) {
        self.shared.fetch_add(1, SeqCst);
        assert_eq!(
            self.alone.load(SeqCst),
            0,
            "a tool began beside exclusive work"
        );
        thread::step();
        assert_eq!(
            self.alone.load(SeqCst),
            0,
            "exclusive work began beside a tool"
        );
        self.shared.fetch_sub(1, SeqCst);
    }

    /// Runs as an operation that holds the exclusive entry.
    pub(super) fn work_alone(&self) {
        assert_eq!(
            self.alone.fetch_add(1, SeqCst),
            0,
            "two exclusive operations overlap"
        );
        assert_eq!(
            self.shared.load(SeqCst),
            0,
            "exclusive work began beside a tool"
        );
        thread::step();
        assert_eq!(
            self.shared.load(SeqCst),
            0,
            "a tool began beside exclusive work"
        );
        self.alone.fetch_sub(1, SeqCst);
    }

    pub(super) fn try_alone(&self, work: ExclusiveWork, timeout: Duration) {
        match self.lock.enter_exclusive(work, timeout) {
            Ok(_entry) => self.work_alone(),
            Err(refusal) => self.expect_refusal(&refusal),
        }
    }

    pub(super) fn expect_refusal(&self, refusal: &Error) {
        use ErrorCode::{
            RollbackInProgress, SessionDestroying, SessionNotFound, SessionPaused, ToolsInFlight,
        };
        let expected = [
            ToolsInFlight,
            SessionPaused,
            RollbackInProgress,
            SessionDestroying,
            SessionNotFound,
        ];
        assert!(expected.contains(&refusal.code()), "{refusal}");
        let gone = self.destroyed.load(SeqCst) > 0;
        assert!(
            gone || refusal.code() != SessionNotFound,
            "refused as gone before it was destroyed"
        );
    }

    /// Cancels every tool.
    pub(super) fn cancel(&self) -> bool {
        *self.cancelled.lock().unwrap() = true;
        self.was_cancelled.notify_all();
        true
    }

    /// Runs as a tool that ends only when cancelled.
    pub(super) fn work_until_cancelled(&self) {
        let mut cancelled = self.cancelled.lock().unwrap();
        while !*cancelled {
            cancelled = self.was_cancelled.wait(cancelled).unwrap();
        }
    }

    pub(super) fn assert_open(&self) {
        drop(
            self.lock
                .enter_shared()
                .expect("the lock was left closed to tools"),
        );
        drop(
            self.lock
                .enter_exclusive(ExclusiveWork::Pausing, Duration::ZERO)
                .expect("the lock was left closed, or not empty"),
        );
    }

    pub(super) fn assert_gone(&self) {
        assert_eq!(self.destroyed.load(SeqCst), 1, "it must be destroyed, once");
        assert_eq!(
            super::code(self.lock.enter_shared()),
            ErrorCode::SessionNotFound
        );
    }
}

/// Runs `act`, unwinds, and continues.
pub(super) fn unwinding(act: impl FnOnce()) {
    // `resume_unwind` skips the panic hook, which would print thousands of messages.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        act();
        resume_unwind(Box::new("on purpose"));
    }));
    drop(outcome);
}

/// Runs every actor on a thread of its own, then `epilogue` on what they leave.
fn play(cast: &[Actor], epilogue: Actor) {
    let scene = Arc::new(Scene::new());
    let threads: Vec<_> = cast
        .iter()
        .map(|&actor| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || actor(&scene))
        })
        .collect();
    threads.into_iter().for_each(thread::JoinHandle::join);
    epilogue(&scene);
}

/// Tries every schedule with few preemptions.
pub(super) fn under_every_schedule(cast: &[Actor], epilogue: Actor) {
    let preemptions = PREEMPTIONS[usize::from(cast.len() > 2)];
    let schedules = Exhaustive::default()
        .preemptions(preemptions)
        .check(|| play(cast, epilogue));
    assert!(schedules > 1, "the actors do not interleave");
}

/// Tries random schedules, for casts too large for an exhaustive search.
pub(super) fn under_many_schedules(cast: &[Actor], epilogue: Actor) {
    Random::new(0x05ea_bed5, RANDOM_SCHEDULES).check(|| play(cast, epilogue));
}
