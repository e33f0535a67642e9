//! Ending a session for good.

use sandbar_core::{ErrorCode, Result, SessionId, SessionState};

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
    pub(crate) fn destroy(&self, id: &SessionId) -> Result<()> {
        let session = self.session(id)?;
        // Tools have their time; what is left of them then is ended.
        let entered = session.gate.enter_to_destroy(self.config.pause_drain_timeout, || session.end_work());
        let entry = match entered {
            Ok(entry) => entry,
            // Somebody else has destroyed it while this caller waited.
            Err(error) if error.code() == ErrorCode::SessionNotFound => return Ok(()),
            Err(error) => return Err(error),
        };
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
        Ok(())
    }
}
