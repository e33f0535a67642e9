//! Who decides.

/// A number for each thread of a run; the one that starts it is 0.
pub(crate) type ThreadId = usize;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) thread: ThreadId,
    pub(crate) kind: ChoiceKind,
    /// It interrupts somebody who could go on. Most bugs need few of these, so they can be limited.
    pub(crate) preempts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceKind {
    /// The thread goes on.
    Run,
    /// The thread has waited long enough: its limit is reached.
    TimeOut,
    /// The thread is the one that is notified.
    Wake,
}

/// Decides what happens next, run after run.
pub(crate) trait Explorer: Send {
    /// Picks one of two or more choices, by its place. The first never preempts.
    fn choose(&mut self, choices: &[Choice]) -> Result<usize, String>;

    /// Gets ready for the next run. False when there is nothing left to try.
    fn advance(&mut self) -> bool;
}
