//! Making, forking, listing and deleting volumes.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
};

use sandbar_core::{BaseName, ByteCount, Error, ErrorCode, Result, SessionId};

use super::{
    LayeredStorage, Primitives, TreeAccess,
    layout::{VolumeRecord, make_directory, names, publish, read_record, require_version, write_record},
    reaper::remove_volume_trees,
};
use crate::{
    BaseLayer, BaseRecord, ForkPoint, LayerDirectory, VolumeSpec,
    errors::{quota_unsupported, volume_exists, volume_not_found},
    tree_copy::{CopyOptions, copy_tree},
};

impl<P: Primitives> LayeredStorage<P> {
    pub(super) fn create_volume(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()> {
        let base = self.read_base(&spec.base)?;
        let layered = self.is_layered();
        self.make_volume(volume, &spec.base, spec.quota, layered, |live| {
            self.primitives.make_tree(live)?;
            for (number, layer) in mounted_layers(&base, layered).enumerate() {
                let (upper, work) = layer_parts(live, number);
                let lower = self.layer_directory(&base.name, layer);
                if layered {
                    make_directory(&upper)?;
                    make_directory(&work)?;
                    copy_root_metadata(&lower, &upper)?;
                } else {
                    make_directory(upper.parent().unwrap_or(live))?;
                    copy_tree(&lower, &upper, &CopyOptions::VERBATIM)?;
                }
            }
            Ok(())
        })
    }

    pub(super) fn fork_volume(
        &self,
        source: &SessionId,
        point: &ForkPoint,
        volume: &SessionId,
        quota: Option<ByteCount>,
    ) -> Result<()> {
        let record = self.record(source)?;
        let tree = self.tree_at(source, point)?;
        self.make_volume(volume, &record.base, quota, record.layered, |live| {
            self.primitives.copy_tree(&tree, live, TreeAccess::Writable, &self.layout.stage())
        })
    }

    /// Builds a volume in staging and publishes it by one rename; undoes itself when anything fails.
    fn make_volume(
        &self,
        volume: &SessionId,
        base: &BaseName,
        quota: Option<ByteCount>,
        layered: bool,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let place = self.layout.volume(volume);
        if place.exists() {
            return Err(volume_exists(volume));
        }
        if quota.is_some() {
            self.require_quota()?;
        }
        let stage = self.layout.stage();
        let live = stage.join("live");
        let build = || -> Result<()> {
            make_directory(&stage.join("snapshots"))?;
            let record = VolumeRecord { version: VolumeRecord::VERSION, base: base.clone(), quota, layered };
            write_record(&stage.join("volume.json"), &record)?;
            fill(&live)?;
            if quota.is_some() {
                self.primitives.set_quota(&live, quota)?;
            }
            publish(&stage, &place).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => volume_exists(volume),
                _ => Error::io(format!("publish volume `{volume}`"), error),
            })
        };
        build().inspect_err(|_| {
            if let Err(error) = self.layout.discard(&stage) {
                tracing::warn!(error = error.chain(), "could not discard a half-made volume");
            }
            self.reaper.wake();
        })
    }

    pub(super) fn delete_volume(&self, volume: &SessionId) -> Result<()> {
        self.unmount_volume(volume)?;
        let place = self.layout.volume(volume);
        if let Err(error) = self.layout.discard(&place) {
            if error.code() != ErrorCode::StorageFull {
                return Err(error);
            }
            // On a full pool even a rename may find no room. Taking the trees away first makes some; it is not one step,
            // but a volume that is being deleted has nothing left to lose.
            remove_volume_trees(&*self.primitives, &place)?;
            self.primitives.settle()?;
            self.layout.discard(&place)?;
        }
        self.reaper.wake();
        Ok(())
    }

    pub(super) fn list_volumes(&self) -> Result<Vec<SessionId>> {
        // A name that is no id was not put there by us.
        Ok(names(&self.layout.volumes())?.into_iter().filter_map(|name| SessionId::new(name.to_str()?).ok()).collect())
    }

    pub(super) fn change_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        if quota.is_some() {
            self.require_quota()?;
        }
        let mut record = self.record(volume)?;
        if record.quota == quota {
            return Ok(());
        }
        self.primitives.set_quota(&self.layout.live(volume), quota)?;
        record.quota = quota;
        let stage = self.layout.stage();
        write_record(&stage, &record)?;
        let place = self.layout.volume(volume).join("volume.json");
        fs::rename(&stage, &place).map_err(|error| Error::io(format!("replace `{}`", place.display()), error))
    }

    fn require_quota(&self) -> Result<()> {
        match self.facts.quota.reason() {
            None => Ok(()),
            Some(reason) => Err(quota_unsupported(reason)),
        }
    }

    pub(super) fn record(&self, volume: &SessionId) -> Result<VolumeRecord> {
        let record: VolumeRecord =
            read_record(&self.layout.volume(volume).join("volume.json"))?.ok_or_else(|| volume_not_found(volume))?;
        require_version(record.version, VolumeRecord::VERSION, || format!("the record of volume `{volume}`"))?;
        Ok(record)
    }
}

/// The layers of a base that take part in a volume. A flat volume can only hold what is copied into it.
pub(super) fn mounted_layers(base: &BaseRecord, layered: bool) -> impl Iterator<Item = &BaseLayer> {
    base.layers.iter().filter(move |layer| layered || layer.directory == LayerDirectory::Own)
}

/// An overlay shows the owner, mode and time of its upper directory at its root.
fn copy_root_metadata(lower: &Path, upper: &Path) -> Result<()> {
    let complain = |error| Error::io(format!("give `{}` the mode of its base", upper.display()), error);
    let metadata = fs::metadata(lower).map_err(complain)?;
    chown(upper, Some(metadata.uid()), Some(metadata.gid())).map_err(complain)?;
    fs::set_permissions(upper, metadata.permissions()).map_err(complain)?;
    let modified = metadata.modified().map_err(complain)?;
    let times = fs::FileTimes::new().set_modified(modified).set_accessed(modified);
    fs::File::open(upper).and_then(|directory| directory.set_times(times)).map_err(complain)
}

/// The overlay's upper and work directories for the `number`th mount point of a tree.
pub(super) fn layer_parts(tree: &Path, number: usize) -> (PathBuf, PathBuf) {
    let layer = tree.join(number.to_string());
    (layer.join("upper"), layer.join("work"))
}
