//! Showing a volume's tree, and hiding it again.

use std::{os::fd::AsFd, path::PathBuf};

use sandbar_core::{Error, Result, SessionId};

use super::{LayeredStorage, Primitives, layout::make_directory, volumes::layer_parts};
use crate::overlay::{Overlay, detach, mount_overlay, open_mount_point};

impl<P: Primitives> LayeredStorage<P> {
    pub(super) fn mount_volume(&self, volume: &SessionId) -> Result<PathBuf> {
        let record = self.record(volume)?;
        let live = self.layout.live(volume);
        if !record.layered {
            return Ok(layer_parts(&live, 0).0);
        }
        let root = self.layout.mount_point(volume);
        let mut mounted = self.mounted.lock().map_err(|_| Error::internal("the mount table is poisoned"))?;
        if mounted.contains(volume) {
            return Ok(root);
        }
        let base = self.read_base(&record.base)?;
        make_directory(&root)?;
        for (number, layer) in base.layers.iter().enumerate() {
            let (upper, work) = layer_parts(&live, number);
            let lower = self.layer_directory(&base.name, layer);
            let overlay = Overlay { lower: &lower, upper: &upper, work: &work };
            let attempt =
                open_mount_point(&root, &layer.mount_point).and_then(|target| mount_overlay(overlay, target.as_fd()));
            if let Err(error) = attempt {
                detach(&root)?;
                return Err(error);
            }
        }
        mounted.insert(volume.clone());
        Ok(root)
    }

    pub(super) fn unmount_volume(&self, volume: &SessionId) -> Result<()> {
        let mut mounted = self.mounted.lock().map_err(|_| Error::internal("the mount table is poisoned"))?;
        if mounted.remove(volume) {
            let root = self.layout.mount_point(volume);
            detach(&root)?;
            std::fs::remove_dir(&root).map_err(|error| Error::io(format!("remove `{}`", root.display()), error))?;
        }
        Ok(())
    }

    pub(super) fn unmount_all(&self) -> Result<()> {
        let volumes: Vec<SessionId> = match self.mounted.lock() {
            Ok(mounted) => mounted.iter().cloned().collect(),
            Err(_) => return Err(Error::internal("the mount table is poisoned")),
        };
        volumes.iter().try_for_each(|volume| self.unmount_volume(volume))
    }
}
