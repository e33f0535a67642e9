//! Destroying datasets that others were cloned from, and clearing up after calls that were interrupted.

use std::collections::BTreeSet;

use sandbar_core::{Result, SessionId};

use super::{
    ZfsStorage,
    catalog::Role,
    command::{Failure, Fault, Tools},
    layout::READY,
    marks,
    mounts::{Patience, hide},
    store::lock,
};

impl ZfsStorage {
    /// Destroys datasets with their snapshots. Forks that stand on them are promoted: they take the snapshots they
    /// need over, and lose nothing. The caller holds `surgery`.
    pub(super) fn discard(&self, datasets: &[String]) -> Result<(), Failure> {
        let mut left: BTreeSet<String> = datasets.iter().cloned().collect();
        self.destroy_views_on(&left)?;
        left.retain(|name| self.catalog().datasets.contains_key(name));
        let origins: Vec<String> = {
            let catalog = self.catalog();
            left.iter().filter_map(|name| catalog.datasets.get(name)?.origin.clone()).collect()
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
        // What the forks inherited, and what a discarded fork stood on, may now be needed by nobody.
        let touched = |snapshot: &str| {
            origins.iter().any(|origin| origin == snapshot) || heirs.contains(super::catalog::dataset_of(snapshot))
        };
        let stale: Vec<String> = self.catalog().stale_snapshots().into_iter().filter(|name| touched(name)).collect();
        stale.iter().try_for_each(|snapshot| self.destroy_snapshot(snapshot))
    }

    /// One that none of the others was cloned from: clones go before their origins.
    fn next_to_destroy(&self, left: &BTreeSet<String>) -> Option<String> {
        let catalog = self.catalog();
        let is_origin = |name: &str| {
            left.iter().any(|other| {
                let origin = catalog.datasets.get(other).and_then(|dataset| dataset.origin.as_deref());
                other != name && origin.is_some_and(|origin| super::catalog::dataset_of(origin) == name)
            })
        };
        left.iter().find(|name| !is_origin(name)).or_else(|| left.first()).cloned()
    }

    /// A clone of the newest snapshot that has one: it takes all older snapshots along.
    fn fork_standing_on(&self, dataset: &str) -> Option<String> {
        let catalog = self.catalog();
        let snapshots = &catalog.datasets.get(dataset)?.snapshots;
        snapshots.iter().rev().find_map(|snapshot| {
            let full_name = format!("{dataset}@{}", snapshot.tag);
            catalog.clones(&full_name).next().cloned()
        })
    }

    /// Snapshots no fork needs are not handed over: a promotion takes room for each, and they only take it away.
    fn destroy_unshared_snapshots(&self, dataset: &str) -> Result<(), Failure> {
        let unshared: Vec<String> = {
            let catalog = self.catalog();
            let snapshots = catalog.datasets.get(dataset).into_iter().flat_map(|dataset| &dataset.snapshots);
            let names = snapshots.map(|snapshot| format!("{dataset}@{}", snapshot.tag));
            names.filter(|snapshot| catalog.clones(snapshot).next().is_none()).collect()
        };
        unshared.iter().try_for_each(|snapshot| self.destroy_snapshot(snapshot))
    }

    pub(super) fn promote(&self, clone: &str) -> Result<(), Failure> {
        self.with_reserve(|| self.tools.zfs_patiently(&["promote", clone]))?;
        self.catalog().promote(clone);
        Ok(())
    }

    /// Destroys a dataset nothing stands on any more.
    pub(super) fn destroy(&self, dataset: &str) -> Result<(), Failure> {
        destroy_dataset(&self.tools, dataset)?;
        self.catalog().remove(dataset);
        Ok(())
    }

    /// Destroys a snapshot; where clones stand on it, it goes when the last of them does, and is not shown till then.
    pub(super) fn destroy_snapshot(&self, full_name: &str) -> Result<(), Failure> {
        let has_clones = self.catalog().clones(full_name).next().is_some();
        if !has_clones {
            match gone(self.tools.zfs_patiently(&["destroy", full_name])) {
                Err(failure) if failure.fault == Fault::HasClones => {}
                outcome => {
                    outcome?;
                    self.catalog().remove_snapshot(full_name);
                    return Ok(());
                }
            }
        }
        gone(self.tools.zfs_patiently(&["destroy", "-d", full_name]))?;
        if let Some(snapshot) = self.catalog().snapshot(full_name) {
            snapshot.is_deferred = true;
        }
        Ok(())
    }

    /// Removes what a failed or interrupted call has made.
    pub(super) fn destroy_unfinished(&self, dataset: &str) -> Result<()> {
        let fail = |failure: Failure| failure.into_error(format!("destroy unfinished dataset `{dataset}`"));
        match self.tools.zfs(&["release", marks::HOLD, &format!("{dataset}@{READY}")]) {
            Err(failure) if !matches!(failure.fault, Fault::Missing | Fault::NothingToDo) => return Err(fail(failure)),
            _ => {}
        }
        destroy_dataset(&self.tools, dataset).map_err(fail)
    }

    /// Brings a volume into its plain form: one live generation with its own history, and others only where they
    /// hold snapshots that were kept. The caller holds `surgery`.
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
        if garbage.is_empty() { Ok(()) } else { self.discard(&garbage) }
    }

    /// The live generation, when it is a clone of an older one of the same volume.
    fn live_on_own_generation(&self, volume: &SessionId) -> Option<String> {
        let catalog = self.catalog();
        let live = catalog.live(volume).ok()?.dataset;
        let origin = catalog.datasets.get(&live)?.origin.as_deref()?;
        let parent = catalog.datasets.get(super::catalog::dataset_of(origin))?;
        (parent.volume == *volume).then_some(live)
    }

    /// Finishes everything that was put off.
    pub(super) fn sweep(&self) -> Result<()> {
        let _surgery = lock(&self.surgery);
        let mut outcome = self.drop_unused_views();
        let volumes: BTreeSet<SessionId> =
            self.catalog().datasets.values().map(|dataset| dataset.volume.clone()).collect();
        for volume in volumes {
            outcome = outcome.and(self.tidy(&volume));
            if self.catalog().of_volume(&volume).next().is_none() {
                self.remove_mount_point(&volume);
            }
        }
        let stale = self.catalog().stale_snapshots();
        for snapshot in stale {
            outcome = outcome.and(self.destroy_snapshot(&snapshot));
        }
        self.restore_reserve();
        self.wait_for_freeing();
        outcome.map_err(|failure| failure.into_error("clear up the pool"))
    }

    /// Nothing of what is left over hinders a start, so that it must not prevent one.
    pub(super) fn sweep_when_opened(&self) {
        let views: Vec<String> = {
            let catalog = self.catalog();
            let views = catalog.datasets.iter().filter(|(_, dataset)| dataset.role == Role::View);
            views.map(|(name, _)| name.clone()).collect()
        };
        for view in views {
            if let Err(failure) = self.destroy(&view) {
                tracing::warn!(%failure, "could not remove a view of an earlier run");
            }
        }
        if let Err(error) = self.sweep() {
            tracing::warn!(error = error.chain(), "could not clear up everything an earlier run left");
        }
        if let Err(error) = self.hold_bases() {
            tracing::warn!(error = error.chain(), "could not hold every base");
        }
    }
}

/// Unmounts and destroys a dataset with its snapshots. That there is none is fine.
pub(super) fn destroy_dataset(tools: &Tools, dataset: &str) -> Result<(), Failure> {
    // `zfs destroy` would unmount it too, but not with the care that zfs-fuse needs.
    hide(tools, dataset, Patience::Full)?;
    gone(tools.zfs_patiently(&["destroy", "-r", dataset]))
}

/// What does not exist need not be destroyed.
fn gone(outcome: Result<String, Failure>) -> Result<(), Failure> {
    match outcome {
        Err(failure) if failure.fault != Fault::Missing => Err(failure),
        _ => Ok(()),
    }
}
