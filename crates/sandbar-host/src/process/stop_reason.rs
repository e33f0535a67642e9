//! Why all processes of a session are stopped, and how.

use std::fmt;

/// Why a session stops what runs in it. The text is what a process says about its end.
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

/// How a process is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It is asked to, with SIGTERM.
    Gently,
    /// It is killed, with everything it started.
    AtOnce,
}
