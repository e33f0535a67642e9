//! Snapshots of a session: by name, and one after every turn.

use jiff::{Timestamp, tz::TimeZone};
use sandbar_core::{Error, ErrorCode, EventKind, Quiesce, Result, SessionId, SnapshotInfo, SnapshotKind, SnapshotName};

use super::Session;
use crate::{
    Host,
    audit::{Event, note},
    host::Inner,
    state::{self, Intent},
    verb::{Call, Verb},
};

impl Host {
    /// Takes a snapshot that is never pruned. Without a name it gets one made of the time.
    pub async fn create_snapshot(
        &self,
        id: &SessionId,
        name: Option<SnapshotName>,
        quiesce: Quiesce,
    ) -> Result<SnapshotInfo> {
        let id = id.clone();
        let name = name.map_or_else(generated_name, Ok)?;
        let call = Call::on(&id, Verb::CreateSnapshot).with("snapshot", name.as_str());
        self.run(call, move |inner| {
            let session = inner.session(&id)?;
            let _entry = session.gate.enter_shared()?;
            inner.present(&id)?;
            inner.take_snapshot(&session, &name, SnapshotKind::Named, None, quiesce)
        })
        .await
    }

    /// Ends a turn: the next number, and a snapshot of that name. Numbers never repeat.
    pub async fn turn_complete(&self, id: &SessionId) -> Result<SnapshotInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::TurnComplete), move |inner| inner.complete_turn(&target)).await
    }

    /// Oldest first.
    pub async fn list_snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotInfo>> {
        let target = id.clone();
        let call = Call::on(id, Verb::ListSnapshots);
        self.run(call, move |inner| inner.record(&target).and_then(|_| inner.state.snapshots(&target))).await
    }

    /// Removes a snapshot. Forks made from it stay.
    pub async fn delete_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<()> {
        let (id, name) = (id.clone(), name.clone());
        let call = Call::on(&id, Verb::DeleteSnapshot).with("snapshot", name.as_str());
        self.run(call, move |inner| {
            let session = inner.session(&id)?;
            let _entry = session.gate.enter_shared()?;
            inner.present(&id)?;
            inner.require_snapshot(&id, &name)?;
            inner.remove_snapshot(&session, &name)
        })
        .await
    }
}

impl Inner {
    fn complete_turn(&self, id: &SessionId) -> Result<SnapshotInfo> {
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared()?;
        let mut turn = self.active(id)?.turns;
        loop {
            turn += 1;
            let name = SnapshotName::new(format!("{}-{turn:04}", self.config.snapshot_prefix))?;
            match self.take_snapshot(&session, &name, SnapshotKind::Turn, Some(turn), Quiesce::WhereNeeded) {
                // Another caller took this number, or somebody has given a snapshot of their own this name.
                Err(error) if error.code() == ErrorCode::SnapshotExists => {}
                outcome => {
                    note("snapshot", name.as_str());
                    return outcome;
                }
            }
        }
    }

    pub(super) fn take_snapshot(
        &self,
        session: &Session,
        name: &SnapshotName,
        kind: SnapshotKind,
        turn: Option<u64>,
        quiesce: Quiesce,
    ) -> Result<SnapshotInfo> {
        let id = &session.id;
        let order = session.order_storage();
        let record = self.present(id)?;
        if turn.is_some_and(|turn| turn <= record.turns) || self.find_snapshot(id, name)?.is_some() {
            return Err(Error::new(
                ErrorCode::SnapshotExists,
                format!("snapshot `{name}` of session `{id}` exists already"),
            )
            .with_field("snapshot")
            .with_hint("choose another name"));
        }
        let intent = self.state.intend(&Intent::Snapshot { session: id.clone(), name: name.clone() })?;
        let stored = self.in_one_moment(session, &record, quiesce, || self.storage.snapshot(id, name));
        let made = stored.and_then(|stored| {
            let info = SnapshotInfo {
                name: name.clone(),
                kind,
                created: stored.created,
                parent: record.head,
                space_used: stored.space_used,
            };
            self.state.transaction(|database| {
                state::insert_snapshot(database, id, &info)?;
                if let Some(turn) = turn {
                    state::set_turns(database, id, turn)?;
                }
                intent.clear(database)
            })?;
            Ok(info)
        });
        match made {
            Ok(info) => {
                drop(order);
                self.prune(session, self.config.max_snapshots_per_session);
                Ok(info)
            }
            Err(error) => {
                // Not when the storage had one of this name all along: that is not ours to remove.
                let undone = match error.code() {
                    ErrorCode::SnapshotExists => Ok(()),
                    _ => self.storage.delete_snapshot(id, name),
                };
                undone.and_then(|()| self.state.forget(intent)).unwrap_or_else(|undo| {
                    tracing::error!(session = %id, error = undo.chain(), "could not undo a failed snapshot");
                });
                Err(error)
            }
        }
    }

    fn remove_snapshot(&self, session: &Session, name: &SnapshotName) -> Result<()> {
        let id = &session.id;
        let _order = session.order_storage();
        let intent = self.state.intend(&Intent::DeleteSnapshot { session: id.clone(), name: name.clone() })?;
        if let Err(error) = self.storage.delete_snapshot(id, name) {
            // It may be gone all the same; then a record of it would promise what is not there.
            let gone = self.storage.snapshots(id).is_ok_and(|left| left.iter().all(|snapshot| snapshot.name != *name));
            if !gone {
                self.state.forget(intent)?;
                return Err(error);
            }
            tracing::warn!(session = %id, snapshot = %name, error = error.chain(), "removed, whatever the storage says");
        }
        self.state.transaction(|database| {
            state::delete_snapshot(database, id, name)?;
            intent.clear(database)
        })
    }

    /// Leaves a session fewer snapshots than it may have, because the pool is nearly full.
    pub(crate) fn prune_harder(&self, id: &SessionId) -> Result<()> {
        let session = self.session_unused(id)?;
        let _entry = session.gate.enter_shared()?;
        self.present(id)?;
        let allowed = self.config.max_snapshots_per_session;
        let left = self.config.pressure_snapshots_per_session;
        self.prune(&session, if allowed == 0 { left } else { allowed.min(left) });
        Ok(())
    }

    /// Removes the oldest turn and tool snapshots beyond the limit; zero is none. What cannot be removed is reported and
    /// tried again after the next snapshot.
    fn prune(&self, session: &Session, limit: usize) {
        if limit == 0 {
            return;
        }
        let snapshots = match self.state.snapshots(&session.id) {
            Ok(snapshots) => snapshots,
            Err(error) => {
                tracing::warn!(session = %session.id, error = error.chain(), "could not prune");
                return;
            }
        };
        let excess = snapshots.len().saturating_sub(limit);
        let prunable = snapshots.iter().filter(|snapshot| snapshot.kind != SnapshotKind::Named);
        for snapshot in prunable.take(excess) {
            match self.remove_snapshot(session, &snapshot.name) {
                Ok(()) => {
                    self.metrics.snapshots_pruned.inc();
                    let pruned = Event::of_host(&session.id, "prune_snapshot").told(EventKind::SnapshotDeleted);
                    self.record_event(pruned.with("snapshot", snapshot.name.as_str()));
                }
                Err(error) => {
                    tracing::warn!(session = %session.id, snapshot = %snapshot.name, error = error.chain(), "could not prune");
                }
            }
        }
    }

    fn find_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<Option<SnapshotInfo>> {
        Ok(self.state.snapshots(id)?.into_iter().find(|snapshot| snapshot.name == *name))
    }

    /// `SnapshotNotFound`, naming those there are, unless the session has this snapshot.
    pub(super) fn require_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<()> {
        self.record(id)?;
        let known = self.state.snapshots(id)?;
        if known.iter().any(|snapshot| snapshot.name == *name) {
            return Ok(());
        }
        Err(sandbar_storage::snapshot_not_found(id, name, known.iter().map(|snapshot| &snapshot.name)))
    }
}

/// A name made of the time, with something random so that two in one second differ.
fn generated_name() -> Result<SnapshotName> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let mut random = [0; 4];
    getrandom::fill(&mut random)
        .map_err(|error| Error::internal("ask the kernel for random bytes").with_source(error.to_string()))?;
    SnapshotName::new(format!("snap-{}-{:08x}", now.strftime("%Y%m%d-%H%M%S"), u32::from_be_bytes(random)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn generated_names_of_one_second_differ() {
        let names: HashSet<SnapshotName> = (0..500).map(|_| generated_name().unwrap()).collect();
        assert_eq!(names.len(), 500);
    }
}
