//! Showing a volume's tree, and hiding it again.

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
    LayerDirectory, Mounted,
    mount_attributes::Extent,
    mount_clone::{MountClone, bind},
    overlay::{Overlay, detach, mount_overlay, open_mount_point},
    screen::screen,
    translation::{LiveMount, translate_where_possible},
};

impl<P: Primitives> LayeredStorage<P> {
    pub(super) fn mount_volume(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        let record = self.record(volume)?;
        let root = self.layout.mount_point(volume);
        let mut mounted = self.mounted()?;
        match mounted.get(volume) {
            Some(live) if live.is_for(owners) => return Ok(Mounted { root, translated: live.translated }),
            Some(_) => {
                self.hide(volume)?;
                mounted.remove(volume);
            }
            None => {}
        }
        make_directory(&root)?;
        let show = |owners: Option<&OwnerMap>| {
            if record.layered {
                self.show_layers(volume, &record, &root, owners)
            } else {
                bind(&self.flat_root(volume), &root, owners)
            }
        };
        let translated = match translate_where_possible(owners, show, || detach(&root)) {
            Ok(translated) => translated,
            // An ordinary user mounts nothing. A volume that is no overlay can be used where it lies.
            Err(error) if !record.layered && error.code() == ErrorCode::PermissionDenied => {
                remove_mount_point(&root)?;
                return Ok(Mounted { root: self.flat_root(volume), translated: false });
            }
            Err(error) => return Err(error),
        };
        mounted.insert(volume.clone(), LiveMount::new(owners, translated));
        Ok(Mounted { root, translated })
    }

    /// Where a volume that is no overlay has its files.
    fn flat_root(&self, volume: &SessionId) -> PathBuf {
        layer_parts(&self.layout.live(volume), 0).0
    }

    fn show_layers(
        &self,
        volume: &SessionId,
        record: &VolumeRecord,
        root: &Path,
        owners: Option<&OwnerMap>,
    ) -> Result<()> {
        let base = self.read_base(&record.base)?;
        let mut clones = Vec::new();
        let live = layer_path(self.layout.live(volume), owners, &mut clones)?;
        for (number, layer) in base.layers.iter().enumerate() {
            // Both through one mount: an overlay moves files from the one to the other.
            let (upper, work) = layer_parts(&live, number);
            let mut lower = layer_path(self.layer_directory(&base.name, layer), owners, &mut clones)?;
            let mut target = open_mount_point(root, &layer.mount_point)?;
            let screened = match layer.directory {
                LayerDirectory::Own => None,
                LayerDirectory::Host(_) => screen(&lower, self.layout.empty())?,
            };
            if let Some(screened) = screened {
                if owners.is_none() {
                    // Before Linux 6.15 only a mount that is attached can be a layer. It lies below the overlay then.
                    screened.attach(target.as_fd()).map_err(|errno| {
                        Error::io(format!("attach what is lent at `{}`", layer.mount_point.display()), errno.into())
                    })?;
                    target = open_mount_point(root, &layer.mount_point)?;
                    lower = PathBuf::from(format!("/proc/self/fd/{}", target.as_raw_fd()));
                } else {
                    lower = screened.path();
                }
                clones.push(screened);
            }
            let overlay = Overlay { lower: &lower, upper: &upper, work: &work };
            mount_overlay(overlay, target.as_fd())?;
        }
        for clone in clones {
            self.closer.close(clone);
        }
        Ok(())
    }

    pub(super) fn unmount_volume(&self, volume: &SessionId) -> Result<()> {
        let mut mounted = self.mounted()?;
        if mounted.contains_key(volume) {
            self.hide(volume)?;
            mounted.remove(volume);
            remove_mount_point(&self.layout.mount_point(volume))?;
        }
        Ok(())
    }

    fn hide(&self, volume: &SessionId) -> Result<()> {
        detach(&self.layout.mount_point(volume))
    }

    pub(super) fn unmount_all(&self) -> Result<()> {
        let volumes: Vec<SessionId> = self.mounted()?.keys().cloned().collect();
        volumes.iter().try_for_each(|volume| self.unmount_volume(volume))
    }

    fn mounted(&self) -> Result<MutexGuard<'_, HashMap<SessionId, LiveMount>>> {
        self.mounted.lock().map_err(|_| Error::internal("the mount table is poisoned"))
    }
}

/// A directory of an overlay: as it is, or through a copy of its mount that translates owners. An overlay itself cannot
/// translate, and shows owners as its layers do.
fn layer_path(directory: PathBuf, owners: Option<&OwnerMap>, clones: &mut Vec<MountClone>) -> Result<PathBuf> {
    if owners.is_none() {
        return Ok(directory);
    }
    let clone = MountClone::of(&directory, Extent::Alone, MountAttrFlags::empty(), owners)?;
    let path = clone.path();
    clones.push(clone);
    Ok(path)
}

fn remove_mount_point(root: &Path) -> Result<()> {
    std::fs::remove_dir(root).map_err(|error| Error::io(format!("remove `{}`", root.display()), error))
}
