//! Mounting and unmounting volumes.

use std::{
    collections::HashMap,
    os::fd::{AsFd as _, AsRawFd as _},
    path::{Path, PathBuf},
    sync::MutexGuard,
};

use rustix::mount::MountAttrFlags;
use sandbar_core::{Error, ErrorCode, OwnerMap, Result, SessionId};

use super::{
    LayeredStorage, Primitives,
    layout::{VolumeRecord, make_directory},
    volumes::layer_parts,
};
use crate::{
    LayerDirectory, Mounted, Storage,
    mount_attributes::Extent,
    mount_clone::{MountClone, bind},
    overlay::{Overlay, detach, mount_overlay, open_mount_point},
    translation::{LiveMount, translate_where_possible},
    world_readable::world_readable,
};

pub(super) fn mount_as<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    owners: Option<&OwnerMap>,
) -> Result<Mounted> {
    let record = store.record(volume)?;
    let root = store.layout.mount_point(volume);
    let mut mounted = store.mounted()?;
    match mounted.get(volume) {
        Some(live) if live.is_for(owners) => {
            return Ok(Mounted {
                root,
                translated: live.translated,
            });
        }
        Some(_) => {
            store.detach_volume(volume)?;
            mounted.remove(volume);
        }
        None => {}
    }
    make_directory(&root)?;
    let show = |owners: Option<&OwnerMap>| {
        if record.layered {
            store.mount_layers(volume, &record, &root, owners)
        } else {
            bind(&store.flat_root(volume), &root, owners)
        }
    };
    let translated = match translate_where_possible(owners, show, || detach(&root)) {
        Ok(translated) => translated,
        // An ordinary user cannot mount. A flat volume is used in place.
        Err(error) if !record.layered && error.code() == ErrorCode::PermissionDenied => {
            remove_mount_point(&root)?;
            return Ok(Mounted {
                root: store.flat_root(volume),
                translated: false,
            });
        }
        Err(error) => return Err(error),
    };
    mounted.insert(volume.clone(), LiveMount::new(owners, translated));
    Ok(Mounted { root, translated })
}

pub(super) fn unmount<P: Primitives>(store: &LayeredStorage<P>, volume: &SessionId) -> Result<()> {
    let mut mounted = store.mounted()?;
    if mounted.contains_key(volume) {
        store.detach_volume(volume)?;
        mounted.remove(volume);
        remove_mount_point(&store.layout.mount_point(volume))?;
    }
    Ok(())
}

pub(super) fn unmount_all<P: Primitives>(store: &LayeredStorage<P>) -> Result<()> {
    let volumes: Vec<SessionId> = store.mounted()?.keys().cloned().collect();
    volumes.iter().try_for_each(|volume| store.unmount(volume))
}

impl<P: Primitives> LayeredStorage<P> {
    /// Returns the root of a flat volume.
    fn flat_root(&self, volume: &SessionId) -> PathBuf {
        layer_parts(&self.layout.live(volume), 0).0
    }

    fn mount_layers(
        &self,
        volume: &SessionId,
        record: &VolumeRecord,
        root: &Path,
        owners: Option<&OwnerMap>,
    ) -> Result<()> {
        let base = self.base(&record.base)?;
        let mut clones = Vec::new();
        let live = layer_path(self.layout.live(volume), owners, &mut clones)?;
        for (number, layer) in base.layers.iter().enumerate() {
            // Upper and work must be on the same mount: overlayfs renames files between them.
            let (upper, work) = layer_parts(&live, number);
            let mut lower =
                layer_path(self.layer_directory(&base.name, layer), owners, &mut clones)?;
            let mut target = open_mount_point(root, &layer.mount_point)?;
            let readable = match layer.directory {
                LayerDirectory::Own => None,
                LayerDirectory::Host(_) => world_readable(&lower, self.layout.empty())?,
            };
            if let Some(readable) = readable {
                if owners.is_none() {
                    // Before Linux 6.15 a layer must be on an attached mount. It is then attached
                    // below the overlay.
                    readable.attach(target.as_fd()).map_err(|errno| {
                        Error::io(
                            format!(
                                "attach the lent directory at `{}`",
                                layer.mount_point.display()
                            ),
                            errno.into(),
                        )
                    })?;
                    target = open_mount_point(root, &layer.mount_point)?;
                    lower = PathBuf::from(format!("/proc/self/fd/{}", target.as_raw_fd()));
                } else {
                    lower = readable.path();
                }
                clones.push(readable);
            }
            let overlay = Overlay {
                lower: &lower,
                upper: &upper,
                work: &work,
            };
            mount_overlay(overlay, target.as_fd())?;
        }
        for clone in clones {
            self.closer.close(clone);
        }
        Ok(())
    }

    fn detach_volume(&self, volume: &SessionId) -> Result<()> {
        detach(&self.layout.mount_point(volume))
    }

    fn mounted(&self) -> Result<MutexGuard<'_, HashMap<SessionId, LiveMount>>> {
        self.mounted
            .lock()
            .map_err(|_| Error::internal("mount table lock is poisoned"))
    }
}

/// Returns the path of an overlay layer: the directory itself, or a clone of its mount that is
/// ID-mapped. An overlay cannot be ID-mapped itself; it shows the owners of its layers.
fn layer_path(
    directory: PathBuf,
    owners: Option<&OwnerMap>,
    clones: &mut Vec<MountClone>,
) -> Result<PathBuf> {
    if owners.is_none() {
        return Ok(directory);
    }
    let clone = MountClone::of(&directory, Extent::Alone, MountAttrFlags::empty(), owners)?;
    let path = clone.path();
    clones.push(clone);
    Ok(path)
}

fn remove_mount_point(root: &Path) -> Result<()> {
    std::fs::remove_dir(root)
        .map_err(|error| Error::io(format!("remove `{}`", root.display()), error))
}
