//! Snapshots of a volume, and rollback.

use std::path::PathBuf;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbar_core::{Error, LaterSnapshots, Result, SessionId, SnapshotName};

use super::{
    Birth, LayeredStorage, Primitives, TreeAccess,
    layout::names,
    volumes::{layer_parts, mounted_layers},
};
use crate::{
    ForkPoint, Storage, StoredSnapshot, TreeView, ViewLayer,
    errors::{snapshot_exists, snapshot_not_found},
};

pub(super) fn snapshot<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    name: &SnapshotName,
) -> Result<StoredSnapshot> {
    store.record(volume)?;
    let place = store.layout.snapshot(volume, name);
    if place.exists() {
        return Err(snapshot_exists(volume, name));
    }
    store.primitives.copy_tree(
        &store.layout.live(volume),
        &place,
        TreeAccess::ReadOnly,
        &store.layout.stage(),
    )?;
    Ok(stored(name.clone(), store.primitives.birth(&place)?))
}

pub(super) fn snapshots<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
) -> Result<Vec<StoredSnapshot>> {
    Ok(store
        .births(volume)?
        .into_iter()
        .map(|(birth, name)| stored(name, birth))
        .collect())
}

pub(super) fn delete_snapshot<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    name: &SnapshotName,
) -> Result<()> {
    store.record(volume)?;
    store
        .primitives
        .remove_tree(&store.layout.snapshot(volume, name))
}

/// Copies the snapshot into staging, exchanges it with the live tree atomically, then discards the
/// old tree.
pub(super) fn rollback<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    name: &SnapshotName,
    later: LaterSnapshots,
) -> Result<()> {
    let record = store.record(volume)?;
    let target = store.tree_at(volume, &ForkPoint::Snapshot(name.clone()))?;
    store.unmount(volume)?;
    let stage = store.layout.stage();
    let live = store.layout.live(volume);
    store
        .primitives
        .copy_tree(&target, &stage, TreeAccess::Writable, &store.layout.stage())?;
    if record.quota.is_some() {
        store.primitives.set_quota(&stage, record.quota)?;
    }
    renameat_with(CWD, &stage, CWD, &live, RenameFlags::EXCHANGE)
        .map_err(|errno| Error::io(format!("swap the live tree of `{volume}`"), errno.into()))?;
    store.layout.discard(&stage)?;
    if later == LaterSnapshots::Drop {
        let target_birth = store.primitives.birth(&target)?;
        for (birth, later) in store.births(volume)? {
            if (birth, &later) > (target_birth, name) {
                store.delete_snapshot(volume, &later)?;
            }
        }
    }
    store.reaper.wake();
    Ok(())
}

pub(super) fn view<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    at: &ForkPoint,
) -> Result<TreeView> {
    let record = store.record(volume)?;
    let tree = store.tree_at(volume, at)?;
    let base = store.base(&record.base)?;
    let layers = mounted_layers(&base, record.layered)
        .enumerate()
        .map(|(number, layer)| ViewLayer {
            mount_point: layer.mount_point.clone(),
            lower: record
                .layered
                .then(|| store.layer_directory(&base.name, layer)),
            upper: Some(layer_parts(&tree, number).0),
        })
        .collect();
    let frozen_at = match at {
        ForkPoint::Now => None,
        ForkPoint::Snapshot(_) => Some(store.primitives.birth(&tree)?.created.into()),
    };
    Ok(TreeView {
        layers,
        frozen_at,
        stable_inodes: store.primitives.stable_inodes(),
    })
}

impl<P: Primitives> LayeredStorage<P> {
    /// Lists snapshots with their births, oldest first.
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

    /// Returns the tree of a volume; `SnapshotNotFound` lists the existing snapshots.
    pub(super) fn tree_at(&self, volume: &SessionId, at: &ForkPoint) -> Result<PathBuf> {
        match at {
            ForkPoint::Now => Ok(self.layout.live(volume)),
            ForkPoint::Snapshot(name) => {
                let place = self.layout.snapshot(volume, name);
                if place.is_dir() {
                    return Ok(place);
                }
                let known = self.snapshots(volume)?;
                Err(snapshot_not_found(
                    volume,
                    name,
                    known.iter().map(|snapshot| &snapshot.name),
                ))
            }
        }
    }
}

fn stored(name: SnapshotName, birth: Birth) -> StoredSnapshot {
    StoredSnapshot {
        name,
        created: birth.created,
        space_used: None,
    }
}
