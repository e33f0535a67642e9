//! Views: reading a volume without mounting it, now or at a snapshot.
//!
//! `.zfs/snapshot` does not exist on zfs-fuse, and OpenZFS mounts it in the initial mount
//! namespace, which may not be the host's. A clone works on both. It costs only its mount, and
//! stays until the snapshot is deleted or the view was unused for [`VIEW_LIFETIME`].

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
    mount_table::MountTable,
    namespace,
    store::lock,
};
use crate::{
    BaseRecord, ForkPoint, LayerDirectory, TreeView, ViewLayer, errors::snapshot_not_found,
};

/// Time a view stays after it was last requested.
const VIEW_LIFETIME: Duration = Duration::from_mins(10);

pub(super) fn view(store: &ZfsStorage, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
    let live = store.catalog().live(volume)?;
    let record = store.base_record(&live.mark.base)?;
    let (directory, frozen_at) = match at {
        ForkPoint::Now => {
            let directory = store.layout.volume_directory(volume);
            store.mount_dataset(&live.dataset, &directory)?;
            (directory, None)
        }
        ForkPoint::Snapshot(name) => {
            let known = store.catalog().snapshots(volume);
            let found = known.iter().find(|snapshot| snapshot.name == *name);
            let snapshot = found.ok_or_else(|| {
                snapshot_not_found(volume, name, known.iter().map(|snapshot| &snapshot.name))
            })?;
            (
                store.show_snapshot(volume, snapshot)?,
                Some(marks::timestamp(snapshot.created).into()),
            )
        }
    };
    let layers = layers(&record, |own| ViewLayer {
        mount_point: own,
        lower: None,
        upper: Some(directory.join("rootfs")),
    });
    Ok(TreeView {
        layers,
        frozen_at,
        stable_inodes: has_fine_times(&directory)?,
    })
}

pub(super) fn base_view(store: &ZfsStorage, name: &BaseName) -> Result<TreeView> {
    let record = store.base_record(name)?;
    let directory = store.layout.base_directory(name);
    store.mount_dataset(&store.layout.base(name), &directory)?;
    let layers = layers(&record, |own| ViewLayer {
        mount_point: own,
        lower: Some(directory.join("rootfs")),
        upper: None,
    });
    Ok(TreeView {
        layers,
        frozen_at: None,
        stable_inodes: false,
    })
}

impl ZfsStorage {
    fn show_snapshot(&self, volume: &SessionId, snapshot: &VisibleSnapshot) -> Result<PathBuf> {
        let suffix = format!("v{}", marks::tag(snapshot.created));
        let dataset = self.layout.session(volume, &suffix)?;
        let directory = self
            .layout
            .sessions_directory
            .join(format!("{volume}:{suffix}"));
        let _dataset_lock = lock(&self.dataset_lock);
        if !self.catalog().datasets.contains_key(&dataset) {
            // zfs-fuse creates an attribute directory when attributes are listed, and lists none if
            // it cannot.
            let readonly = if namespace::is_in_kernel() {
                "readonly=on"
            } else {
                "readonly=off"
            };
            let arguments = [
                "clone",
                "-o",
                "canmount=noauto",
                "-o",
                readonly,
                &snapshot.full_name,
                &dataset,
            ];
            match self.tools.zfs(&arguments) {
                Err(failure) if failure.fault != Fault::Exists => {
                    self.destroy_unfinished(&dataset)?;
                    return Err(failure.into_error(format!(
                        "read snapshot `{}` of session `{volume}`",
                        snapshot.name
                    )));
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
        self.mount_dataset(&dataset, &directory)?;
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
            let views = catalog.datasets.iter().filter(|(_, dataset)| {
                dataset.role == Role::View && dataset.origin.as_deref().is_some_and(&is_meant)
            });
            views.map(|(name, _)| name.clone()).collect()
        };
        for view in views {
            self.destroy(&view)?;
            lock(&self.views).remove(&view);
        }
        Ok(())
    }

    /// Destroys views not requested for [`VIEW_LIFETIME`]. A view that is still being read is busy
    /// and stays.
    pub(super) fn drop_unused_views(&self) -> Result<(), Failure> {
        let unused: BTreeSet<String> = {
            let views = lock(&self.views);
            views
                .iter()
                .filter(|(_, given)| given.elapsed() > VIEW_LIFETIME)
                .map(|(view, _)| view.clone())
                .collect()
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

/// Returns the layers of a view: the base's own tree as `own`, lent directories as they are.
fn layers(record: &BaseRecord, own: impl Fn(PathBuf) -> ViewLayer) -> Vec<ViewLayer> {
    let layers = record.layers.iter().map(|layer| match &layer.directory {
        LayerDirectory::Own => own(layer.mount_point.clone()),
        LayerDirectory::Host(source) => ViewLayer {
            mount_point: layer.mount_point.clone(),
            lower: Some(source.clone()),
            upper: None,
        },
    });
    layers.collect()
}

/// Returns whether change times have sub-second resolution. zfs-fuse has whole seconds, too coarse
/// to detect a change.
fn has_fine_times(directory: &Path) -> Result<bool> {
    let table = MountTable::read()?;
    let mount = table
        .at(directory)
        .ok_or_else(|| Error::internal(format!("`{}` is not mounted", directory.display())))?;
    Ok(mount.kind == "zfs")
}
