//! Bases of a layered store: plain directories that lie below every volume made from them.

use std::{io, path::PathBuf};

use sandbar_core::{BaseName, Error, Result};

use super::{
    LayeredStorage, Primitives,
    layout::{make_directory, names, publish, read_record, require_version, write_record},
};
use crate::{
    BaseLayer, BaseRecord, LayerDirectory, StagedBase, TreeView, ViewLayer,
    errors::{base_exists, base_in_use, base_not_found},
    tree_remove::remove_tree,
};

impl<P: Primitives> LayeredStorage<P> {
    pub(super) fn list_bases(&self) -> Result<Vec<BaseRecord>> {
        let mut records = Vec::new();
        for name in names(&self.layout.bases())? {
            if let Some(record) = read_record(&self.layout.bases().join(name).join("base.json"))? {
                records.push(record);
            }
        }
        Ok(records)
    }

    pub(super) fn read_base(&self, name: &BaseName) -> Result<BaseRecord> {
        let Some(record): Option<BaseRecord> = read_record(&self.layout.base(name).join("base.json"))? else {
            return Err(base_not_found(name, self.list_bases()?.iter().map(|base| &base.name)));
        };
        require_version(record.version, BaseRecord::VERSION, || format!("the record of base `{name}`"))?;
        Ok(record)
    }

    pub(super) fn begin_base(&self, name: &BaseName) -> Result<StagedBase> {
        if self.layout.base(name).exists() {
            return Err(base_exists(name));
        }
        let stage = self.layout.stage();
        make_directory(&stage.join("rootfs"))?;
        let discarded = stage.clone();
        Ok(StagedBase::new(name.clone(), stage, move || {
            if let Err(error) = remove_tree(&discarded) {
                // The next start empties the staging directory.
                tracing::warn!(error = error.chain(), "could not remove a half-made base");
            }
        }))
    }

    pub(super) fn finish_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()> {
        write_record(&staged.directory().join("base.json"), record)?;
        match publish(staged.directory(), &self.layout.base(&staged.name)) {
            Ok(()) => {
                staged.keep();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(base_exists(&staged.name)),
            Err(error) => Err(Error::io(format!("publish base `{}`", staged.name), error)),
        }
    }

    pub(super) fn remove_base(&self, name: &BaseName) -> Result<()> {
        self.read_base(name)?;
        let mut users = Vec::new();
        for volume in self.list_volumes()? {
            if self.record(&volume)?.base == *name {
                users.push(volume);
            }
        }
        if !users.is_empty() {
            return Err(base_in_use(name, users.iter()));
        }
        self.layout.discard(&self.layout.base(name))?;
        self.reaper.wake();
        Ok(())
    }

    /// Where the files of a base layer are.
    pub(super) fn layer_directory(&self, base: &BaseName, layer: &BaseLayer) -> PathBuf {
        match &layer.directory {
            LayerDirectory::Own => self.layout.base(base).join("rootfs"),
            LayerDirectory::Host(path) => path.clone(),
        }
    }

    pub(super) fn view_of_base(&self, name: &BaseName) -> Result<TreeView> {
        let record = self.read_base(name)?;
        let layers = record
            .layers
            .iter()
            .filter(|layer| self.is_layered() || layer.directory == LayerDirectory::Own)
            .map(|layer| ViewLayer {
                mount_point: layer.mount_point.clone(),
                lower: Some(self.layer_directory(name, layer)),
                upper: None,
            })
            .collect();
        Ok(TreeView { layers, frozen_at: None, stable_inodes: false })
    }
}
