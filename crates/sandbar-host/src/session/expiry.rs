//! When the time of a session is up, and what becomes of it then.
//!
//! Whoever changes that time is inside the gate, and whoever acts because it is up looks again when alone inside: a session
//! that was given more time before somebody else came to end it is not ended. Who gives it time just then waits until a
//! pause is over, or makes it give up while it waits for tools, and is never refused what a moment later is allowed.

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, Keep, OnExpiry, Result, SessionId, SessionInfo, SessionState};

use crate::{
    Host,
    gate::Closing,
    host::Inner,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Says when the time of a session is up, sooner or later than before; `None` is never. A time that is over is up at
    /// once. Without `then`, the same becomes of it as before.
    pub async fn set_expiry(
        &self,
        id: &SessionId,
        expires: Option<Timestamp>,
        then: impl Into<Option<OnExpiry>>,
    ) -> Result<SessionInfo> {
        let (target, then) = (id.clone(), then.into());
        let call = Call::on(id, Verb::SetExpiry)
            .with("expires", expires.map(|expires| expires.to_string()))
            .with("then", then.map(OnExpiry::as_str));
        self.run(call, move |inner| inner.set_expiry(&target, expires, then)).await
    }
}

impl SessionRecord {
    /// Whether its time is up, and this is what becomes of it.
    pub(crate) fn is_due(&self, then: OnExpiry) -> bool {
        self.on_expiry == then && self.expires.is_some_and(|expires| expires <= Timestamp::now())
    }
}

impl Inner {
    fn set_expiry(&self, id: &SessionId, expires: Option<Timestamp>, then: Option<OnExpiry>) -> Result<SessionInfo> {
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared_soon()?;
        if self.record(id)?.state == SessionState::Destroying {
            return Err(Error::new(ErrorCode::SessionDestroying, format!("session `{id}` is being destroyed")));
        }
        self.state.set_expiry(id, expires, then)?;
        self.something_due.notify_one();
        self.record(id).and_then(|record| self.info(record))
    }

    /// Pauses a session whose time is up, with as much of it as is wanted and can be kept here; then no end is set for it
    /// any more.
    /// `false`: it has time left, or is not active.
    pub(crate) fn pause_when_expired(&self, id: &SessionId) -> Result<bool> {
        let session = self.session_unused(id)?;
        let _entry = session.gate.enter_giving_way(Closing::Pausing, self.config.pause_drain_timeout)?;
        let record = self.record(id)?;
        let keep = if record.is_due(OnExpiry::Pause) {
            self.best_keep()
        } else if record.is_due(OnExpiry::PauseFiles) {
            Keep::Files
        } else {
            return Ok(false);
        };
        if record.state != SessionState::Active {
            self.state.set_expiry(id, None, None)?;
            return Ok(false);
        }
        self.stop_clock(&session, &record, keep, None)?;
        Ok(true)
    }
}
