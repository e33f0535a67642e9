//! Reasons and ways to stop the processes of a session.

use std::fmt;

/// Reason for which a session stops its processes. The text goes into [`ProcessExit::reason`].
///
/// [`ProcessExit::reason`]: sandbar_core::ProcessExit::reason
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    HostStopped,
    RolledBack,
    PausedWithoutMemory,
    Hibernated,
    Destroyed,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostStopped => "host stopped",
            Self::RolledBack => "session rolled back",
            Self::PausedWithoutMemory => "paused without memory",
            Self::Hibernated => "session hibernated",
            Self::Destroyed => "session destroyed",
        })
    }
}

/// Way to stop a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// Sends SIGTERM.
    Terminate,
    /// Kills it with everything it started.
    Kill,
}
