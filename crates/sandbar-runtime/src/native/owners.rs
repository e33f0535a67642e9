//! Pool of uid and gid ranges, each leased to one box at a time.

use std::{
    io,
    sync::{Arc, Mutex},
};

use sandbar_core::{MutexExt as _, OwnerMap};

use super::spawner::Spawner;

/// First host uid of the ranges. Above the uids that distributions and container engines assign,
/// and all ranges fit in a signed 32-bit number.
const FIRST_UID: u32 = 0x7000_0000;
const MAX_RANGES: u32 = 4095;
/// Creator of the user namespace with the identity map: the first uid above all ranges.
const UNCHANGED_CREATOR: u32 = FIRST_UID + MAX_RANGES * OwnerMap::COUNT;

#[derive(Debug)]
pub(super) struct OwnerPool {
    spawner: Arc<Spawner>,
    /// First range of this host, derived from its name so that two hosts on one machine rarely use
    /// the same ranges.
    offset: u32,
    created: Mutex<Vec<Arc<OwnerMap>>>,
    /// Identity map, in a user namespace of its own.
    unchanged: Mutex<Option<Arc<OwnerMap>>>,
}

impl OwnerPool {
    pub(super) fn new(spawner: Arc<Spawner>, host: &str) -> Self {
        let hash = host.bytes().fold(0u32, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        Self {
            spawner,
            offset: hash % MAX_RANGES,
            created: Mutex::default(),
            unchanged: Mutex::default(),
        }
    }

    /// Returns a range that is not in use.
    pub(super) fn lease(&self) -> io::Result<Arc<OwnerMap>> {
        let mut created = self.created.lock_unpoisoned();
        if let Some(free) = created.iter().find(|map| Arc::strong_count(map) == 1) {
            return Ok(Arc::clone(free));
        }
        let number = u32::try_from(created.len())
            .ok()
            .filter(|number| *number < MAX_RANGES)
            .ok_or_else(|| io::Error::other(format!("all {MAX_RANGES} uid ranges are in use")))?;
        let first = FIRST_UID + (self.offset + number) % MAX_RANGES * OwnerMap::COUNT;
        let map = Arc::new(OwnerMap::new(
            first,
            self.spawner.make_owners(first, first)?,
        ));
        created.push(Arc::clone(&map));
        Ok(map)
    }

    /// Returns the identity map, for trees on file systems without idmapped mounts: root in the box
    /// is uid 0 on disk, without capabilities on the host.
    pub(super) fn unchanged(&self) -> io::Result<Arc<OwnerMap>> {
        let mut unchanged = self.unchanged.lock_unpoisoned();
        if let Some(map) = &*unchanged {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(OwnerMap::new(
            0,
            self.spawner.make_owners(0, UNCHANGED_CREATOR)?,
        ));
        *unchanged = Some(Arc::clone(&map));
        Ok(map)
    }
}
