//! Destroying datasets that have clones, and cleaning up after interrupted calls.

use std::collections::BTreeSet;

use sandbar_core::{Result, SessionId};

use super::{
    ZfsStorage,
    catalog::Role,
    command::{Failure, Fault, Tools},
    layout::READY,
    marks,
    mounts::{BusyRetry, unmount_dataset},
    store::lock,
};
use crate::Storage;

/// Finishes all deferred work.
pub(super) fn settle(store: &ZfsStorage) -> Result<()> {
    let _dataset_lock = lock(&store.dataset_lock);
    let mut outcome = store.drop_unused_views();
    let volumes: BTreeSet<SessionId> = store
        .catalog()
        .datasets
        .values()
        .map(|dataset| dataset.volume.clone())
        .collect();
    for volume in volumes {
        outcome = outcome.and(store.tidy(&volume));
        if store.catalog().of_volume(&volume).next().is_none() {
            store.remove_mount_point(&volume);
        }
    }
    let stale = store.catalog().stale_snapshots();
    for snapshot in stale {
        outcome = outcome.and(store.destroy_snapshot(&snapshot));
    }
    store.restore_reserve();
    store.wait_for_freeing();
    outcome.map_err(|failure| failure.into_error("clean up the pool"))
}

impl ZfsStorage {
    /// Destroys datasets with their snapshots. Forks cloned from them are promoted: they take over
    /// the snapshots they need. The caller holds `dataset_lock`.
    pub(super) fn discard(&self, datasets: &[String]) -> Result<(), Failure> {
        let mut left: BTreeSet<String> = datasets.iter().cloned().collect();
        self.destroy_views_on(&left)?;
        left.retain(|name| self.catalog().datasets.contains_key(name));
        let origins: Vec<String> = {
            let catalog = self.catalog();
            left.iter()
                .filter_map(|name| catalog.datasets.get(name)?.origin.clone())
                .collect()
        };
        let mut heirs = BTreeSet::new();
        while let Some(name) = self.next_to_destroy(&left) {
            if self.fork_standing_on(&name).is_some() {
                self.destroy_unshared_snapshots(&name)?;
            }
            while let Some(heir) = self.fork_standing_on(&name) {
                self.promote(&heir)?;
                heirs.insert(heir);
            }
            self.destroy(&name)?;
            left.remove(&name);
        }
        // Snapshots the forks took over, and the origins of destroyed forks, may be unused now.
        let touched = |snapshot: &str| {
            origins.iter().any(|origin| origin == snapshot)
                || heirs.contains(super::catalog::dataset_of(snapshot))
        };
        let stale: Vec<String> = self
            .catalog()
            .stale_snapshots()
            .into_iter()
            .filter(|name| touched(name))
            .collect();
        stale
            .iter()
            .try_for_each(|snapshot| self.destroy_snapshot(snapshot))
    }

    /// Returns a dataset that none of the others was cloned from: clones are destroyed before their
    /// origins.
    fn next_to_destroy(&self, left: &BTreeSet<String>) -> Option<String> {
        let catalog = self.catalog();
        let is_origin = |name: &str| {
            left.iter().any(|other| {
                let origin = catalog
                    .datasets
                    .get(other)
                    .and_then(|dataset| dataset.origin.as_deref());
                other != name
                    && origin.is_some_and(|origin| super::catalog::dataset_of(origin) == name)
            })
        };
        left.iter()
            .find(|name| !is_origin(name))
            .or_else(|| left.first())
            .cloned()
    }

    /// Returns a clone of the newest snapshot that has one: promoting it takes over all older
    /// snapshots.
    fn fork_standing_on(&self, dataset: &str) -> Option<String> {
        let catalog = self.catalog();
        let snapshots = &catalog.datasets.get(dataset)?.snapshots;
        snapshots.iter().rev().find_map(|snapshot| {
            let full_name = format!("{dataset}@{}", snapshot.tag);
            catalog.clones(&full_name).next().cloned()
        })
    }

    /// Destroys snapshots without clones first: a promotion would transfer them, and needs space
    /// for each.
    fn destroy_unshared_snapshots(&self, dataset: &str) -> Result<(), Failure> {
        let unshared: Vec<String> = {
            let catalog = self.catalog();
            let snapshots = catalog
                .datasets
                .get(dataset)
                .into_iter()
                .flat_map(|dataset| &dataset.snapshots);
            let names = snapshots.map(|snapshot| format!("{dataset}@{}", snapshot.tag));
            names
                .filter(|snapshot| catalog.clones(snapshot).next().is_none())
                .collect()
        };
        unshared
            .iter()
            .try_for_each(|snapshot| self.destroy_snapshot(snapshot))
    }

    pub(super) fn promote(&self, clone: &str) -> Result<(), Failure> {
        self.with_reserve(|| self.tools.zfs_retrying(&["promote", clone]))?;
        self.catalog().promote(clone);
        Ok(())
    }

    /// Destroys a dataset without clones.
    pub(super) fn destroy(&self, dataset: &str) -> Result<(), Failure> {
        destroy_dataset(&self.tools, dataset)?;
        self.catalog().remove(dataset);
        Ok(())
    }

    /// Destroys a snapshot. With clones, it is hidden and destroyed with the last of them (`zfs
    /// destroy -d`).
    pub(super) fn destroy_snapshot(&self, full_name: &str) -> Result<(), Failure> {
        let has_clones = self.catalog().clones(full_name).next().is_some();
        if !has_clones {
            match ignore_missing(self.tools.zfs_retrying(&["destroy", full_name])) {
                Err(failure) if failure.fault == Fault::HasClones => {}
                outcome => {
                    outcome?;
                    self.catalog().remove_snapshot(full_name);
                    return Ok(());
                }
            }
        }
        ignore_missing(self.tools.zfs_retrying(&["destroy", "-d", full_name]))?;
        if let Some(snapshot) = self.catalog().snapshot(full_name) {
            snapshot.is_deferred = true;
        }
        Ok(())
    }

    /// Destroys a dataset left by a failed or interrupted call.
    pub(super) fn destroy_unfinished(&self, dataset: &str) -> Result<()> {
        let fail = |failure: Failure| {
            failure.into_error(format!("destroy unfinished dataset `{dataset}`"))
        };
        match self
            .tools
            .zfs(&["release", marks::HOLD, &format!("{dataset}@{READY}")])
        {
            Err(failure) if !matches!(failure.fault, Fault::Missing | Fault::NothingToDo) => {
                return Err(fail(failure));
            }
            _ => {}
        }
        destroy_dataset(&self.tools, dataset).map_err(fail)
    }

    /// Normalises a volume: one live generation with its own history, and others only where they
    /// hold visible snapshots. The caller holds `dataset_lock`.
    pub(super) fn tidy(&self, volume: &SessionId) -> Result<(), Failure> {
        while let Some(live) = self.live_on_own_generation(volume) {
            self.promote(&live)?;
        }
        let dropped = self.catalog().dropped_snapshots(volume);
        for snapshot in dropped {
            self.destroy_views_of(&snapshot.full_name)?;
            self.destroy_snapshot(&snapshot.full_name)?;
        }
        let garbage = self.catalog().garbage(volume);
        if garbage.is_empty() {
            Ok(())
        } else {
            self.discard(&garbage)
        }
    }

    /// Returns the live generation if it is a clone of an older one of the same volume.
    fn live_on_own_generation(&self, volume: &SessionId) -> Option<String> {
        let catalog = self.catalog();
        let live = catalog.live(volume).ok()?.dataset;
        let origin = catalog.datasets.get(&live)?.origin.as_deref()?;
        let parent = catalog.datasets.get(super::catalog::dataset_of(origin))?;
        (parent.volume == *volume).then_some(live)
    }

    /// Cleans up after an earlier run. Failures are logged: leftovers must not prevent a start.
    pub(super) fn sweep_when_opened(&self) {
        let views: Vec<String> = {
            let catalog = self.catalog();
            let views = catalog
                .datasets
                .iter()
                .filter(|(_, dataset)| dataset.role == Role::View);
            views.map(|(name, _)| name.clone()).collect()
        };
        for view in views {
            if let Err(failure) = self.destroy(&view) {
                tracing::warn!(%failure, "could not remove a view of an earlier run");
            }
        }
        if let Err(error) = self.settle() {
            tracing::warn!(
                error = error.chain(),
                "could not clean up everything an earlier run left"
            );
        }
        if let Err(error) = self.hold_bases() {
            tracing::warn!(error = error.chain(), "could not hold every base");
        }
    }
}

/// Unmounts and destroys a dataset with its snapshots. A missing one is success.
pub(super) fn destroy_dataset(tools: &Tools, dataset: &str) -> Result<(), Failure> {
    // Unmounted here, because `zfs destroy` does not drain zfs-fuse first.
    unmount_dataset(tools, dataset, BusyRetry::Long)?;
    ignore_missing(tools.zfs_retrying(&["destroy", "-r", dataset]))
}

/// Turns a missing dataset into success.
fn ignore_missing(outcome: Result<String, Failure>) -> Result<(), Failure> {
    match outcome {
        Err(failure) if failure.fault != Fault::Missing => Err(failure),
        _ => Ok(()),
    }
}
