//! What a thread is about to do, or waits for.

use std::{fmt, panic::Location, time::Duration};

use crate::explorer::ThreadId;

/// Tells locks and condition variables apart. They do not move while somebody holds them or waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address(usize);

impl Address {
    pub(crate) fn of<T>(object: &T) -> Self {
        Self(std::ptr::from_ref(object).addr())
    }
}

/// What a thread is about to do, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Something that is always possible. The text fits after "thread 1".
    Step(&'static str),
    /// It lets others go first.
    Yield,
    Lock(Address),
    /// It waits to be notified, and then for the lock.
    Notification {
        condition: Address,
        lock: Address,
        /// When its patience ends, by the clock of the run.
        deadline: Option<Duration>,
    },
    Join(ThreadId),
    /// Nothing: it has ended.
    Done,
}

impl Pending {
    /// The same for people.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Step(what) => what.to_owned(),
            Self::Yield => "lets others go first".to_owned(),
            Self::Lock(_) => "takes a lock".to_owned(),
            Self::Notification { .. } => "waits for a notification".to_owned(),
            Self::Join(thread) => format!("waits for the end of thread {thread}"),
            Self::Done => "ends".to_owned(),
        }
    }
}

/// Something a thread has done.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) thread: ThreadId,
    pub(crate) what: Pending,
    /// It did not do it any more: its patience had ended.
    pub(crate) timed_out: bool,
    pub(crate) at: &'static Location<'static>,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.timed_out { "has waited long enough".to_owned() } else { self.what.describe() };
        write!(formatter, "thread {} {what}, at {}", self.thread, self.at)
    }
}
