//! Bases that were made from sessions: who has which name, and whose turn it is to copy one.
//!
//! A saved base is a volume nobody uses. Sessions made from it are forks of it, and need it no more once they are there.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use sandbar_core::{BaseName, Error, ErrorCode, Result, SessionId};
use sandbar_storage::{ForkPoint, base_exists};

use crate::{
    host::Inner,
    state::{SavedBaseRecord, SessionRecord, StateStore},
};

/// All saved bases of a host.
#[derive(Debug, Default)]
pub(crate) struct SavedBases {
    names: Mutex<Names>,
    /// Held while the volume of one that is no more is removed.
    dropping: Mutex<()>,
}

#[derive(Debug, Default)]
struct Names {
    kept: BTreeMap<BaseName, Arc<SavedBase>>,
    /// Of bases that are being made, whatever from.
    claimed: HashSet<BaseName>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct SavedBase {
    pub(crate) record: SavedBaseRecord,
    /// Orders calls to the storage about its volume. `true` once it is deleted.
    gone: Mutex<bool>,
}

impl SavedBases {
    pub(crate) fn load(&self, state: &StateStore) -> Result<()> {
        let records = state.saved_bases()?;
        self.names().kept = records.into_iter().map(|record| (record.name.clone(), SavedBase::new(record))).collect();
        Ok(())
    }

    pub(crate) fn get(&self, name: &BaseName) -> Option<Arc<SavedBase>> {
        self.names().kept.get(name).cloned()
    }

    /// By name.
    pub(crate) fn all(&self) -> Vec<Arc<SavedBase>> {
        self.names().kept.values().cloned().collect()
    }

    /// Whether one of them is kept as this volume.
    pub(crate) fn has_volume(&self, volume: &SessionId) -> bool {
        self.names().kept.values().any(|base| base.record.volume == *volume)
    }

    /// Takes a name for a base that is about to be made, unless one has it or is getting it.
    pub(crate) fn claim(&self, name: &BaseName) -> Result<Claim<'_>> {
        let mut names = self.names();
        if names.kept.contains_key(name) || !names.claimed.insert(name.clone()) {
            return Err(base_exists(name));
        }
        Ok(Claim { bases: self, name: name.clone() })
    }

    /// Waits for its turn to remove a volume.
    pub(crate) fn wait_to_drop(&self) -> MutexGuard<'_, ()> {
        self.dropping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn to remove a volume, unless somebody has it.
    pub(crate) fn try_to_drop(&self) -> Option<MutexGuard<'_, ()>> {
        match self.dropping.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            turn => Some(turn.unwrap_or_else(|_| self.wait_to_drop())),
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name taken for a base that is being made; given back when dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    bases: &'a SavedBases,
    name: BaseName,
}

impl Claim<'_> {
    /// The base exists now.
    pub(crate) fn keep(self, record: SavedBaseRecord) {
        self.bases.names().kept.insert(self.name.clone(), SavedBase::new(record));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.bases.names().claimed.remove(&self.name);
    }
}

impl SavedBase {
    fn new(record: SavedBaseRecord) -> Arc<Self> {
        Arc::new(Self { record, gone: Mutex::new(false) })
    }

    /// Makes the volume of a session from it.
    pub(crate) fn copy_to(&self, inner: &Inner, session: &SessionRecord) -> Result<()> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return Err(inner.no_base(&self.record.name));
        }
        let made = inner.storage.fork(&self.record.volume, &ForkPoint::Now, &session.id, session.quota);
        made.map_err(|error| match error.code() {
            ErrorCode::SessionNotFound => {
                let name = &self.record.name;
                Error::new(ErrorCode::InvalidState, format!("the volume of base `{name}` is gone"))
                    .with_field("base_snapshot")
                    .with_hint(format!("remove what is left of it with `sandbar base rm {name}`"))
                    .with_source(error)
            }
            _ => error,
        })
    }

    /// Runs what makes it be forgotten, and lets nobody copy it afterwards.
    pub(crate) fn forget<T>(&self, bases: &SavedBases, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
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
