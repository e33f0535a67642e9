//! Expiry of a session: setting it, and pausing an expired session.
//!
//! `set_expiry` holds a shared entry, and an operation that acts on the expiry checks it again with
//! exclusive entry: a session whose expiry was extended before is neither paused nor destroyed. A
//! `set_expiry` that meets such a pause waits for it, or makes it yield while it still drains; it
//! is never refused because of the pause.

use jiff::Timestamp;
use sandbar_core::{
    Error, ErrorCode, Keep, OnExpiry, Result, SessionId, SessionInfo, SessionState,
};

use crate::{
    Host,
    admission::ExclusiveWork,
    engine::Engine,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Sets when a session expires; `None` is never, and a time in the past is now. Without `then`,
    /// the action on expiry stays as it was.
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
        self.run(call, move |engine| {
            engine.set_expiry(&target, expires, then)
        })
        .await
    }
}

impl SessionRecord {
    /// Whether the session has expired and `then` is its action.
    pub(crate) fn is_due(&self, then: OnExpiry) -> bool {
        self.on_expiry == then
            && self
                .expires
                .is_some_and(|expires| expires <= Timestamp::now())
    }
}

impl Engine {
    fn set_expiry(
        &self,
        id: &SessionId,
        expires: Option<Timestamp>,
        then: Option<OnExpiry>,
    ) -> Result<SessionInfo> {
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared_waiting()?;
        if self.record(id)?.state == SessionState::Destroying {
            return Err(Error::new(
                ErrorCode::SessionDestroying,
                format!("session `{id}` is being destroyed"),
            ));
        }
        self.state.set_expiry(id, expires, then)?;
        self.something_due.notify_one();
        self.record(id).and_then(|record| self.info(record))
    }

    /// Pauses an expired session and clears its expiry. Keeps its memory if the action and the
    /// runtime allow it. `false`: it has not expired, or is not active.
    pub(crate) fn pause_when_expired(&self, id: &SessionId) -> Result<bool> {
        let session = self.session_unused(id)?;
        let _entry = session
            .admission
            .enter_exclusive_yielding(ExclusiveWork::Pausing, self.config.pause_drain_timeout)?;
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
