//! Next operation of a thread, and the record of operations done.

use std::{fmt, panic::Location, time::Duration};

use crate::explorer::ThreadId;

/// Identity of a lock or condition variable. Neither moves while a thread holds it or waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address(usize);

impl Address {
    pub(crate) fn of<T>(object: &T) -> Self {
        Self(std::ptr::from_ref(object).addr())
    }
}

/// Operation that a thread is about to do or is blocked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// An operation that never blocks. The text fits after "thread 1".
    Step(&'static str),
    /// Yields to the other threads.
    Yield,
    Lock(Address),
    /// Waits for a notification, and then for the lock.
    Notification {
        condition: Address,
        lock: Address,
        /// Time of the timeout, by the clock of the run.
        deadline: Option<Duration>,
    },
    Join(ThreadId),
    /// The thread has ended.
    Done,
}

impl Pending {
    /// Describes the operation for a failure report.
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

/// One step of a run: an operation that a thread has done, or whose wait timed out.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) thread: ThreadId,
    pub(crate) what: Pending,
    /// The wait timed out.
    pub(crate) timed_out: bool,
    pub(crate) at: &'static Location<'static>,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.timed_out {
            "reaches its timeout".to_owned()
        } else {
            self.what.describe()
        };
        write!(formatter, "thread {} {what}, at {}", self.thread, self.at)
    }
}
