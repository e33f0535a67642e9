//! Creating, forking, listing and deleting volumes.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
};

use sandbar_core::{BaseName, ByteCount, Error, ErrorCode, Result, SessionId};
use sandbar_tree::{CopyOptions, copy_tree};

use super::{
    LayeredStorage, Primitives, TreeAccess,
    layout::{
        VolumeRecord, make_directory, names, publish, read_record, require_version, write_record,
    },
    reaper::remove_volume_trees,
};
use crate::{
    BaseLayer, BaseRecord, ForkPoint, LayerDirectory, Storage, VolumeSpec,
    errors::{quota_unsupported, volume_exists, volume_not_found},
    private_directory::make_private_directory,
};

pub(super) fn create<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    spec: &VolumeSpec,
) -> Result<()> {
    let base = store.base(&spec.base)?;
    let layered = store.is_layered();
    store.make_volume(volume, &spec.base, spec.quota, layered, |live| {
        store.primitives.make_tree(live)?;
        for (number, layer) in mounted_layers(&base, layered).enumerate() {
            let (upper, work) = layer_parts(live, number);
            let lower = store.layer_directory(&base.name, layer);
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

pub(super) fn fork<P: Primitives>(
    store: &LayeredStorage<P>,
    source: &SessionId,
    point: &ForkPoint,
    volume: &SessionId,
    quota: Option<ByteCount>,
) -> Result<()> {
    let record = store.record(source)?;
    let tree = store.tree_at(source, point)?;
    store.make_volume(volume, &record.base, quota, record.layered, |live| {
        store
            .primitives
            .copy_tree(&tree, live, TreeAccess::Writable, &store.layout.stage())
    })
}

pub(super) fn delete<P: Primitives>(store: &LayeredStorage<P>, volume: &SessionId) -> Result<()> {
    store.unmount(volume)?;
    let place = store.layout.volume(volume);
    if let Err(error) = store.layout.discard(&place) {
        if error.code() != ErrorCode::StorageFull {
            return Err(error);
        }
        // On a full pool even a rename may fail. Removing the trees first frees space. That is not
        // atomic, which is acceptable for a volume that is being deleted.
        remove_volume_trees(&*store.primitives, &place)?;
        store.primitives.settle()?;
        store.layout.discard(&place)?;
    }
    store.reaper.wake();
    Ok(())
}

pub(super) fn volumes<P: Primitives>(store: &LayeredStorage<P>) -> Result<Vec<SessionId>> {
    // Other names were not created by this store.
    Ok(names(&store.layout.volumes())?
        .into_iter()
        .filter_map(|name| SessionId::new(name.to_str()?).ok())
        .collect())
}

pub(super) fn set_quota<P: Primitives>(
    store: &LayeredStorage<P>,
    volume: &SessionId,
    quota: Option<ByteCount>,
) -> Result<()> {
    if quota.is_some() {
        store.require_quota()?;
    }
    let mut record = store.record(volume)?;
    if record.quota == quota {
        return Ok(());
    }
    store
        .primitives
        .set_quota(&store.layout.live(volume), quota)?;
    record.quota = quota;
    let stage = store.layout.stage();
    write_record(&stage, &record)?;
    let place = store.layout.volume(volume).join("volume.json");
    fs::rename(&stage, &place)
        .map_err(|error| Error::io(format!("replace `{}`", place.display()), error))
}

impl<P: Primitives> LayeredStorage<P> {
    /// Builds a volume in staging and publishes it by one rename. Discards it on failure.
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
            make_private_directory(&stage)?;
            make_directory(&stage.join("snapshots"))?;
            let record = VolumeRecord {
                version: VolumeRecord::VERSION,
                base: base.clone(),
                quota,
                layered,
            };
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
                tracing::warn!(
                    error = error.chain(),
                    "could not discard an incomplete volume"
                );
            }
            self.reaper.wake();
        })
    }

    fn require_quota(&self) -> Result<()> {
        match self.facts.quota.reason() {
            None => Ok(()),
            Some(reason) => Err(quota_unsupported(reason)),
        }
    }

    pub(super) fn record(&self, volume: &SessionId) -> Result<VolumeRecord> {
        let record: VolumeRecord = read_record(&self.layout.volume(volume).join("volume.json"))?
            .ok_or_else(|| volume_not_found(volume))?;
        require_version(record.version, VolumeRecord::VERSION, || {
            format!("record of volume `{volume}`")
        })?;
        Ok(record)
    }
}

/// Returns the layers of a base that a volume mounts. A flat volume has only what was copied into
/// it.
pub(super) fn mounted_layers(base: &BaseRecord, layered: bool) -> impl Iterator<Item = &BaseLayer> {
    base.layers
        .iter()
        .filter(move |layer| layered || layer.directory == LayerDirectory::Own)
}

/// Copies owner, mode and time to the upper directory, which an overlay shows at its root.
fn copy_root_metadata(lower: &Path, upper: &Path) -> Result<()> {
    let complain = |error| {
        Error::io(
            format!("copy the mode of the base to `{}`", upper.display()),
            error,
        )
    };
    let metadata = fs::metadata(lower).map_err(complain)?;
    chown(upper, Some(metadata.uid()), Some(metadata.gid())).map_err(complain)?;
    fs::set_permissions(upper, metadata.permissions()).map_err(complain)?;
    let modified = metadata.modified().map_err(complain)?;
    let times = fs::FileTimes::new()
        .set_modified(modified)
        .set_accessed(modified);
    fs::File::open(upper)
        .and_then(|directory| directory.set_times(times))
        .map_err(complain)
}

/// Returns the overlay's upper and work directories for the `number`th mount point of a tree.
pub(super) fn layer_parts(tree: &Path, number: usize) -> (PathBuf, PathBuf) {
    let layer = tree.join(number.to_string());
    (layer.join("upper"), layer.join("work"))
}
