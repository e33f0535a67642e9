//! Events of sessions.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{Actor, Error, Labels, Result, SessionId, SessionState};

macro_rules! kinds {
    ($($(#[$comment:meta])* $name:ident $text:literal,)*) => {
        /// Kind of an event.
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
    /// `state` has the new state.
    StateChanged "state-changed",
    SessionDestroyed "session-destroyed",
    SessionForked "session-forked",
    TurnCompleted "turn-completed",
    SnapshotTaken "snapshot-taken",
    SnapshotDeleted "snapshot-deleted",
    RolledBack "rolled-back",
    ProcessLaunched "process-launched",
    ProcessReady "process-ready",
    /// The process is not restarted.
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
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
                Error::invalid(
                    "kinds",
                    format!("event kind `{}` is unknown", text.escape_debug()),
                )
                .with_hint(format!("use one of {}", known.join(", ")))
            })
    }
}

/// Event of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEvent {
    /// Increases from event to event, also over restarts of the host.
    pub sequence: u64,
    pub at: Timestamp,
    pub session: SessionId,
    pub actor: Actor,
    pub kind: EventKind,
    /// New state of the session, if the event changed it.
    pub state: Option<SessionState>,
    /// [`OK`](crate::AuditEntry::OK) or [`FAILED`](crate::AuditEntry::FAILED).
    pub outcome: String,
    /// Names of snapshots, processes and tools. Never any content.
    pub detail: Map<String, Value>,
}

/// Selection of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events of this session. It need not exist yet.
    pub session: Option<SessionId>,
    /// Only events of sessions with all of these labels.
    pub labels: Labels,
    /// Only these kinds; all when empty.
    pub kinds: Vec<EventKind>,
    /// Start with the stored events after this sequence number.
    pub since: Option<u64>,
}

/// Message to a subscriber of events.
#[derive(Clone, Debug, PartialEq)]
pub enum EventNews {
    Happened(SessionEvent),
    /// Events were dropped before they could be sent. The number is unknown if they belong to an
    /// earlier run of the host.
    Missed(Option<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_kind_round_trips_and_others_are_refused() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse::<EventKind>().unwrap(), *kind);
        }
        let error = "nonsense".parse::<EventKind>().unwrap_err();
        assert!(error.hint().unwrap().contains("tool-finished"));
    }
}
