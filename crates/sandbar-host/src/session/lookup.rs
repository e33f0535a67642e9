//! Records of sessions, by the state a verb needs them in.

use sandbar_core::{Error, ErrorCode, Result, SessionId, SessionState};

use crate::{admission::not_found, engine::Engine, state::SessionRecord};

impl Engine {
    /// Returns the record of a session.
    pub(super) fn record(&self, id: &SessionId) -> Result<SessionRecord> {
        self.state.session(id)?.ok_or_else(|| not_found(id))
    }

    /// Returns the record of an active session: commands may start and files may change.
    pub(super) fn active(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.present(id)?;
        if record.state == SessionState::Paused {
            return Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{id}` is paused"),
            )
            .with_hint(format!("resume it with `sandbar resume {id}`")));
        }
        Ok(record)
    }

    /// Returns the record of a session with a volume, active or paused: it may be read,
    /// snapshotted, rolled back and forked.
    pub(super) fn present(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.record(id)?;
        match record.state {
            SessionState::Active | SessionState::Paused => Ok(record),
            SessionState::Hibernated => Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{id}` is hibernated"),
            )
            .with_hint(format!("wake it with `sandbar wake {id}`"))),
            SessionState::Failed => Err(Error::new(
                ErrorCode::InvalidState,
                format!("session `{id}` has failed: its volume is missing"),
            )
            .with_hint(format!("destroy it with `sandbar rm {id}`"))),
            SessionState::Destroying => Err(Error::new(
                ErrorCode::SessionDestroying,
                format!("session `{id}` is being destroyed"),
            )
            .with_hint("create a new one")),
            SessionState::Creating => Err(Error::new(
                ErrorCode::InvalidState,
                format!("session `{id}` is still being created"),
            )),
        }
    }
}
