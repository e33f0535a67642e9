//! [`SavedBases`]: the bases that were saved from sessions.
//!
//! A saved base is a volume that no session uses. Sessions created from it are forks of that
//! volume, and independent of it once created.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use sandbar_core::{BaseName, Error, ErrorCode, Result, SessionId};
use sandbar_storage::{ForkPoint, base_exists};

use crate::{
    engine::Engine,
    state::{SavedBaseRecord, SessionRecord, StateStore},
};

/// All saved bases of a host.
#[derive(Debug, Default)]
pub(crate) struct SavedBases {
    names: Mutex<Names>,
    /// Held while the volume of a deleted base is deleted.
    dropping: Mutex<()>,
}

#[derive(Debug, Default)]
struct Names {
    kept: BTreeMap<BaseName, Arc<SavedBase>>,
    /// Names of bases that are being saved or imported.
    claimed: HashSet<BaseName>,
}

/// A saved base.
#[derive(Debug)]
pub(crate) struct SavedBase {
    pub(crate) record: SavedBaseRecord,
    /// Serialises storage calls on its volume. `true` once the base is deleted.
    gone: Mutex<bool>,
}

impl SavedBases {
    pub(crate) fn load(&self, state: &StateStore) -> Result<()> {
        let records = state.saved_bases()?;
        self.names().kept = records
            .into_iter()
            .map(|record| (record.name.clone(), SavedBase::new(record)))
            .collect();
        Ok(())
    }

    pub(crate) fn get(&self, name: &BaseName) -> Option<Arc<SavedBase>> {
        self.names().kept.get(name).cloned()
    }

    /// Lists the saved bases, by name.
    pub(crate) fn all(&self) -> Vec<Arc<SavedBase>> {
        self.names().kept.values().cloned().collect()
    }

    /// Whether this volume holds a saved base.
    pub(crate) fn has_volume(&self, volume: &SessionId) -> bool {
        self.names()
            .kept
            .values()
            .any(|base| base.record.volume == *volume)
    }

    /// Reserves the name of a base to save or import. Refuses one that is taken.
    pub(crate) fn claim(&self, name: &BaseName) -> Result<Claim<'_>> {
        let mut names = self.names();
        if names.kept.contains_key(name) || !names.claimed.insert(name.clone()) {
            return Err(base_exists(name));
        }
        Ok(Claim {
            bases: self,
            name: name.clone(),
        })
    }

    /// Locks the deletion of volumes.
    pub(crate) fn wait_to_drop(&self) -> MutexGuard<'_, ()> {
        self.dropping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait_to_drop`](Self::wait_to_drop); `None` if the lock is held.
    pub(crate) fn try_to_drop(&self) -> Option<MutexGuard<'_, ()>> {
        match self.dropping.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            guard => Some(guard.unwrap_or_else(|_| self.wait_to_drop())),
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reserved name of a base that is being saved or imported. Dropping it frees the name.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    bases: &'a SavedBases,
    name: BaseName,
}

impl Claim<'_> {
    /// Adds the saved base.
    pub(crate) fn keep(self, record: SavedBaseRecord) {
        self.bases
            .names()
            .kept
            .insert(self.name.clone(), SavedBase::new(record));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.bases.names().claimed.remove(&self.name);
    }
}

impl SavedBase {
    fn new(record: SavedBaseRecord) -> Arc<Self> {
        Arc::new(Self {
            record,
            gone: Mutex::new(false),
        })
    }

    /// Creates the volume of a session as a copy.
    pub(crate) fn copy_to(&self, engine: &Engine, session: &SessionRecord) -> Result<()> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return Err(engine.no_base(&self.record.name));
        }
        let made = engine.storage.fork(
            &self.record.volume,
            &ForkPoint::Now,
            &session.id,
            session.quota,
        );
        made.map_err(|error| match error.code() {
            ErrorCode::SessionNotFound => {
                let name = &self.record.name;
                Error::new(
                    ErrorCode::InvalidState,
                    format!("volume of base `{name}` is missing"),
                )
                .with_field("base_snapshot")
                .with_hint(format!("delete the base with `sandbar base rm {name}`"))
                .with_source(error)
            }
            _ => error,
        })
    }

    /// Deletes the base from the state database by `work`, and then from `bases`; no copy starts
    /// afterwards. `None`: it was deleted before.
    pub(crate) fn forget<T>(
        &self,
        bases: &SavedBases,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return Ok(None);
        }
        let done = work()?;
        *gone = true;
        bases.names().kept.remove(&self.record.name);
        Ok(Some(done))
    }
}
