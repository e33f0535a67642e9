//! What happens to sessions, told as it happens.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{Actor, Error, Labels, Result, SessionId, SessionState};

macro_rules! kinds {
    ($($(#[$comment:meta])* $name:ident $text:literal,)*) => {
        /// What kind of thing happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$comment])* $name,)*
        }

        impl EventKind {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    SessionCreated "session-created",
    /// The state says what the session is now.
    StateChanged "state-changed",
    SessionDestroyed "session-destroyed",
    SessionForked "session-forked",
    TurnCompleted "turn-completed",
    SnapshotTaken "snapshot-taken",
    SnapshotDeleted "snapshot-deleted",
    RolledBack "rolled-back",
    ProcessLaunched "process-launched",
    ProcessReady "process-ready",
    /// For good: it is not started again.
    ProcessExited "process-exited",
    ToolFinished "tool-finished",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            Error::invalid("kinds", format!("there is no kind of event `{}`", text.escape_debug()))
                .with_hint(format!("use one of {}", known.join(", ")))
        })
    }
}

/// Something that happened to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEvent {
    /// It grows from event to event, also over restarts of the host.
    pub sequence: u64,
    pub at: Timestamp,
    pub session: SessionId,
    pub actor: Actor,
    pub kind: EventKind,
    /// The state the session is in now, when this changed it.
    pub state: Option<SessionState>,
    /// [`OK`](crate::AuditEntry::OK) or [`FAILED`](crate::AuditEntry::FAILED).
    pub outcome: String,
    /// Names of snapshots, processes and tools. Never the content of anything.
    pub detail: Map<String, Value>,
}

/// Which events somebody wants to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only those of this session. It may be made later.
    pub session: Option<SessionId>,
    /// Only those of sessions that have all of these labels.
    pub labels: Labels,
    /// Only these kinds; all when there are none.
    pub kinds: Vec<EventKind>,
    /// First those after this number, as far as they are known.
    pub since: Option<u64>,
}

/// What a watcher of events is told.
#[derive(Clone, Debug, PartialEq)]
pub enum EventNews {
    Happened(SessionEvent),
    /// Some events cannot be told any more; an earlier run of the host knew how many when there is no number.
    Missed(Option<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_again_by_its_name_and_others_are_refused_with_all_of_them() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse::<EventKind>().unwrap(), *kind);
        }
        let error = "nonsense".parse::<EventKind>().unwrap_err();
        assert!(error.hint().unwrap().contains("tool-finished"));
    }
}
