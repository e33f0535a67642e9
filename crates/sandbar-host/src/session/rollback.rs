//! Rolling a session back to a snapshot.

use std::collections::HashSet;

use sandbar_core::{
    Error, ErrorCode, LaterSnapshots, Result, SessionId, SessionInfo, SnapshotName,
};

use crate::{
    Host,
    admission::ExclusiveWork,
    engine::Engine,
    process::StopReason,
    state::{self, Intent, IntentId},
    verb::{Call, Verb},
};

impl Host {
    /// Rolls a session back to a snapshot. Stops what runs in it first; later snapshots are dropped
    /// or kept. The session keeps its id. A name that does not exist changes nothing.
    pub async fn rollback_session(
        &self,
        id: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<SessionInfo> {
        let (id, name) = (id.clone(), name.clone());
        let call = Call::on(&id, Verb::RollbackSession).with("snapshot", name.as_str());
        self.run(call, move |engine| engine.rollback(&id, &name, later))
            .await
    }
}

impl Engine {
    fn rollback(
        &self,
        id: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<SessionInfo> {
        let session = self.session(id)?;
        // Before the drain, so that a call that must fail disturbs nothing; and again after it,
        // when no other caller can change it.
        self.require_snapshot(id, name)?;
        let _entry = session
            .admission
            .enter_exclusive(ExclusiveWork::RollingBack, self.config.pause_drain_timeout)?;
        self.present(id)?;
        self.require_snapshot(id, name)?;
        if later == LaterSnapshots::Keep
            && let Some(reason) = self.storage.facts().keep_later.reason()
        {
            return Err(Error::invalid(
                "keep_later",
                format!("later snapshots cannot be kept: {reason}"),
            )
            .with_hint("omit `keep_later`; later snapshots are then dropped"));
        }
        let owners = session.stop(StopReason::RolledBack)?;
        let intent = self.state.intend(&Intent::rollback(id, name, later))?;
        let _order = session.order_storage();
        let outcome = self.storage.rollback(id, name, later);
        if outcome.is_err()
            && let Err(error) = self.storage.unmount(id)
        {
            tracing::warn!(session = %id, error = error.chain(), "could not unmount a session after a failed rollback");
        }
        drop(owners);
        match outcome {
            // Clears the intent even if the result cannot be recorded: recovery would otherwise
            // repeat the rollback at the next start and discard later work.
            Ok(()) => self
                .record_rollback(intent, id, name, later)
                .or_else(|error| self.state.forget(intent).and(Err(error)))?,
            // The tree is either the old or the new one, but some later snapshots may be gone.
            Err(error) => {
                self.state.forget(intent)?;
                self.reconcile_snapshots(id)?;
                return Err(error);
            }
        }
        self.record(id).and_then(|record| self.info(record))
    }

    /// Records a rollback to `name` that the storage has done: the new head, and the snapshots that
    /// are left.
    pub(crate) fn record_rollback(
        &self,
        intent: IntentId,
        session: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<()> {
        let known = self.state.snapshots(session)?;
        let left: HashSet<SnapshotName> = match self.storage.snapshots(session) {
            Ok(snapshots) => snapshots
                .into_iter()
                .map(|snapshot| snapshot.name)
                .collect(),
            Err(error) if error.code() == ErrorCode::SessionNotFound => HashSet::new(),
            Err(error) => {
                // The rollback is done, so the snapshots left follow from `later`. Recovery
                // compares them with the storage at the next start.
                tracing::warn!(%session, error = error.chain(), "could not list the snapshots left by a rollback");
                let target = known.iter().position(|snapshot| snapshot.name == *name);
                let kept = match (later, target) {
                    (LaterSnapshots::Drop, Some(target)) => &known[..=target],
                    _ => &known[..],
                };
                kept.iter().map(|snapshot| snapshot.name.clone()).collect()
            }
        };
        self.state.transaction(|database| {
            for snapshot in known
                .iter()
                .filter(|snapshot| !left.contains(&snapshot.name))
            {
                state::delete_snapshot(database, session, &snapshot.name)?;
            }
            let head = left.contains(name).then_some(name);
            state::set_head(database, session, head)?;
            intent.clear(database)
        })
    }

    /// Makes records and storage agree on the snapshots of a session: deletes records without a
    /// snapshot, and snapshots without a record.
    pub(crate) fn reconcile_snapshots(&self, session: &SessionId) -> Result<()> {
        let stored: HashSet<SnapshotName> = self
            .storage
            .snapshots(session)?
            .into_iter()
            .map(|snapshot| snapshot.name)
            .collect();
        let known = self.state.snapshots(session)?;
        let missing: Vec<&SnapshotName> = known
            .iter()
            .map(|snapshot| &snapshot.name)
            .filter(|name| !stored.contains(*name))
            .collect();
        for name in &missing {
            tracing::error!(%session, snapshot = %name, "snapshot is missing from the storage");
        }
        if !missing.is_empty() {
            self.state.transaction(|database| {
                missing
                    .iter()
                    .try_for_each(|name| state::delete_snapshot(database, session, name))
            })?;
            for name in missing {
                let decision = "deleted the record of a snapshot missing from the storage";
                self.record_recovery(session, decision, Some(name));
            }
        }
        for name in stored
            .iter()
            .filter(|name| !known.iter().any(|snapshot| snapshot.name == **name))
        {
            tracing::warn!(%session, snapshot = %name, "deleting a snapshot without a record");
            self.storage.delete_snapshot(session, name)?;
            self.record_recovery(session, "deleted a snapshot without a record", Some(name));
        }
        Ok(())
    }
}
