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
};

impl ZfsStorage {
    pub(super) fn list_bases(&self) -> Result<Vec<BaseRecord>> {
        let names: Vec<BaseName> = self.catalog().bases.keys().cloned().collect();
        names.iter().map(|name| Ok(self.read_base(name)?.as_ref().clone())).collect()
    }

    pub(super) fn read_base(&self, name: &BaseName) -> Result<Arc<BaseRecord>> {
        if let Some(record) = lock(&self.records).get(name) {
            return Ok(Arc::clone(record));
        }
        if !self.catalog().bases.contains_key(name) {
            return Err(self.base_missing(name));
        }
        let directory = self.layout.base_directory(name);
        self.show(&self.layout.base(name), &directory)?;
        let record: Option<BaseRecord> = read_record(&directory.join("base.json"))?;
        let record = record.ok_or_else(|| Error::internal(format!("base `{name}` has no `base.json`")))?;
        let record = Arc::new(record);
        lock(&self.records).insert(name.clone(), Arc::clone(&record));
        Ok(record)
    }

    pub(super) fn begin_base(&self, name: &BaseName) -> Result<StagedBase> {
        if self.catalog().bases.contains_key(name) {
            return Err(base_exists(name));
        }
        let (dataset, directory) = self.stage_names(name);
        let fail = |failure: Failure| failure.into_error(format!("stage base `{name}`"));
        let tools = self.tools.clone();
        let staged = StagedBase::new(name.clone(), directory, {
            let dataset = dataset.clone();
            move || {
                if let Err(failure) = destroy_dataset(&tools, &dataset) {
                    // The next start destroys it.
                    tracing::warn!(%failure, "could not remove a half-made base");
                }
            }
        });
        self.tools.zfs(&["create", &dataset]).map_err(fail)?;
        self.show(&dataset, staged.directory())?;
        make_directory(&staged.rootfs())?;
        Ok(staged)
    }

    /// A dataset for a base that is being made, and where it is mounted.
    pub(super) fn stage_names(&self, name: &BaseName) -> (String, std::path::PathBuf) {
        let stage = format!("{name}:{}", marks::tag(self.moment()));
        (format!("{}/{stage}", self.layout.bases), self.layout.bases_directory.join(stage))
    }

    pub(super) fn finish_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()> {
        write_record(&staged.directory().join("base.json"), record)?;
        let stage = staged.directory().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let dataset = format!("{}/{stage}", self.layout.bases);
        let mark = marks::assignment(marks::BASE, &BaseMark::CURRENT)?;
        self.tools
            .zfs(&["snapshot", "-o", &mark, &format!("{dataset}@{READY}")])
            .map_err(|failure| failure.into_error(format!("commit base `{}`", staged.name)))?;
        self.publish_base(&staged.name, &dataset, staged.directory())?;
        staged.keep();
        Ok(())
    }

    /// Holds a finished base and gives it its name. On failure the stage is left ready to be destroyed.
    pub(super) fn publish_base(&self, name: &BaseName, dataset: &str, directory: &std::path::Path) -> Result<()> {
        let ready = format!("{dataset}@{READY}");
        let fail = |failure: Failure| failure.into_error(format!("publish base `{name}`"));
        let _surgery = lock(&self.surgery);
        if self.catalog().bases.contains_key(name) {
            return Err(base_exists(name));
        }
        self.unmount_at(directory)?;
        self.tools.zfs(&["hold", marks::HOLD, &ready]).map_err(fail)?;
        if let Err(failure) = self.tools.zfs_patiently(&["rename", dataset, &self.layout.base(name)]) {
            self.tools.zfs(&["release", marks::HOLD, &ready]).map_err(fail)?;
            return Err(if failure.fault == Fault::Exists { base_exists(name) } else { fail(failure) });
        }
        // Empty; where the dataset was mounted while it was filled.
        let _ = std::fs::remove_dir(directory);
        let referenced = self.referenced(&self.layout.ready(name))?;
        self.catalog().bases.insert(name.clone(), Base { referenced, is_held: true });
        Ok(())
    }

    pub(super) fn remove_base(&self, name: &BaseName) -> Result<()> {
        let _surgery = lock(&self.surgery);
        if !self.catalog().bases.contains_key(name) {
            return Err(self.base_missing(name));
        }
        let users: Vec<_> = {
            let catalog = self.catalog();
            let volumes = catalog.volumes().into_iter();
            volumes.filter(|volume| catalog.live(volume).is_ok_and(|live| live.mark.base == *name)).collect()
        };
        if !users.is_empty() {
            return Err(base_in_use(name, users.iter()));
        }
        self.unmount_at(&self.layout.base_directory(name))?;
        let fail = |failure: Failure| failure.into_error(format!("delete base `{name}`"));
        // Under the name of an unfinished base it is gone in one step, and the next start finishes what is left.
        let dataset = self.layout.base(name);
        let (discarded, _) = self.stage_names(name);
        self.require_no_clones(name)?;
        self.tools.zfs_patiently(&["rename", &dataset, &discarded]).map_err(fail)?;
        let ready = format!("{discarded}@{READY}");
        self.release(&ready).map_err(fail)?;
        if let Err(failure) = destroy_dataset(&self.tools, &discarded) {
            self.tools.zfs(&["hold", marks::HOLD, &ready]).map_err(fail)?;
            self.tools.zfs_patiently(&["rename", &discarded, &dataset]).map_err(fail)?;
            return Err(fail(failure));
        }
        self.catalog().bases.remove(name);
        lock(&self.records).remove(name);
        let _ = std::fs::remove_dir(self.layout.base_directory(name));
        Ok(())
    }

    /// Finds what our catalog does not know: clones that somebody else made, and what is left of deleted volumes.
    fn require_no_clones(&self, name: &BaseName) -> Result<()> {
        let rows = listing::read_all(&self.tools, &["origin"], &[&self.layout.pool])
            .map_err(|failure| failure.into_error(format!("look for clones of base `{name}`")))?;
        let ready = self.layout.ready(name);
        match rows.iter().find(|(_, row)| row.text("origin") == Some(&ready)) {
            None => Ok(()),
            Some((clone, _)) => {
                Err(Error::new(ErrorCode::InvalidState, format!("base `{name}` is in use by dataset `{clone}`"))
                    .with_field("name")
                    .with_hint(format!("destroy it first: `zfs destroy -r {clone}`")))
            }
        }
    }

    fn release(&self, ready: &str) -> Result<(), Failure> {
        match self.tools.zfs(&["release", marks::HOLD, ready]) {
            Err(failure) if !matches!(failure.fault, Fault::NothingToDo | Fault::Missing) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Holds the bases whose hold an interrupted deletion has taken away.
    pub(super) fn hold_bases(&self) -> Result<()> {
        let loose: Vec<BaseName> = {
            let catalog = self.catalog();
            catalog.bases.iter().filter(|(_, base)| !base.is_held).map(|(name, _)| name.clone()).collect()
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
