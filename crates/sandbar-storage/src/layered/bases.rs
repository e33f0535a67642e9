//! Bases of a layered store: plain directories, the lower layers of volumes.

use std::{io, path::PathBuf};

use sandbar_core::{BaseName, Error, Result};
use sandbar_tree::remove_tree;

use super::{
    LayeredStorage, Primitives,
    layout::{make_directory, names, publish, read_record, require_version, write_record},
};
use crate::{
    BaseLayer, BaseRecord, LayerDirectory, StagedBase, Storage, TreeView, ViewLayer,
    errors::{base_exists, base_in_use, base_not_found},
    private_directory::make_private_directory,
};

pub(super) fn bases<P: Primitives>(store: &LayeredStorage<P>) -> Result<Vec<BaseRecord>> {
    let mut records = Vec::new();
    for name in names(&store.layout.bases())? {
        if let Some(record) = read_record(&store.layout.bases().join(name).join("base.json"))? {
            records.push(record);
        }
    }
    Ok(records)
}

pub(super) fn base<P: Primitives>(
    store: &LayeredStorage<P>,
    name: &BaseName,
) -> Result<BaseRecord> {
    let Some(record): Option<BaseRecord> = read_record(&store.layout.base(name).join("base.json"))?
    else {
        return Err(base_not_found(
            name,
            store.bases()?.iter().map(|base| &base.name),
        ));
    };
    require_version(record.version, BaseRecord::VERSION, || {
        format!("record of base `{name}`")
    })?;
    Ok(record)
}

pub(super) fn stage_base<P: Primitives>(
    store: &LayeredStorage<P>,
    name: &BaseName,
) -> Result<StagedBase> {
    if store.layout.base(name).exists() {
        return Err(base_exists(name));
    }
    let stage = store.layout.stage();
    make_private_directory(&stage)?;
    make_directory(&stage.join("rootfs"))?;
    let discarded = stage.clone();
    Ok(StagedBase::new(name.clone(), stage, move || {
        if let Err(error) = remove_tree(&discarded) {
            // The next start empties the staging directory.
            tracing::warn!(error = error.chain(), "could not remove an incomplete base");
        }
    }))
}

pub(super) fn commit_base<P: Primitives>(
    store: &LayeredStorage<P>,
    staged: StagedBase,
    record: &BaseRecord,
) -> Result<()> {
    write_record(&staged.directory().join("base.json"), record)?;
    match publish(staged.directory(), &store.layout.base(&staged.name)) {
        Ok(()) => {
            staged.keep();
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(base_exists(&staged.name))
        }
        Err(error) => Err(Error::io(format!("publish base `{}`", staged.name), error)),
    }
}

pub(super) fn delete_base<P: Primitives>(store: &LayeredStorage<P>, name: &BaseName) -> Result<()> {
    store.base(name)?;
    let mut users = Vec::new();
    for volume in store.volumes()? {
        if store.record(&volume)?.base == *name {
            users.push(volume);
        }
    }
    if !users.is_empty() {
        return Err(base_in_use(name, users.iter()));
    }
    store.layout.discard(&store.layout.base(name))?;
    store.reaper.wake();
    Ok(())
}

pub(super) fn base_view<P: Primitives>(
    store: &LayeredStorage<P>,
    name: &BaseName,
) -> Result<TreeView> {
    let record = store.base(name)?;
    let layers = record
        .layers
        .iter()
        .filter(|layer| store.is_layered() || layer.directory == LayerDirectory::Own)
        .map(|layer| ViewLayer {
            mount_point: layer.mount_point.clone(),
            lower: Some(store.layer_directory(name, layer)),
            upper: None,
        })
        .collect();
    Ok(TreeView {
        layers,
        frozen_at: None,
        stable_inodes: false,
    })
}

impl<P: Primitives> LayeredStorage<P> {
    /// Returns the directory of a base layer.
    pub(super) fn layer_directory(&self, base: &BaseName, layer: &BaseLayer) -> PathBuf {
        match &layer.directory {
            LayerDirectory::Own => self.layout.base(base).join("rootfs"),
            LayerDirectory::Host(path) => path.clone(),
        }
    }
}
