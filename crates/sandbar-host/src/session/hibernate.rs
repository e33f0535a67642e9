//! Hibernating a session into the object store, and waking it.
//!
//! Exactly one copy of a session is authoritative. Hibernate deletes the volume only after the
//! record points to the pack; wake deletes the pack only after the record points to the volume.

use std::{collections::HashSet, sync::PoisonError, time::Duration};

use sandbar_core::{
    Error, ErrorCode, Result, SessionId, SessionInfo, SessionState, SnapshotKind, SnapshotName,
};
use sandbar_storage::pack::{
    PackManifest, PackReference, delete_pack, pack, read_manifest, unpack,
};

use crate::{
    DefaultLimits, Host,
    admission::ExclusiveWork,
    engine::Engine,
    process::StopReason,
    state::{self, Intent, IntentId, SessionRecord},
    verb::{Call, Verb},
};

/// Separates prefix and fingerprint in the record of a session. No session id contains it.
const FINGERPRINT: char = '@';

impl Host {
    /// Packs the volume of a session into the object store and frees its space on this host. Stops
    /// what runs in the session; keeps its files and snapshots. A failed call leaves the session as
    /// it was.
    pub async fn hibernate_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::HibernateSession), move |engine| {
            engine.hibernate(&target)
        })
        .await
    }

    /// Wakes a hibernated session. It is active afterwards, even if it was paused before. After a
    /// failure it stays hibernated.
    pub async fn wake_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::WakeSession), move |engine| {
            engine.wake(&target)
        })
        .await
    }
}

impl Engine {
    fn hibernate(&self, id: &SessionId) -> Result<SessionInfo> {
        let session = self.session(id)?;
        // Before the drain, so that a call that must fail disturbs nothing; and again after it.
        self.present(id)?;
        let prefix = new_prefix(id)?;
        self.require_object_store(&prefix)?;
        let _entry = session
            .admission
            .enter_exclusive(ExclusiveWork::Hibernating, self.config.pause_drain_timeout)?;
        let record = self.present(id)?;
        let owners = session.stop(StopReason::Hibernated)?;
        let _order = session.order_storage();
        self.storage.unmount(id)?;
        drop(owners);
        let intent = self.state.intend(&Intent::Hibernate {
            session: id.clone(),
            pack: prefix.clone(),
        })?;
        let recorded = self.pack_volume(id, &prefix).and_then(|fingerprint| {
            let recorded = format!("{prefix}{FINGERPRINT}{fingerprint}");
            Ok((self.record_pack(intent, id, &recorded)?, recorded))
        });
        let recorded = match recorded {
            Ok((rest, recorded)) => {
                self.free_volume(rest, id);
                recorded
            }
            Err(error) => {
                let undone = self.state.transaction(|database| {
                    intent.clear(database)?;
                    Intent::DeletePack {
                        pack: prefix.clone(),
                    }
                    .insert(database)
                });
                match undone {
                    Ok(rest) => self.drop_pack(rest, &prefix),
                    // Recovery undoes it at the next start.
                    Err(undo) => {
                        tracing::error!(session = %id, error = undo.chain(), "could not undo a failed pack");
                    }
                }
                return Err(error);
            }
        };
        self.info(SessionRecord {
            state: SessionState::Hibernated,
            pack: Some(recorded),
            ..record
        })
    }

    /// Returns the fingerprint of the pack.
    fn pack_volume(&self, id: &SessionId, prefix: &str) -> Result<String> {
        let snapshots = self.state.snapshots(id)?;
        let kind_of = |name: &SnapshotName| {
            let known = snapshots.iter().find(|snapshot| snapshot.name == *name);
            known.map_or(SnapshotKind::Named, |snapshot| snapshot.kind)
        };
        let manifest = pack(&*self.storage, id, &self.packs, prefix, &kind_of)?;
        self.require_all_snapshots(id, &manifest)?;
        // A storage that was closed meanwhile may have listed an incomplete tree.
        self.admit()?;
        Ok(manifest.fingerprint())
    }

    /// Makes the pack authoritative. Returns the intent to delete the volume.
    fn record_pack(&self, intent: IntentId, id: &SessionId, pack: &str) -> Result<IntentId> {
        let _bases = self
            .base_order
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.state.transaction(|database| {
            state::set_pack(database, id, SessionState::Hibernated, Some(pack))?;
            intent.clear(database)?;
            Intent::FreeVolume {
                session: id.clone(),
            }
            .insert(database)
        })
    }

    fn wake(&self, id: &SessionId) -> Result<SessionInfo> {
        let session = self.session(id)?;
        self.hibernated(id)?;
        self.require_space()?;
        // So that a long wake does not leave the session idle at its end.
        let _use = session.activity.hold();
        let _entry = session
            .admission
            .enter_exclusive(ExclusiveWork::Hibernating, self.config.pause_drain_timeout)?;
        let (record, prefix) = self.hibernated(id)?;
        let _order = session.order_storage();
        let intent = self.state.intend(&Intent::FreeVolume {
            session: id.clone(),
        })?;
        // The transaction makes the volume authoritative and leaves the pack to be deleted.
        let woken = self.unpack_volume(&record, &prefix).and_then(|()| {
            self.state.transaction(|database| {
                state::set_pack(database, id, SessionState::Active, None)?;
                intent.clear(database)?;
                Intent::DeletePack {
                    pack: prefix.clone(),
                }
                .insert(database)
            })
        });
        match woken {
            Ok(rest) => self.drop_pack(rest, &prefix),
            Err(error) => {
                self.free_volume(intent, id);
                return Err(error);
            }
        }
        self.schedule_janitor(&record);
        self.info(SessionRecord {
            state: SessionState::Active,
            pack: None,
            ..record
        })
    }

    fn unpack_volume(&self, record: &SessionRecord, prefix: &str) -> Result<()> {
        let id = &record.id;
        // A remaining volume that could not be deleted when the session was hibernated.
        self.storage.delete(id)?;
        // Without a quota, which is set last: a session at its limit must be able to wake.
        let (prefix, fingerprint) = split_reference(prefix);
        let from = PackReference {
            prefix,
            session: Some(id),
            fingerprint,
        };
        let unpacked = unpack(&*self.storage, &self.packs, from, id, None)
            .map_err(|error| unusable(id, error))?;
        if unpacked.omitted > 0 {
            tracing::warn!(session = %id, omitted = unpacked.omitted, notes = ?unpacked.notes, "some entries of a pack could not be restored");
        }
        self.require_all_snapshots(id, &unpacked.manifest)?;
        let quota = DefaultLimits::quota_on(record.quota, &self.storage.facts().quota);
        if quota.is_some() {
            self.storage.set_quota(id, quota)?;
        }
        self.admit()
    }

    /// Refuses a pack whose snapshots differ from those of the session.
    fn require_all_snapshots(&self, id: &SessionId, manifest: &PackManifest) -> Result<()> {
        let known = self.state.snapshots(id)?;
        let known: HashSet<&SnapshotName> = known.iter().map(|snapshot| &snapshot.name).collect();
        let packed: HashSet<&SnapshotName> = manifest
            .snapshots()
            .map(|snapshot| &snapshot.name)
            .collect();
        if known != packed {
            let message =
                format!("pack of session `{id}` does not have the snapshots of the session");
            return Err(Error::new(ErrorCode::InvalidState, message));
        }
        Ok(())
    }

    /// Returns the record of a hibernated session, and the prefix of its pack.
    fn hibernated(&self, id: &SessionId) -> Result<(SessionRecord, String)> {
        let record = self.record(id)?;
        match (record.state, record.pack.clone()) {
            (SessionState::Hibernated, Some(prefix)) => Ok((record, prefix)),
            (state, _) => Err(Error::new(
                ErrorCode::InvalidState,
                format!("session `{id}` is {state}, not hibernated"),
            )),
        }
    }

    /// Refuses if the object store cannot be reached, before anything is stopped.
    fn require_object_store(&self, prefix: &str) -> Result<()> {
        match read_manifest(&self.packs, prefix) {
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(()),
            outcome => outcome
                .map(|_| ())
                .map_err(|error| error.with_field("object_store")),
        }
    }

    /// Refuses while a hibernated session needs this base to wake. The caller holds `base_order`.
    pub(super) fn require_unused_by_hibernated(&self, base: &sandbar_core::BaseName) -> Result<()> {
        let sessions = self.state.sessions()?;
        let needs_it = |record: &&SessionRecord| {
            record.state == SessionState::Hibernated && record.base_in_use() == base
        };
        match sessions.iter().find(needs_it) {
            None => Ok(()),
            Some(SessionRecord { id, .. }) => Err(Error::new(
                ErrorCode::InvalidState,
                format!("base `{base}` is needed by hibernated session `{id}`"),
            )
            .with_field("base")
            .with_hint(format!("destroy it first with `sandbar rm {id}`"))),
        }
    }

    /// Deletes the volume and the pack of a session.
    pub(super) fn delete_content(&self, id: &SessionId) -> Result<()> {
        self.storage.delete(id)?;
        match self.state.session(id)?.and_then(|record| record.pack) {
            None => Ok(()),
            Some(pack) => delete_pack(&self.packs, split_reference(&pack).0),
        }
    }

    /// Repeats deletions of packs and volumes that failed earlier.
    pub(crate) fn finish_leftovers(&self) -> Result<()> {
        for (intent, what) in self.state.intents()? {
            match what {
                Intent::DeletePack { pack } => self.drop_pack(intent, &pack),
                Intent::DropBase { volume } => {
                    // A caller that holds the lock may be deleting this one; the next round
                    // follows.
                    if let Some(_turn) = self.saved_bases.try_to_drop() {
                        self.drop_base_volume(intent, &volume);
                    }
                }
                Intent::FreeVolume { session: id } => self.free_left_volume(intent, &id)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn free_left_volume(&self, intent: IntentId, id: &SessionId) -> Result<()> {
        if !self.is_hibernated(id)? {
            return self.state.forget(intent);
        }
        let session = self.session_unused(id)?;
        // A caller inside may be waking it; the next round follows.
        let Ok(_entry) = session
            .admission
            .enter_exclusive(ExclusiveWork::Hibernating, Duration::ZERO)
        else {
            return Ok(());
        };
        if self.is_hibernated(id)? {
            let _order = session.order_storage();
            self.free_volume(intent, id);
        }
        Ok(())
    }

    pub(crate) fn is_hibernated(&self, id: &SessionId) -> Result<bool> {
        Ok(self
            .state
            .session(id)?
            .is_some_and(|record| record.state == SessionState::Hibernated))
    }

    /// Deletes the volume of a hibernated session; the janitor repeats it after a failure. The
    /// caller holds the exclusive entry.
    fn free_volume(&self, intent: IntentId, id: &SessionId) {
        if let Err(error) = self
            .storage
            .delete(id)
            .and_then(|()| self.state.forget(intent))
        {
            tracing::warn!(session = %id, error = error.chain(), "could not delete the volume of a hibernated session");
        }
    }

    /// Deletes a pack that no session needs; the janitor repeats it after a failure.
    fn drop_pack(&self, intent: IntentId, pack: &str) {
        let (prefix, _) = split_reference(pack);
        if let Err(error) =
            delete_pack(&self.packs, prefix).and_then(|()| self.state.forget(intent))
        {
            tracing::warn!(
                pack = prefix,
                error = error.chain(),
                "could not delete a pack that no session needs"
            );
        }
    }
}

/// Maps a missing or damaged pack to `InvalidState`: it is no fault of the arguments.
fn unusable(id: &SessionId, error: Error) -> Error {
    match error.code() {
        ErrorCode::FileNotFound | ErrorCode::InvalidArgument => Error::new(
            ErrorCode::InvalidState,
            format!("pack of session `{id}` is missing or damaged"),
        )
        .with_hint(format!(
            "restore it from a copy of the object store, or destroy the session with `sandbar rm {id}`"
        ))
        .with_source(error),
        _ => error,
    }
}

/// Splits the recorded reference of a pack into its prefix and the fingerprint of its manifest.
fn split_reference(pack: &str) -> (&str, Option<&str>) {
    match pack.split_once(FINGERPRINT) {
        Some((prefix, fingerprint)) => (prefix, Some(fingerprint)),
        None => (pack, None),
    }
}

/// Returns a prefix in the object store that no host has used, not even for a session of the same
/// name.
fn new_prefix(id: &SessionId) -> Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| {
        Error::internal("ask the kernel for random bytes").with_source(error.to_string())
    })?;
    Ok(format!("{id}.{:016x}", u64::from_be_bytes(random)))
}
