//! Snapshots of a session: by name, and one after every turn.

use jiff::{Timestamp, tz::TimeZone};
use sandbar_core::{
    Error, ErrorCode, EventKind, Quiesce, Result, SessionId, SnapshotInfo, SnapshotKind,
    SnapshotName,
};

use super::Session;
use crate::{
    Host,
    audit::{Event, note},
    engine::Engine,
    state::{self, Intent},
    verb::{Call, Verb},
};

impl Host {
    /// Takes a snapshot that is never pruned. Without a name, one is generated from the time.
    pub async fn create_snapshot(
        &self,
        id: &SessionId,
        name: Option<SnapshotName>,
        quiesce: Quiesce,
    ) -> Result<SnapshotInfo> {
        let id = id.clone();
        let name = name.map_or_else(generated_name, Ok)?;
        let call = Call::on(&id, Verb::CreateSnapshot).with("snapshot", name.as_str());
        self.run(call, move |engine| {
            let session = engine.session(&id)?;
            let _entry = session.admission.enter_shared()?;
            engine.present(&id)?;
            engine.require_room_for_snapshot(&id)?;
            engine.take_snapshot(&session, &name, SnapshotKind::Named, None, quiesce)
        })
        .await
    }

    /// Ends a turn: takes a snapshot named after the next turn number. Numbers never repeat.
    pub async fn turn_complete(&self, id: &SessionId) -> Result<SnapshotInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::TurnComplete), move |engine| {
            engine.complete_turn(&target)
        })
        .await
    }

    /// Lists the snapshots of a session, oldest first.
    pub async fn list_snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotInfo>> {
        let target = id.clone();
        let call = Call::on(id, Verb::ListSnapshots);
        self.run(call, move |engine| {
            engine
                .record(&target)
                .and_then(|_| engine.state.snapshots(&target))
        })
        .await
    }

    /// Deletes a snapshot. Forks made from it are kept.
    pub async fn delete_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<()> {
        let (id, name) = (id.clone(), name.clone());
        let call = Call::on(&id, Verb::DeleteSnapshot).with("snapshot", name.as_str());
        self.run(call, move |engine| {
            let session = engine.session(&id)?;
            let _entry = session.admission.enter_shared()?;
            engine.present(&id)?;
            engine.require_snapshot(&id, &name)?;
            engine.remove_snapshot(&session, &name)
        })
        .await
    }
}

impl Engine {
    fn complete_turn(&self, id: &SessionId) -> Result<SnapshotInfo> {
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        let mut turn = self.active(id)?.turns;
        loop {
            turn += 1;
            let name = SnapshotName::new(format!("{}-{turn:04}", self.config.snapshot_prefix))?;
            match self.take_snapshot(
                &session,
                &name,
                SnapshotKind::Turn,
                Some(turn),
                Quiesce::WhereNeeded,
            ) {
                // Another caller took this number, or a named snapshot has this name.
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
        if turn.is_some_and(|turn| turn <= record.turns) || self.find_snapshot(id, name)?.is_some()
        {
            return Err(Error::new(
                ErrorCode::SnapshotExists,
                format!("snapshot `{name}` of session `{id}` exists already"),
            )
            .with_field("snapshot")
            .with_hint("choose another name"));
        }
        let intent = self.state.intend(&Intent::Snapshot {
            session: id.clone(),
            name: name.clone(),
        })?;
        let stored = self.quiesced(session, &record, quiesce, || {
            self.storage.snapshot(id, name)
        });
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
                // A snapshot that the storage had before this call must not be deleted.
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
        let intent = self.state.intend(&Intent::DeleteSnapshot {
            session: id.clone(),
            name: name.clone(),
        })?;
        if let Err(error) = self.storage.delete_snapshot(id, name) {
            // The deletion may have taken effect although it returned an error.
            let gone = self
                .storage
                .snapshots(id)
                .is_ok_and(|left| left.iter().all(|snapshot| snapshot.name != *name));
            if !gone {
                self.state.forget(intent)?;
                return Err(error);
            }
            tracing::warn!(session = %id, snapshot = %name, error = error.chain(), "snapshot was deleted although the storage returned an error");
        }
        self.state.transaction(|database| {
            state::delete_snapshot(database, id, name)?;
            intent.clear(database)
        })
    }

    /// Prunes a session to `pressure_snapshots_per_session`, because the pool is nearly full.
    pub(crate) fn prune_harder(&self, id: &SessionId) -> Result<()> {
        let session = self.session_unused(id)?;
        let _entry = session.admission.enter_shared()?;
        self.present(id)?;
        let allowed = self.config.max_snapshots_per_session;
        let left = self.config.pressure_snapshots_per_session;
        self.prune(
            &session,
            if allowed == 0 {
                left
            } else {
                allowed.min(left)
            },
        );
        Ok(())
    }

    /// Deletes the oldest turn and tool snapshots beyond `limit`; zero is no limit. Failures are
    /// logged and repeated after the next snapshot.
    fn prune(&self, session: &Session, limit: usize) {
        if limit == 0 {
            return;
        }
        let snapshots = match self.state.snapshots(&session.id) {
            Ok(snapshots) => snapshots,
            Err(error) => {
                tracing::warn!(session = %session.id, error = error.chain(), "could not list snapshots to prune");
                return;
            }
        };
        let excess = snapshots.len().saturating_sub(limit);
        let prunable = snapshots
            .iter()
            .filter(|snapshot| snapshot.kind != SnapshotKind::Named);
        for snapshot in prunable.take(excess) {
            match self.remove_snapshot(session, &snapshot.name) {
                Ok(()) => {
                    self.metrics.snapshots_pruned.inc();
                    let pruned = Event::of_host(&session.id, "prune_snapshot")
                        .for_watchers(EventKind::SnapshotDeleted);
                    self.record_event(pruned.with("snapshot", snapshot.name.as_str()));
                }
                Err(error) => {
                    tracing::warn!(session = %session.id, snapshot = %snapshot.name, error = error.chain(), "could not prune a snapshot");
                }
            }
        }
    }

    /// Refuses a named snapshot beyond the limit: these are never pruned.
    fn require_room_for_snapshot(&self, id: &SessionId) -> Result<()> {
        let limit = self.config.max_named_snapshots_per_session;
        if limit == 0 || self.state.snapshot_count(id)? < limit as u64 {
            return Ok(());
        }
        let snapshots = self.state.snapshots(id)?;
        let named = snapshots
            .iter()
            .filter(|snapshot| snapshot.kind == SnapshotKind::Named);
        if named.count() < limit {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::InvalidState,
            format!("session `{id}` has reached its limit of {limit} named snapshots"),
        )
        .with_field("snapshot")
        .with_hint("delete some, or raise `max_named_snapshots_per_session`"))
    }

    fn find_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<Option<SnapshotInfo>> {
        Ok(self
            .state
            .snapshots(id)?
            .into_iter()
            .find(|snapshot| snapshot.name == *name))
    }

    /// Requires a snapshot of the session. `SnapshotNotFound` lists the existing ones.
    pub(super) fn require_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<()> {
        self.record(id)?;
        let known = self.state.snapshots(id)?;
        if known.iter().any(|snapshot| snapshot.name == *name) {
            return Ok(());
        }
        Err(sandbar_storage::snapshot_not_found(
            id,
            name,
            known.iter().map(|snapshot| &snapshot.name),
        ))
    }
}

/// Generates a name from the time and random bits, so that two in one second differ.
fn generated_name() -> Result<SnapshotName> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| {
        Error::internal("ask the kernel for random bytes").with_source(error.to_string())
    })?;
    SnapshotName::new(format!(
        "snap-{}-{:08x}",
        now.strftime("%Y%m%d-%H%M%S"),
        u32::from_be_bytes(random)
    ))
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
