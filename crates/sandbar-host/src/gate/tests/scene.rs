//! People at a gate: what they do, what they note about each other, and the schedules they do it under.

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

use super::gate;
use crate::gate::{Closing, Gate};

/// How often threads are interrupted, or run out of patience, in schedules that are tried exhaustively: two threads, and
/// more. Without a limit there is no end, since a destroyer may run out of patience for ever.
const PREEMPTIONS: [usize; 2] = [5, 2];
const RANDOM_SCHEDULES: usize = 2000;

/// A gate and who is behind it. The notes are no business of the checker's: only one thread runs at a time, and where
/// others may see them there is a `thread::step`.
pub(super) struct Scene {
    pub(super) gate: Arc<Gate>,
    shared: AtomicUsize,
    alone: AtomicUsize,
    pub(super) paused: AtomicBool,
    pub(super) acknowledged: AtomicBool,
    /// Somebody was told that the session is being rolled back.
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
            gate: gate(),
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

    /// What a tool does once inside.
    pub(super) fn work_beside_others(&self) {
        self.shared.fetch_add(1, SeqCst);
        assert_eq!(self.alone.load(SeqCst), 0, "a tool began beside exclusive work");
        thread::step();
        assert_eq!(self.alone.load(SeqCst), 0, "exclusive work began beside a tool");
        self.shared.fetch_sub(1, SeqCst);
    }

    /// What exclusive work does once inside.
    pub(super) fn work_alone(&self) {
        assert_eq!(self.alone.fetch_add(1, SeqCst), 0, "two exclusive operations overlap");
        assert_eq!(self.shared.load(SeqCst), 0, "exclusive work began beside a tool");
        thread::step();
        assert_eq!(self.shared.load(SeqCst), 0, "a tool began beside exclusive work");
        self.alone.fetch_sub(1, SeqCst);
    }

    pub(super) fn try_alone(&self, why: Closing, patience: Duration) {
        match self.gate.enter_exclusive(why, patience) {
            Ok(_entry) => self.work_alone(),
            Err(refusal) => self.expect_refusal(&refusal),
        }
    }

    pub(super) fn expect_refusal(&self, refusal: &Error) {
        use ErrorCode::{RollbackInProgress, SessionDestroying, SessionNotFound, SessionPaused, ToolsInFlight};
        let expected = [ToolsInFlight, SessionPaused, RollbackInProgress, SessionDestroying, SessionNotFound];
        assert!(expected.contains(&refusal.code()), "{refusal}");
        let gone = self.destroyed.load(SeqCst) > 0;
        assert!(gone || refusal.code() != SessionNotFound, "told that it is gone before it was");
    }

    /// Tells tools to end.
    pub(super) fn cancel(&self) -> bool {
        *self.cancelled.lock().unwrap() = true;
        self.was_cancelled.notify_all();
        true
    }

    /// What a tool does that would never end by itself.
    pub(super) fn work_until_cancelled(&self) {
        let mut cancelled = self.cancelled.lock().unwrap();
        while !*cancelled {
            cancelled = self.was_cancelled.wait(cancelled).unwrap();
        }
    }

    pub(super) fn assert_open(&self) {
        drop(self.gate.enter_shared().expect("the gate was left shut to tools"));
        drop(
            self.gate.enter_exclusive(Closing::Pausing, Duration::ZERO).expect("the gate was left shut, or not empty"),
        );
    }

    pub(super) fn assert_gone(&self) {
        assert_eq!(self.destroyed.load(SeqCst), 1, "it must be destroyed, once");
        assert_eq!(super::code(self.gate.enter_shared()), ErrorCode::SessionNotFound);
    }
}

/// Does something that does not end well, and goes on.
pub(super) fn unwinding(act: impl FnOnce()) {
    // No panic hook: it is on purpose, thousands of times.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        act();
        resume_unwind(Box::new("on purpose"));
    }));
    drop(outcome);
}

/// Lets everybody act at the same time, each on a thread of its own, and looks at what they leave.
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

/// All schedules with few interruptions.
pub(super) fn under_every_schedule(cast: &[Actor], epilogue: Actor) {
    let preemptions = PREEMPTIONS[usize::from(cast.len() > 2)];
    let schedules = Exhaustive::default().preemptions(preemptions).check(|| play(cast, epilogue));
    assert!(schedules > 1, "nobody met anybody");
}

/// For casts too large to try everything.
pub(super) fn under_many_schedules(cast: &[Actor], epilogue: Actor) {
    Random::new(0x05ea_bed5, RANDOM_SCHEDULES).check(|| play(cast, epilogue));
}
