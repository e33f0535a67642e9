//! Reading a volume without mounting it: now, or at a snapshot.
//!
//! `.zfs/snapshot` does not exist on zfs-fuse, and OpenZFS mounts it in the initial mount namespace, where the host
//! may not be. A clone works on both; it costs nothing but its mount, and stays until the snapshot is
//! deleted or nobody has asked for it for a while.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sandbar_core::{BaseName, Error, Result, SessionId};

use super::{
    ZfsStorage,
    catalog::{Dataset, Role, VisibleSnapshot, dataset_of},
    command::{Failure, Fault},
    marks,
    mounts::MountTable,
    namespace,
    store::lock,
};
use crate::{BaseRecord, ForkPoint, LayerDirectory, TreeView, ViewLayer, errors::snapshot_not_found};

/// How long a view stays for whoever was given it.
const KEPT: Duration = Duration::from_mins(10);

impl ZfsStorage {
    pub(super) fn view_volume(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        let live = self.catalog().live(volume)?;
        let record = self.read_base(&live.mark.base)?;
        let (directory, frozen_at) = match at {
            ForkPoint::Now => {
                let directory = self.layout.volume_directory(volume);
                self.show(&live.dataset, &directory)?;
                (directory, None)
            }
            ForkPoint::Snapshot(name) => {
                let known = self.catalog().snapshots(volume);
                let found = known.iter().find(|snapshot| snapshot.name == *name);
                let snapshot = found
                    .ok_or_else(|| snapshot_not_found(volume, name, known.iter().map(|snapshot| &snapshot.name)))?;
                (self.show_snapshot(volume, snapshot)?, Some(marks::timestamp(snapshot.created).into()))
            }
        };
        let layers =
            layers(&record, |own| ViewLayer { mount_point: own, lower: None, upper: Some(directory.join("rootfs")) });
        Ok(TreeView { layers, frozen_at, stable_inodes: has_fine_times(&directory)? })
    }

    pub(super) fn view_base(&self, name: &BaseName) -> Result<TreeView> {
        let record = self.read_base(name)?;
        let directory = self.layout.base_directory(name);
        self.show(&self.layout.base(name), &directory)?;
        let layers =
            layers(&record, |own| ViewLayer { mount_point: own, lower: Some(directory.join("rootfs")), upper: None });
        Ok(TreeView { layers, frozen_at: None, stable_inodes: false })
    }

    fn show_snapshot(&self, volume: &SessionId, snapshot: &VisibleSnapshot) -> Result<PathBuf> {
        let suffix = format!("v{}", marks::tag(snapshot.created));
        let dataset = self.layout.session(volume, &suffix)?;
        let directory = self.layout.sessions_directory.join(format!("{volume}:{suffix}"));
        let _surgery = lock(&self.surgery);
        if !self.catalog().datasets.contains_key(&dataset) {
            // zfs-fuse makes a place for attributes when asked to list them, and when it cannot, shows none at all.
            let readonly = if namespace::is_in_kernel() { "readonly=on" } else { "readonly=off" };
            let arguments = ["clone", "-o", "canmount=noauto", "-o", readonly, &snapshot.full_name, &dataset];
            match self.tools.zfs(&arguments) {
                Err(failure) if failure.fault != Fault::Exists => {
                    self.destroy_unfinished(&dataset)?;
                    return Err(failure.into_error(format!("read snapshot `{}` of session `{volume}`", snapshot.name)));
                }
                _ => {}
            }
            let view = Dataset {
                volume: volume.clone(),
                role: Role::View,
                origin: Some(snapshot.full_name.clone()),
                refquota: 0,
                snapshots: Vec::new(),
            };
            self.catalog().datasets.insert(dataset.clone(), view);
        }
        self.show(&dataset, &directory)?;
        lock(&self.views).insert(dataset, Instant::now());
        Ok(directory)
    }

    /// Destroys the views of one snapshot.
    pub(super) fn destroy_views_of(&self, snapshot: &str) -> Result<(), Failure> {
        self.destroy_views(|origin| origin == snapshot)
    }

    /// Destroys the views of all snapshots of some datasets.
    pub(super) fn destroy_views_on(&self, datasets: &BTreeSet<String>) -> Result<(), Failure> {
        self.destroy_views(|origin| datasets.contains(dataset_of(origin)))
    }

    fn destroy_views(&self, is_meant: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let views: Vec<String> = {
            let catalog = self.catalog();
            let views = catalog
                .datasets
                .iter()
                .filter(|(_, dataset)| dataset.role == Role::View && dataset.origin.as_deref().is_some_and(&is_meant));
            views.map(|(name, _)| name.clone()).collect()
        };
        for view in views {
            self.destroy(&view)?;
            lock(&self.views).remove(&view);
        }
        Ok(())
    }

    /// Destroys views nobody has asked for in a while. One that is being read all the same is busy, and stays.
    pub(super) fn drop_unused_views(&self) -> Result<(), Failure> {
        let unused: BTreeSet<String> = {
            let views = lock(&self.views);
            views.iter().filter(|(_, given)| given.elapsed() > KEPT).map(|(view, _)| view.clone()).collect()
        };
        for view in unused {
            match self.destroy(&view) {
                Err(failure) if failure.fault != Fault::Busy => return Err(failure),
                Err(_) => {}
                Ok(()) => drop(lock(&self.views).remove(&view)),
            }
        }
        Ok(())
    }
}

/// The base's mount points, its own tree as `own` shows it and what the machine lends as it is.
fn layers(record: &BaseRecord, own: impl Fn(PathBuf) -> ViewLayer) -> Vec<ViewLayer> {
    let layers = record.layers.iter().map(|layer| match &layer.directory {
        LayerDirectory::Own => own(layer.mount_point.clone()),
        LayerDirectory::Host(source) => {
            ViewLayer { mount_point: layer.mount_point.clone(), lower: Some(source.clone()), upper: None }
        }
    });
    layers.collect()
}

/// zfs-fuse shows times in whole seconds, which is too coarse to tell whether a file was touched.
fn has_fine_times(directory: &Path) -> Result<bool> {
    let table = MountTable::read()?;
    let mount =
        table.at(directory).ok_or_else(|| Error::internal(format!("`{}` is not mounted", directory.display())))?;
    Ok(mount.kind == "zfs")
}
