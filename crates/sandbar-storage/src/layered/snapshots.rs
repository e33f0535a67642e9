//! Snapshots of a volume, and going back to one.

use std::path::PathBuf;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbar_core::{Error, LaterSnapshots, Result, SessionId, SnapshotName};

use super::{
    Birth, LayeredStorage, Primitives, TreeAccess,
    layout::names,
    volumes::{layer_parts, mounted_layers},
};
use crate::{
    ForkPoint, StoredSnapshot, TreeView, ViewLayer,
    errors::{snapshot_exists, snapshot_not_found},
};

impl<P: Primitives> LayeredStorage<P> {
    pub(super) fn take_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot> {
        self.record(volume)?;
        let place = self.layout.snapshot(volume, name);
        if place.exists() {
            return Err(snapshot_exists(volume, name));
        }
        self.primitives.copy_tree(&self.layout.live(volume), &place, TreeAccess::ReadOnly, &self.layout.stage())?;
        Ok(stored(name.clone(), self.primitives.birth(&place)?))
    }

    pub(super) fn list_snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>> {
        Ok(self.births(volume)?.into_iter().map(|(birth, name)| stored(name, birth)).collect())
    }

    /// Snapshots with their births, oldest first.
    fn births(&self, volume: &SessionId) -> Result<Vec<(Birth, SnapshotName)>> {
        self.record(volume)?;
        let directory = self.layout.snapshots(volume);
        let mut births = Vec::new();
        for name in names(&directory)? {
            if let Some(name) = name.to_str().and_then(|name| SnapshotName::new(name).ok()) {
                births.push((self.primitives.birth(&directory.join(&name))?, name));
            }
        }
        births.sort();
        Ok(births)
    }

    pub(super) fn remove_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()> {
        self.record(volume)?;
        self.primitives.remove_tree(&self.layout.snapshot(volume, name))
    }

    /// Copies the snapshot beside the live tree, swaps the two in one step, and only then gives up the old one.
    pub(super) fn roll_back(&self, volume: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Result<()> {
        let record = self.record(volume)?;
        let target = self.tree_at(volume, &ForkPoint::Snapshot(name.clone()))?;
        self.unmount_volume(volume)?;
        let stage = self.layout.stage();
        let live = self.layout.live(volume);
        self.primitives.copy_tree(&target, &stage, TreeAccess::Writable, &self.layout.stage())?;
        if record.quota.is_some() {
            self.primitives.set_quota(&stage, record.quota)?;
        }
        renameat_with(CWD, &stage, CWD, &live, RenameFlags::EXCHANGE)
            .map_err(|errno| Error::io(format!("swap the live tree of `{volume}`"), errno.into()))?;
        self.layout.discard(&stage)?;
        if later == LaterSnapshots::Drop {
            let target_birth = self.primitives.birth(&target)?;
            for (birth, later) in self.births(volume)? {
                if (birth, &later) > (target_birth, name) {
                    self.remove_snapshot(volume, &later)?;
                }
            }
        }
        self.reaper.wake();
        Ok(())
    }

    /// The tree of a volume at a moment; `SnapshotNotFound` names the snapshots there are.
    pub(super) fn tree_at(&self, volume: &SessionId, at: &ForkPoint) -> Result<PathBuf> {
        match at {
            ForkPoint::Now => Ok(self.layout.live(volume)),
            ForkPoint::Snapshot(name) => {
                let place = self.layout.snapshot(volume, name);
                if place.is_dir() {
                    return Ok(place);
                }
                let known = self.list_snapshots(volume)?;
                Err(snapshot_not_found(volume, name, known.iter().map(|snapshot| &snapshot.name)))
            }
        }
    }

    pub(super) fn volume_view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        let record = self.record(volume)?;
        let tree = self.tree_at(volume, at)?;
        let base = self.read_base(&record.base)?;
        let layers = mounted_layers(&base, record.layered)
            .enumerate()
            .map(|(number, layer)| ViewLayer {
                mount_point: layer.mount_point.clone(),
                lower: record.layered.then(|| self.layer_directory(&base.name, layer)),
                upper: Some(layer_parts(&tree, number).0),
            })
            .collect();
        let frozen_at = match at {
            ForkPoint::Now => None,
            ForkPoint::Snapshot(_) => Some(self.primitives.birth(&tree)?.created.into()),
        };
        Ok(TreeView { layers, frozen_at, stable_inodes: self.primitives.stable_inodes() })
    }
}

fn stored(name: SnapshotName, birth: Birth) -> StoredSnapshot {
    StoredSnapshot { name, created: birth.created, space_used: None }
}
