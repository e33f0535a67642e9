//! Bases: datasets that volumes are cloned from.

use std::sync::Arc;

use sandbar_core::{BaseName, Error, ErrorCode, Result};

use super::{
    ZfsStorage,
    catalog::Base,
    command::{Failure, Fault},
    discard::destroy_dataset,
    layout::READY,
    listing,
    marks::{self, BaseMark},
    store::lock,
};
use crate::{
    BaseRecord, StagedBase,
    errors::{base_exists, base_in_use},
    layered::{make_directory, read_record, write_record},
    private_directory::remove_other_access,
};

pub(super) fn bases(store: &ZfsStorage) -> Result<Vec<BaseRecord>> {
    let names: Vec<BaseName> = store.catalog().bases.keys().cloned().collect();
    names
        .iter()
        .map(|name| Ok(store.base_record(name)?.as_ref().clone()))
        .collect()
}

pub(super) fn stage_base(store: &ZfsStorage, name: &BaseName) -> Result<StagedBase> {
    if store.catalog().bases.contains_key(name) {
        return Err(base_exists(name));
    }
    let (dataset, directory) = store.stage_names(name);
    let fail = |failure: Failure| failure.into_error(format!("stage base `{name}`"));
    let tools = store.tools.clone();
    let staged = StagedBase::new(name.clone(), directory, {
        let dataset = dataset.clone();
        move || {
            if let Err(failure) = destroy_dataset(&tools, &dataset) {
                // The next start destroys it.
                tracing::warn!(%failure, "could not remove an incomplete base");
            }
        }
    });
    store.tools.zfs(&["create", &dataset]).map_err(fail)?;
    store.mount_dataset(&dataset, staged.directory())?;
    // Clones inherit it: a second wall below the mount point of the dataset of all.
    remove_other_access(staged.directory())?;
    make_directory(&staged.rootfs())?;
    Ok(staged)
}

pub(super) fn commit_base(
    store: &ZfsStorage,
    staged: StagedBase,
    record: &BaseRecord,
) -> Result<()> {
    write_record(&staged.directory().join("base.json"), record)?;
    let stage = staged
        .directory()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let dataset = format!("{}/{stage}", store.layout.bases);
    let mark = marks::assignment(marks::BASE, &BaseMark::CURRENT)?;
    store
        .tools
        .zfs(&["snapshot", "-o", &mark, &format!("{dataset}@{READY}")])
        .map_err(|failure| failure.into_error(format!("commit base `{}`", staged.name)))?;
    store.publish_base(&staged.name, &dataset, staged.directory())?;
    staged.keep();
    Ok(())
}

pub(super) fn delete_base(store: &ZfsStorage, name: &BaseName) -> Result<()> {
    let _dataset_lock = lock(&store.dataset_lock);
    if !store.catalog().bases.contains_key(name) {
        return Err(store.base_missing(name));
    }
    let users: Vec<_> = {
        let catalog = store.catalog();
        let volumes = catalog.volumes().into_iter();
        volumes
            .filter(|volume| {
                catalog
                    .live(volume)
                    .is_ok_and(|live| live.mark.base == *name)
            })
            .collect()
    };
    if !users.is_empty() {
        return Err(base_in_use(name, users.iter()));
    }
    store.unmount_at(&store.layout.base_directory(name))?;
    let fail = |failure: Failure| failure.into_error(format!("delete base `{name}`"));
    // Renamed to a staging name it is gone in one step, and the next start destroys what is left.
    let dataset = store.layout.base(name);
    let (discarded, _) = store.stage_names(name);
    store.require_no_clones(name)?;
    store
        .tools
        .zfs_retrying(&["rename", &dataset, &discarded])
        .map_err(fail)?;
    let ready = format!("{discarded}@{READY}");
    store.release(&ready).map_err(fail)?;
    if let Err(failure) = destroy_dataset(&store.tools, &discarded) {
        store
            .tools
            .zfs(&["hold", marks::HOLD, &ready])
            .map_err(fail)?;
        store
            .tools
            .zfs_retrying(&["rename", &discarded, &dataset])
            .map_err(fail)?;
        return Err(fail(failure));
    }
    store.catalog().bases.remove(name);
    lock(&store.records).remove(name);
    let _ = std::fs::remove_dir(store.layout.base_directory(name));
    Ok(())
}

impl ZfsStorage {
    pub(super) fn base_record(&self, name: &BaseName) -> Result<Arc<BaseRecord>> {
        if let Some(record) = lock(&self.records).get(name) {
            return Ok(Arc::clone(record));
        }
        if !self.catalog().bases.contains_key(name) {
            return Err(self.base_missing(name));
        }
        let directory = self.layout.base_directory(name);
        self.mount_dataset(&self.layout.base(name), &directory)?;
        let record: Option<BaseRecord> = read_record(&directory.join("base.json"))?;
        let record =
            record.ok_or_else(|| Error::internal(format!("base `{name}` has no `base.json`")))?;
        let record = Arc::new(record);
        lock(&self.records).insert(name.clone(), Arc::clone(&record));
        Ok(record)
    }

    /// Returns dataset and mount point of a base under construction.
    pub(super) fn stage_names(&self, name: &BaseName) -> (String, std::path::PathBuf) {
        let stage = format!("{name}:{}", marks::tag(self.moment()));
        (
            format!("{}/{stage}", self.layout.bases),
            self.layout.bases_directory.join(stage),
        )
    }

    /// Holds a finished base and renames it to its final name. On failure, the stage is ready to be
    /// destroyed.
    pub(super) fn publish_base(
        &self,
        name: &BaseName,
        dataset: &str,
        directory: &std::path::Path,
    ) -> Result<()> {
        let ready = format!("{dataset}@{READY}");
        let fail = |failure: Failure| failure.into_error(format!("publish base `{name}`"));
        let _dataset_lock = lock(&self.dataset_lock);
        if self.catalog().bases.contains_key(name) {
            return Err(base_exists(name));
        }
        self.unmount_at(directory)?;
        self.tools
            .zfs(&["hold", marks::HOLD, &ready])
            .map_err(fail)?;
        if let Err(failure) = self
            .tools
            .zfs_retrying(&["rename", dataset, &self.layout.base(name)])
        {
            self.tools
                .zfs(&["release", marks::HOLD, &ready])
                .map_err(fail)?;
            return Err(if failure.fault == Fault::Exists {
                base_exists(name)
            } else {
                fail(failure)
            });
        }
        // The empty former mount point.
        let _ = std::fs::remove_dir(directory);
        let referenced = self.referenced(&self.layout.ready(name))?;
        self.catalog().bases.insert(
            name.clone(),
            Base {
                referenced,
                is_held: true,
            },
        );
        Ok(())
    }

    /// Fails if the base has clones that the catalog does not know: made by another program, or
    /// left of deleted volumes.
    fn require_no_clones(&self, name: &BaseName) -> Result<()> {
        let rows = listing::read_all(&self.tools, &["origin"], &[&self.layout.pool])
            .map_err(|failure| failure.into_error(format!("look for clones of base `{name}`")))?;
        let ready = self.layout.ready(name);
        match rows
            .iter()
            .find(|(_, row)| row.text("origin") == Some(&ready))
        {
            None => Ok(()),
            Some((clone, _)) => Err(Error::new(
                ErrorCode::InvalidState,
                format!("base `{name}` is in use by dataset `{clone}`"),
            )
            .with_field("name")
            .with_hint(format!("destroy it first: `zfs destroy -r {clone}`"))),
        }
    }

    fn release(&self, ready: &str) -> Result<(), Failure> {
        match self.tools.zfs(&["release", marks::HOLD, ready]) {
            Err(failure) if !matches!(failure.fault, Fault::NothingToDo | Fault::Missing) => {
                Err(failure)
            }
            _ => Ok(()),
        }
    }

    /// Holds bases again whose hold an interrupted deletion has released.
    pub(super) fn hold_bases(&self) -> Result<()> {
        let loose: Vec<BaseName> = {
            let catalog = self.catalog();
            catalog
                .bases
                .iter()
                .filter(|(_, base)| !base.is_held)
                .map(|(name, _)| name.clone())
                .collect()
        };
        for name in loose {
            self.tools
                .zfs(&["hold", marks::HOLD, &self.layout.ready(&name)])
                .map_err(|failure| failure.into_error(format!("hold base `{name}`")))?;
            if let Some(base) = self.catalog().bases.get_mut(&name) {
                base.is_held = true;
            }
        }
        Ok(())
    }
}
