//! Recovery at start: finishes or undoes the intents an earlier host left, then makes records and
//! storage agree.

use std::collections::HashSet;

use sandbar_core::{ErrorCode, LaterSnapshots, Result, SessionId, SessionState};

use crate::{
    audit::Event,
    engine::Engine,
    state::{self, Intent, IntentId, SessionRecord},
};

/// Makes state database and storage agree. Idempotent.
pub(crate) fn recover(engine: &Engine) -> Result<()> {
    for (id, intent) in engine.state.intents()? {
        tracing::info!(?intent, "settling an intent of an earlier host");
        settle(engine, id, &intent)?;
    }
    engine.state.end_processes("host restarted")?;
    reconcile_volumes(engine)
}

/// Finishes or undoes one intent.
fn settle(engine: &Engine, id: IntentId, intent: &Intent) -> Result<()> {
    match intent {
        Intent::Create { sessions } => {
            for session in sessions {
                // A record was committed together with the removal of its intent, so with the
                // intent still here the volume has none.
                if engine.state.session(session)?.is_none() {
                    engine.storage.delete(session)?;
                }
            }
            engine.state.forget(id)
        }
        Intent::Snapshot { session, name } => {
            let known = engine
                .state
                .snapshots(session)?
                .iter()
                .any(|snapshot| snapshot.name == *name);
            if !known && engine.state.session(session)?.is_some() {
                absent_is_fine(engine.storage.delete_snapshot(session, name))?;
                engine.record_recovery(session, "undid an unfinished snapshot", Some(name));
            }
            engine.state.forget(id)
        }
        Intent::Rollback {
            session,
            name,
            keep_later,
        } => {
            let later = if *keep_later {
                LaterSnapshots::Keep
            } else {
                LaterSnapshots::Drop
            };
            absent_is_fine(engine.storage.rollback(session, name, later))?;
            engine.record_rollback(id, session, name, later)?;
            engine.record_recovery(session, "finished a rollback", Some(name));
            Ok(())
        }
        Intent::DeleteSnapshot { session, name } => {
            absent_is_fine(engine.storage.delete_snapshot(session, name))?;
            engine.state.transaction(|database| {
                state::delete_snapshot(database, session, name)?;
                id.clear(database)
            })?;
            engine.record_recovery(session, "finished the deletion of a snapshot", Some(name));
            Ok(())
        }
        Intent::Destroy { session } => {
            engine.storage.delete(session)?;
            let pack = engine
                .state
                .session(session)?
                .and_then(|record| record.pack);
            engine.state.transaction(|database| {
                state::delete_session(database, session)?;
                pack.map(|pack| Intent::DeletePack { pack }.insert(database))
                    .transpose()?;
                id.clear(database)
            })?;
            engine.record_recovery(session, "finished the destruction of the session", None);
            Ok(())
        }
        Intent::Hibernate { pack, .. } => engine.state.transaction(|database| {
            Intent::DeletePack { pack: pack.clone() }.insert(database)?;
            id.clear(database)
        }),
        Intent::FreeVolume { session } => {
            if engine.is_hibernated(session)? {
                engine.storage.delete(session)?;
            }
            engine.state.forget(id)
        }
        Intent::SaveBase { volume } => {
            // As with `Create`.
            if engine
                .state
                .saved_bases()?
                .iter()
                .all(|base| base.volume != *volume)
            {
                engine.storage.delete(volume)?;
            }
            engine.state.forget(id)
        }
        Intent::DropBase { volume } => {
            engine.storage.delete(volume)?;
            engine.state.forget(id)
        }
        // Left to the janitor: an unreachable object store must not keep the host from starting.
        Intent::DeletePack { .. } => Ok(()),
    }
}

fn absent_is_fine(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error)
            if matches!(
                error.code(),
                ErrorCode::SessionNotFound | ErrorCode::SnapshotNotFound
            ) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Deletes volumes without a record, and marks sessions without a volume as failed. A saved base
/// without a volume stays listed until it is deleted; creating a session from it fails with the
/// reason.
fn reconcile_volumes(engine: &Engine) -> Result<()> {
    let volumes: HashSet<SessionId> = engine.storage.volumes()?.into_iter().collect();
    let sessions = engine.state.sessions()?;
    let saved = engine.state.saved_bases()?;
    let known: HashSet<&SessionId> = sessions
        .iter()
        .map(|session| &session.id)
        .chain(saved.iter().map(|base| &base.volume))
        .collect();
    for volume in volumes.iter().filter(|volume| !known.contains(volume)) {
        tracing::warn!(%volume, "deleting a volume without a record");
        engine.storage.delete(volume)?;
    }
    for SessionRecord {
        id: session,
        state: in_state,
        pack,
        ..
    } in sessions
    {
        if in_state == SessionState::Hibernated {
            if volumes.contains(&session) {
                tracing::warn!(%session, "deleting the remaining volume of a hibernated session");
                engine.storage.delete(&session)?;
            }
            continue;
        }
        // Looked up by name as well, so that one incomplete listing fails no session.
        if !volumes.contains(&session) && engine.storage.volume_base(&session).is_err() {
            if in_state == SessionState::Destroying {
                // The deletion had succeeded although it returned an error. A pack is left to the
                // janitor.
                if pack.is_none() {
                    engine
                        .state
                        .transaction(|database| state::delete_session(database, &session))?;
                }
            } else if in_state != SessionState::Failed {
                tracing::error!(%session, "session volume is missing");
                engine.state.set_state(&session, SessionState::Failed)?;
                let failed = Event::of_host(&session, "recover").for_watchers(SessionState::Failed);
                engine.record_event(failed.with(
                    "decision",
                    "marked the session as failed: its volume is missing",
                ));
            }
            continue;
        }
        if in_state == SessionState::Failed {
            tracing::warn!(%session, "session volume is back");
            engine.state.set_state(&session, SessionState::Active)?;
        }
        engine.reconcile_snapshots(&session)?;
    }
    Ok(())
}
