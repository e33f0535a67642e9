//! After a crash: finish or undo what was intended, then make records and storage agree.

use std::collections::HashSet;

use sandbar_core::{ErrorCode, LaterSnapshots, Result, SessionId, SessionState, SnapshotName};

use crate::{
    audit::Event,
    host::Inner,
    state::{self, Intent, IntentId, SessionRecord},
};

/// Brings state database and storage to agreement. Running it twice does nothing new.
pub(crate) fn recover(inner: &Inner) -> Result<()> {
    for (id, intent) in inner.state.intents()? {
        tracing::info!(?intent, "found an intent that was left");
        settle(inner, id, &intent)?;
    }
    inner.state.end_processes("host restarted")?;
    reconcile_volumes(inner)
}

/// Finishes or undoes one intent.
fn settle(inner: &Inner, id: IntentId, intent: &Intent) -> Result<()> {
    match intent {
        Intent::Create { sessions } => {
            for session in sessions {
                // A record means that the result was committed; then the intent would be gone with it.
                if inner.state.session(session)?.is_none() {
                    inner.storage.delete(session)?;
                }
            }
            inner.state.forget(id)
        }
        Intent::Snapshot { session, name } => {
            let known = inner.state.snapshots(session)?.iter().any(|snapshot| snapshot.name == *name);
            if !known && inner.state.session(session)?.is_some() {
                absent_is_fine(inner.storage.delete_snapshot(session, name))?;
                record(inner, session, "undid a snapshot that was half taken", Some(name));
            }
            inner.state.forget(id)
        }
        Intent::Rollback { session, name, keep_later } => {
            let later = if *keep_later { LaterSnapshots::Keep } else { LaterSnapshots::Drop };
            absent_is_fine(inner.storage.rollback(session, name, later))?;
            record_rollback(inner, id, session, name, later)?;
            record(inner, session, "finished a rollback", Some(name));
            Ok(())
        }
        Intent::DeleteSnapshot { session, name } => {
            absent_is_fine(inner.storage.delete_snapshot(session, name))?;
            inner.state.transaction(|database| {
                state::delete_snapshot(database, session, name)?;
                id.clear(database)
            })?;
            record(inner, session, "finished the deletion of a snapshot", Some(name));
            Ok(())
        }
        Intent::Destroy { session } => {
            inner.storage.delete(session)?;
            let pack = inner.state.session(session)?.and_then(|record| record.pack);
            inner.state.transaction(|database| {
                state::delete_session(database, session)?;
                pack.map(|pack| Intent::DeletePack { pack }.insert(database)).transpose()?;
                id.clear(database)
            })?;
            record(inner, session, "finished the destruction of the session", None);
            Ok(())
        }
        Intent::Hibernate { pack, .. } => inner.state.transaction(|database| {
            Intent::DeletePack { pack: pack.clone() }.insert(database)?;
            id.clear(database)
        }),
        Intent::FreeVolume { session } => {
            if inner.is_hibernated(session)? {
                inner.storage.delete(session)?;
            }
            inner.state.forget(id)
        }
        Intent::SaveBase { volume } => {
            // A record means that the result was committed; then the intent would be gone with it.
            if inner.state.saved_bases()?.iter().all(|base| base.volume != *volume) {
                inner.storage.delete(volume)?;
            }
            inner.state.forget(id)
        }
        Intent::DropBase { volume } => {
            inner.storage.delete(volume)?;
            inner.state.forget(id)
        }
        // An object store that does not answer must not keep the host from starting.
        Intent::DeletePack { .. } => Ok(()),
    }
}

/// Writes into the log of a session what was decided about it.
fn record(inner: &Inner, session: &SessionId, decision: &'static str, snapshot: Option<&SnapshotName>) {
    let event = Event::of_host(session, "recover").with("decision", decision);
    inner.record_event(event.with("snapshot", snapshot.map(SnapshotName::as_str)));
}

fn absent_is_fine(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if matches!(error.code(), ErrorCode::SessionNotFound | ErrorCode::SnapshotNotFound) => Ok(()),
        outcome => outcome,
    }
}

/// Records that a volume stands on `name` now, and which snapshots are left.
pub(crate) fn record_rollback(
    inner: &Inner,
    intent: IntentId,
    session: &SessionId,
    name: &SnapshotName,
    later: LaterSnapshots,
) -> Result<()> {
    let known = inner.state.snapshots(session)?;
    let left: HashSet<SnapshotName> = match inner.storage.snapshots(session) {
        Ok(snapshots) => snapshots.into_iter().map(|snapshot| snapshot.name).collect(),
        Err(error) if error.code() == ErrorCode::SessionNotFound => HashSet::new(),
        Err(error) => {
            // The volume has gone back, so what is left is what must be; the next start compares.
            tracing::warn!(%session, error = error.chain(), "could not ask which snapshots a rollback left");
            let target = known.iter().position(|snapshot| snapshot.name == *name);
            let kept = match (later, target) {
                (LaterSnapshots::Drop, Some(target)) => &known[..=target],
                _ => &known[..],
            };
            kept.iter().map(|snapshot| snapshot.name.clone()).collect()
        }
    };
    inner.state.transaction(|database| {
        for snapshot in known.iter().filter(|snapshot| !left.contains(&snapshot.name)) {
            state::delete_snapshot(database, session, &snapshot.name)?;
        }
        let head = left.contains(name).then_some(name);
        state::set_head(database, session, head)?;
        intent.clear(database)
    })
}

/// Volumes nobody knows are removed; sessions whose volume is gone have failed. A saved base whose volume is gone stays
/// until somebody deletes it: making sessions from it fails, and says why.
fn reconcile_volumes(inner: &Inner) -> Result<()> {
    let volumes: HashSet<SessionId> = inner.storage.volumes()?.into_iter().collect();
    let sessions = inner.state.sessions()?;
    let saved = inner.state.saved_bases()?;
    let known: HashSet<&SessionId> =
        sessions.iter().map(|session| &session.id).chain(saved.iter().map(|base| &base.volume)).collect();
    for volume in volumes.iter().filter(|volume| !known.contains(volume)) {
        tracing::warn!(%volume, "removing a volume that nobody knows");
        inner.storage.delete(volume)?;
    }
    for SessionRecord { id: session, state: in_state, pack, .. } in sessions {
        if in_state == SessionState::Hibernated {
            if volumes.contains(&session) {
                tracing::warn!(%session, "removing what is left of the volume of a hibernated session");
                inner.storage.delete(&session)?;
            }
            continue;
        }
        // Asked for by name as well: one listing that leaves out a volume is no loss.
        if !volumes.contains(&session) && inner.storage.volume_base(&session).is_err() {
            if in_state == SessionState::Destroying {
                // The storage had done it, whatever it said. A pack is left to the janitor.
                if pack.is_none() {
                    inner.state.transaction(|database| state::delete_session(database, &session))?;
                }
            } else if in_state != SessionState::Failed {
                tracing::error!(%session, "the volume of this session is gone");
                inner.state.set_state(&session, SessionState::Failed)?;
                let failed = Event::of_host(&session, "recover").told(SessionState::Failed);
                inner.record_event(failed.with("decision", "the volume is gone: the session has failed"));
            }
            continue;
        }
        if in_state == SessionState::Failed {
            tracing::warn!(%session, "the volume of this session is back");
            inner.state.set_state(&session, SessionState::Active)?;
        }
        reconcile_snapshots(inner, &session)?;
    }
    Ok(())
}

pub(crate) fn reconcile_snapshots(inner: &Inner, session: &SessionId) -> Result<()> {
    let stored: HashSet<SnapshotName> =
        inner.storage.snapshots(session)?.into_iter().map(|snapshot| snapshot.name).collect();
    let known = inner.state.snapshots(session)?;
    let missing: Vec<&SnapshotName> =
        known.iter().map(|snapshot| &snapshot.name).filter(|name| !stored.contains(*name)).collect();
    for name in &missing {
        tracing::error!(%session, snapshot = %name, "this snapshot is gone from the storage");
    }
    if !missing.is_empty() {
        inner.state.transaction(|database| {
            missing.iter().try_for_each(|name| state::delete_snapshot(database, session, name))
        })?;
        for name in missing {
            record(inner, session, "the snapshot is gone from the storage: forgot it", Some(name));
        }
    }
    for name in stored.iter().filter(|name| !known.iter().any(|snapshot| snapshot.name == **name)) {
        tracing::warn!(%session, snapshot = %name, "removing a snapshot that no record knows");
        inner.storage.delete_snapshot(session, name)?;
        record(inner, session, "removed a snapshot that no record knows", Some(name));
    }
    Ok(())
}
