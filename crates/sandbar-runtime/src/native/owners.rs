//! Ranges of owners for boxes, each used by one box at a time.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use sandbar_core::OwnerMap;

use super::spawner::Spawner;

/// Above what distributions give to users and container programs take, below what signed numbers hold.
const FIRST: u32 = 0x7000_0000;
const RANGES: u32 = 4095;

#[derive(Debug)]
pub(super) struct OwnerPool {
    spawner: Arc<Spawner>,
    /// Where this host starts, so that two hosts on one machine seldom meet.
    offset: u32,
    made: Mutex<Vec<Arc<OwnerMap>>>,
    /// Owners as they are on disk, in a user namespace all the same.
    unchanged: Mutex<Option<Arc<OwnerMap>>>,
}

impl OwnerPool {
    pub(super) fn new(spawner: Arc<Spawner>, host: &str) -> Self {
        let hash = host.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        Self { spawner, offset: hash % RANGES, made: Mutex::default(), unchanged: Mutex::default() }
    }

    /// A range nobody holds.
    pub(super) fn lease(&self) -> io::Result<Arc<OwnerMap>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = made.iter().find(|map| Arc::strong_count(map) == 1) {
            return Ok(Arc::clone(free));
        }
        let number = u32::try_from(made.len())
            .ok()
            .filter(|number| *number < RANGES)
            .ok_or_else(|| io::Error::other(format!("all {RANGES} ranges of owners are in use")))?;
        let first = FIRST + (self.offset + number) % RANGES * OwnerMap::COUNT;
        let map = Arc::new(OwnerMap::new(first, self.spawner.make_owners(first)?));
        made.push(Arc::clone(&map));
        Ok(map)
    }

    /// For trees that cannot be translated: root in the box is root on disk, without any of its rights.
    pub(super) fn unchanged(&self) -> io::Result<Arc<OwnerMap>> {
        let mut unchanged = self.unchanged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = &*unchanged {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(OwnerMap::new(0, self.spawner.make_owners(0)?));
        *unchanged = Some(Arc::clone(&map));
        Ok(map)
    }
}
