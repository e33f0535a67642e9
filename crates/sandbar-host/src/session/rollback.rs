//! Going back to a snapshot.

use sandbar_core::{LaterSnapshots, Result, SessionId, SessionInfo, SnapshotName};

use crate::{
    Host,
    gate::Closing,
    host::Inner,
    process::StopReason,
    recovery,
    state::Intent,
    verb::{Call, Verb},
};

impl Host {
    /// Puts a session back to a snapshot. What runs in it is ended first; later snapshots are dropped or kept. The
    /// session keeps its id. A name that does not exist changes nothing.
    pub async fn rollback_session(
        &self,
        id: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<SessionInfo> {
        let (id, name) = (id.clone(), name.clone());
        let call = Call::on(&id, Verb::RollbackSession).with("snapshot", name.as_str());
        self.run(call, move |inner| inner.roll_back(&id, &name, later)).await
    }
}

impl Inner {
    fn roll_back(&self, id: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Result<SessionInfo> {
        let session = self.session(id)?;
        // Checked before anybody is disturbed, and again when nobody else can change it.
        self.require_snapshot(id, name)?;
        let _entry = session.gate.enter_exclusive(Closing::RollingBack, self.config.pause_drain_timeout)?;
        self.present(id)?;
        self.require_snapshot(id, name)?;
        if later == LaterSnapshots::Keep
            && let Some(reason) = self.storage.facts().keep_later.reason()
        {
            return Err(sandbar_core::Error::invalid(
                "keep_later",
                format!("later snapshots cannot be kept: {reason}"),
            )
            .with_hint("leave it out, and later snapshots are dropped"));
        }
        let owners = session.stop(StopReason::RolledBack)?;
        let intent = self.state.intend(&Intent::rollback(id, name, later))?;
        let _order = session.order_storage();
        let outcome = self.storage.rollback(id, name, later);
        if outcome.is_err()
            && let Err(error) = self.storage.unmount(id)
        {
            tracing::warn!(session = %id, error = error.chain(), "could not unmount a session that was not rolled back");
        }
        drop(owners);
        // Also after a failure: the tree is either the old or the new one, but some later snapshots may be gone.
        match outcome {
            Ok(()) => recovery::record_rollback(self, intent, id, name)?,
            Err(error) => {
                self.state.forget(intent)?;
                recovery::reconcile_snapshots(self, id)?;
                return Err(error);
            }
        }
        self.record(id).and_then(|record| self.info(record))
    }
}
