//! Ending a session for good.

use sandbar_core::{ErrorCode, OnExpiry, Result, SessionId, SessionState};

use crate::{
    Host,
    host::Inner,
    process::StopReason,
    state::{self, Intent},
    verb::{Call, Verb},
};

impl Host {
    /// Ends what runs in the session and removes its volume, snapshots and records. Two callers at once both succeed.
    pub async fn destroy_session(&self, id: &SessionId) -> Result<()> {
        let target = id.clone();
        self.run(Call::on(id, Verb::DestroySession), move |inner| inner.destroy(&target)).await
    }
}

impl Inner {
    /// Destroys a session. When the storage fails, the session stays `destroying` and the janitor tries again.
    fn destroy(&self, id: &SessionId) -> Result<()> {
        self.destroy_if(id, || Ok(true)).map(|_| ())
    }

    /// Destroys a session whose time is up, or that is half destroyed. `false`: it is neither, or somebody else did.
    pub(crate) fn destroy_when_due(&self, id: &SessionId) -> Result<bool> {
        self.destroy_if(id, || {
            let record = self.state.session(id)?;
            Ok(record
                .is_some_and(|record| record.state == SessionState::Destroying || record.is_due(OnExpiry::Destroy)))
        })
    }

    /// Destroys a session if that is still wanted when nobody else is inside; says whether it was done here.
    fn destroy_if(&self, id: &SessionId, is_wanted: impl Fn() -> Result<bool>) -> Result<bool> {
        let session = self.session(id)?;
        // Tools have their time; what is left of them then is ended, and what does not end then ends with the box.
        let mut is_killed = false;
        let entered = session.gate.enter_to_destroy(self.config.pause_drain_timeout, || {
            is_wanted().unwrap_or(false)
                // Recorded first: a caller whose tool is ended reads the reason in the state.
                && self.state.set_state(id, SessionState::Destroying).is_ok()
                && (session.end_work() || (!std::mem::replace(&mut is_killed, true) && session.end_box()))
        });
        let entry = match entered {
            Ok(entry) => entry,
            // Somebody else has destroyed it while this caller waited.
            Err(error) if error.code() == ErrorCode::SessionNotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if !is_wanted()? {
            return Ok(false);
        }
        let intent = self.state.intend(&Intent::Destroy { session: id.clone() })?;
        let outcome = self.state.set_state(id, SessionState::Destroying).and_then(|()| {
            let _owners = session.stop(StopReason::Destroyed)?;
            // The last entry is the one that says that the session is gone.
            self.decisions.write(self);
            let _order = session.order_storage();
            self.delete_content(id)
        });
        if let Err(error) = outcome {
            // The state says what is left to do; a second intent for the same would only be in the way.
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
