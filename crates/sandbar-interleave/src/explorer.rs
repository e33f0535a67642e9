//! Interface of the explorers, which decide the schedule.

/// Number of a thread in its run. The thread that starts the run is 0.
pub(crate) type ThreadId = usize;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) thread: ThreadId,
    pub(crate) kind: ChoiceKind,
    /// It interrupts a runnable thread. Most bugs need few preemptions, so they can be limited.
    pub(crate) preempts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceKind {
    /// The thread goes on.
    Run,
    /// The thread's wait times out.
    TimeOut,
    /// The thread receives the notification.
    Wake,
}

/// Decides what happens next, run after run.
pub(crate) trait Explorer: Send {
    /// Picks one of two or more choices, by its place. The first never preempts.
    fn choose(&mut self, choices: &[Choice]) -> Result<usize, String>;

    /// Prepares the next run. Returns false when no schedule is left.
    fn advance(&mut self) -> bool;
}
