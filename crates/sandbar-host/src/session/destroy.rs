//! Destroying a session.

use sandbar_core::{ErrorCode, OnExpiry, Result, SessionId, SessionState};

use super::Session;
use crate::{
    Host,
    engine::Engine,
    process::StopReason,
    state::{self, Intent},
    verb::{Call, Verb},
};

impl Host {
    /// Stops what runs in a session and deletes its volume, snapshots and records. Concurrent calls
    /// all succeed.
    pub async fn destroy_session(&self, id: &SessionId) -> Result<()> {
        // Looked up before the call waits for a slot: another caller may destroy the session
        // meanwhile, and its id may belong to a new one.
        let session = self.engine().session(id);
        self.run(Call::on(id, Verb::DestroySession), move |engine| {
            engine.admit()?;
            let session = session?;
            engine.destroy(&session)
        })
        .await
    }
}

impl Engine {
    /// Destroys a session. If the storage fails, the session stays `destroying` and the janitor
    /// repeats the deletion.
    fn destroy(&self, session: &Session) -> Result<()> {
        self.destroy_if(session, || Ok(true)).map(|_| ())
    }

    /// Destroys a session that has expired or whose destruction failed earlier. `false`: neither is
    /// so, or another caller destroyed it.
    pub(crate) fn destroy_when_due(&self, id: &SessionId) -> Result<bool> {
        self.destroy_if(&*self.session(id)?, || {
            let record = self.state.session(id)?;
            Ok(record.is_some_and(|record| {
                record.state == SessionState::Destroying || record.is_due(OnExpiry::Destroy)
            }))
        })
    }

    /// Destroys a session if `is_wanted` still holds with exclusive entry; returns whether this
    /// call did.
    fn destroy_if(&self, session: &Session, is_wanted: impl Fn() -> Result<bool>) -> Result<bool> {
        let id = &session.id;
        // After the drain timeout tool calls and streams are cancelled; what does not react to that
        // ends with the box.
        let mut is_killed = false;
        let entered = session.admission.enter_to_destroy(self.config.pause_drain_timeout, || {
            is_wanted().unwrap_or(false)
                // Recorded first, so that a caller whose tool is cancelled finds the reason in the
                // state.
                && self.state.set_state(id, SessionState::Destroying).is_ok()
                && (session.end_work() || (!std::mem::replace(&mut is_killed, true) && session.end_box()))
        });
        let entry = match entered {
            Ok(entry) => entry,
            // Another caller has destroyed it while this one waited.
            Err(error) if error.code() == ErrorCode::SessionNotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if !is_wanted()? {
            return Ok(false);
        }
        let intent = self.state.intend(&Intent::Destroy {
            session: id.clone(),
        })?;
        let outcome = self
            .state
            .set_state(id, SessionState::Destroying)
            .and_then(|()| {
                let _owners = session.stop(StopReason::Destroyed)?;
                // Before the entry about the destruction, which is the last one of the log.
                self.decisions.write_all(self);
                let _order = session.order_storage();
                self.delete_content(id)
            });
        if let Err(error) = outcome {
            // The state `destroying` already makes the janitor repeat the deletion.
            self.state.forget(intent)?;
            return Err(error);
        }
        self.state.transaction(|database| {
            state::delete_session(database, id)?;
            intent.clear(database)
        })?;
        self.release(id);
        entry.leave_for_good();
        Ok(true)
    }
}
