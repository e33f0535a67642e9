//! Putting a session away into the object store, and bringing it back.
//!
//! What a session consists of is always whole in one place: its volume is deleted after the record says that the pack is
//! the session, and the pack after the record says that the volume is.

use std::{collections::HashSet, sync::PoisonError, time::Duration};

use sandbar_core::{Error, ErrorCode, Result, SessionId, SessionInfo, SessionState, SnapshotKind, SnapshotName};
use sandbar_storage::pack::{PackManifest, delete_pack, pack, read_manifest, unpack};

use crate::{
    Host,
    gate::Closing,
    host::Inner,
    process::StopReason,
    state::{self, Intent, IntentId, SessionRecord},
    verb::{Call, Verb},
};

impl Host {
    /// Packs the volume of a session into the object store and gives its space here back. What runs in the session is
    /// ended; its files and snapshots are kept. When packing fails, the session is what it was before.
    pub async fn hibernate_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::HibernateSession), move |inner| inner.hibernate(&target)).await
    }

    /// Brings a hibernated session back. It is active then, also when it was paused before. When that fails, it stays
    /// hibernated.
    pub async fn wake_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::WakeSession), move |inner| inner.wake(&target)).await
    }
}

impl Inner {
    fn hibernate(&self, id: &SessionId) -> Result<SessionInfo> {
        let session = self.session(id)?;
        // Before anybody is disturbed, and again when nobody else can change it.
        self.present(id)?;
        let prefix = new_prefix(id)?;
        self.require_object_store(&prefix)?;
        let _entry = session.gate.enter_exclusive(Closing::Hibernating, self.config.pause_drain_timeout)?;
        let record = self.present(id)?;
        let owners = session.stop(StopReason::Hibernated)?;
        let _order = session.order_storage();
        self.storage.unmount(id)?;
        drop(owners);
        let intent = self.state.intend(&Intent::Hibernate { session: id.clone(), pack: prefix.clone() })?;
        match self.pack_volume(id, &prefix).and_then(|()| self.record_pack(intent, id, &prefix)) {
            Ok(rest) => self.free_volume(rest, id),
            Err(error) => {
                let undone = self.state.transaction(|database| {
                    intent.clear(database)?;
                    Intent::DeletePack { pack: prefix.clone() }.insert(database)
                });
                match undone {
                    Ok(rest) => self.drop_pack(rest, &prefix),
                    // The next start undoes it.
                    Err(undo) => tracing::error!(session = %id, error = undo.chain(), "could not undo a failed pack"),
                }
                return Err(error);
            }
        }
        self.info(SessionRecord { state: SessionState::Hibernated, pack: Some(prefix), ..record })
    }

    fn pack_volume(&self, id: &SessionId, prefix: &str) -> Result<()> {
        let snapshots = self.state.snapshots(id)?;
        let kind_of = |name: &SnapshotName| {
            let known = snapshots.iter().find(|snapshot| snapshot.name == *name);
            known.map_or(SnapshotKind::Named, |snapshot| snapshot.kind)
        };
        let manifest = pack(&*self.storage, id, &self.packs, prefix, &kind_of)?;
        self.require_all_snapshots(id, &manifest)?;
        // A storage that was closed meanwhile may have shown less than there is.
        self.admit()
    }

    /// From here on the pack is the session. Returns what is left to do: the volume.
    fn record_pack(&self, intent: IntentId, id: &SessionId, prefix: &str) -> Result<IntentId> {
        let _bases = self.base_order.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.transaction(|database| {
            state::set_pack(database, id, SessionState::Hibernated, Some(prefix))?;
            intent.clear(database)?;
            Intent::FreeVolume { session: id.clone() }.insert(database)
        })
    }

    fn wake(&self, id: &SessionId) -> Result<SessionInfo> {
        let session = self.session(id)?;
        self.hibernated(id)?;
        self.require_space()?;
        // However long it takes, the session is not idle then.
        let _use = session.activity.hold();
        let _entry = session.gate.enter_exclusive(Closing::Hibernating, self.config.pause_drain_timeout)?;
        let (record, prefix) = self.hibernated(id)?;
        let _order = session.order_storage();
        let intent = self.state.intend(&Intent::FreeVolume { session: id.clone() })?;
        // From here on the volume is the session again, and the pack is left to be deleted.
        let woken = self.unpack_volume(&record, &prefix).and_then(|()| {
            self.state.transaction(|database| {
                state::set_pack(database, id, SessionState::Active, None)?;
                intent.clear(database)?;
                Intent::DeletePack { pack: prefix.clone() }.insert(database)
            })
        });
        match woken {
            Ok(rest) => self.drop_pack(rest, &prefix),
            Err(error) => {
                self.free_volume(intent, id);
                return Err(error);
            }
        }
        self.expect(&record);
        self.info(SessionRecord { state: SessionState::Active, pack: None, ..record })
    }

    fn unpack_volume(&self, record: &SessionRecord, prefix: &str) -> Result<()> {
        let id = &record.id;
        // What could not be deleted when the session was put away.
        self.storage.delete(id)?;
        // The bound comes last: a session that fitted once is never kept out by it.
        let unpacked = unpack(&*self.storage, &self.packs, prefix, id, None).map_err(|error| unusable(id, error))?;
        if unpacked.omitted > 0 {
            tracing::warn!(session = %id, omitted = unpacked.omitted, notes = ?unpacked.notes, "not all could be kept");
        }
        self.require_all_snapshots(id, &unpacked.manifest)?;
        if record.quota.is_some() {
            self.storage.set_quota(id, record.quota)?;
        }
        self.admit()
    }

    /// Refuses a pack that has other snapshots than the session.
    fn require_all_snapshots(&self, id: &SessionId, manifest: &PackManifest) -> Result<()> {
        let known = self.state.snapshots(id)?;
        let known: HashSet<&SnapshotName> = known.iter().map(|snapshot| &snapshot.name).collect();
        let packed: HashSet<&SnapshotName> = manifest.snapshots().map(|snapshot| &snapshot.name).collect();
        if known != packed {
            let message = format!("the pack of session `{id}` has other snapshots than the session");
            return Err(Error::new(ErrorCode::InvalidState, message));
        }
        Ok(())
    }

    /// The record of a session that is hibernated, and where it is.
    fn hibernated(&self, id: &SessionId) -> Result<(SessionRecord, String)> {
        let record = self.record(id)?;
        match (record.state, record.pack.clone()) {
            (SessionState::Hibernated, Some(prefix)) => Ok((record, prefix)),
            (state, _) => {
                Err(Error::new(ErrorCode::InvalidState, format!("session `{id}` is {state}, not hibernated")))
            }
        }
    }

    /// An object store that does not answer is found out before anything is ended for it.
    fn require_object_store(&self, prefix: &str) -> Result<()> {
        match read_manifest(&self.packs, prefix) {
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(()),
            outcome => outcome.map(|_| ()).map_err(|error| error.with_field("object_store")),
        }
    }

    /// Refuses while a hibernated session will stand on this base again. The caller holds `base_order`.
    pub(super) fn require_unused_by_hibernated(&self, base: &sandbar_core::BaseName) -> Result<()> {
        let sessions = self.state.sessions()?;
        let stands_on_it =
            |record: &&SessionRecord| record.state == SessionState::Hibernated && record.stands_on() == base;
        match sessions.iter().find(stands_on_it) {
            None => Ok(()),
            Some(SessionRecord { id, .. }) => Err(Error::new(
                ErrorCode::InvalidState,
                format!("base `{base}` is needed by session `{id}`, which is hibernated"),
            )
            .with_field("base")
            .with_hint(format!("destroy it first with `sandbar rm {id}`"))),
        }
    }

    /// Deletes the volume of a session, and its pack.
    pub(super) fn delete_content(&self, id: &SessionId) -> Result<()> {
        self.storage.delete(id)?;
        match self.state.session(id)?.and_then(|record| record.pack) {
            None => Ok(()),
            Some(prefix) => delete_pack(&self.packs, &prefix),
        }
    }

    /// Tries again what could not be deleted when a session was put away or brought back.
    pub(crate) fn finish_leftovers(&self) -> Result<()> {
        for (intent, what) in self.state.intents()? {
            match what {
                Intent::DeletePack { pack } => self.drop_pack(intent, &pack),
                Intent::DropBase { volume } => {
                    // Whoever is at it may be doing just this; the next round comes.
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
        // Whoever is in there may be bringing it back; the next round comes.
        let Ok(_entry) = session.gate.enter_exclusive(Closing::Hibernating, Duration::ZERO) else { return Ok(()) };
        if self.is_hibernated(id)? {
            let _order = session.order_storage();
            self.free_volume(intent, id);
        }
        Ok(())
    }

    pub(crate) fn is_hibernated(&self, id: &SessionId) -> Result<bool> {
        Ok(self.state.session(id)?.is_some_and(|record| record.state == SessionState::Hibernated))
    }

    /// Deletes the volume of a hibernated session; the janitor tries again what fails. The caller has the session alone.
    fn free_volume(&self, intent: IntentId, id: &SessionId) {
        if let Err(error) = self.storage.delete(id).and_then(|()| self.state.forget(intent)) {
            tracing::warn!(session = %id, error = error.chain(), "could not delete the volume of a hibernated session");
        }
    }

    /// Deletes a pack no session is in; the janitor tries again what fails.
    fn drop_pack(&self, intent: IntentId, prefix: &str) {
        if let Err(error) = delete_pack(&self.packs, prefix).and_then(|()| self.state.forget(intent)) {
            tracing::warn!(pack = prefix, error = error.chain(), "could not delete a pack nobody needs");
        }
    }
}

/// A pack that is damaged or gone is nothing the caller can have meant.
fn unusable(id: &SessionId, error: Error) -> Error {
    match error.code() {
        ErrorCode::FileNotFound | ErrorCode::InvalidArgument => {
            Error::new(ErrorCode::InvalidState, format!("the pack of session `{id}` cannot be used"))
                .with_hint(format!("put it back from a copy of the object store, or give up with `sandbar rm {id}`"))
                .with_source(error)
        }
        _ => error,
    }
}

/// A place in the object store that was never used, also not by another host with a session of the same name.
fn new_prefix(id: &SessionId) -> Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| Error::internal("ask the kernel for random bytes").with_source(error.to_string()))?;
    Ok(format!("{id}.{:016x}", u64::from_be_bytes(random)))
}
