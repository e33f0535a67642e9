//! Datasets of the pool, cached in memory: one host owns them, so most queries need no command.

use std::collections::BTreeMap;

use sandbar_core::{BaseName, Result, SessionId, SnapshotName};

use super::marks::{Moment, SnapshotMark, VolumeMark};
use crate::errors::volume_not_found;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    pub(super) bases: BTreeMap<BaseName, Base>,
    /// Generations and views, by dataset name.
    pub(super) datasets: BTreeMap<String, Dataset>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Bytes referenced by its tree.
    pub(super) referenced: u64,
    pub(super) is_held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dataset {
    pub(super) volume: SessionId,
    pub(super) role: Role,
    /// Snapshot it was cloned from.
    pub(super) origin: Option<String>,
    pub(super) refquota: u64,
    /// Oldest first.
    pub(super) snapshots: Vec<Snapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Generation {
        number: u64,
        mark: VolumeMark,
        /// Whether it is being deleted.
        is_dead: bool,
    },
    View,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) tag: String,
    /// `None` for a snapshot taken by another program.
    pub(super) mark: Option<SnapshotMark>,
    /// Destroyed with its last clone (`zfs destroy -d`).
    pub(super) is_deferred: bool,
}

/// Live generation of a volume.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) dataset: String,
    pub(super) number: u64,
    pub(super) mark: VolumeMark,
    pub(super) refquota: u64,
}

/// Snapshot visible to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleSnapshot {
    /// `dataset@tag`.
    pub(super) full_name: String,
    pub(super) name: SnapshotName,
    pub(super) created: Moment,
}

impl Catalog {
    /// Returns generations of a volume that are not being deleted, oldest first.
    fn generations(&self, volume: &SessionId) -> Vec<(&String, &Dataset, u64, &VolumeMark)> {
        let mut generations: Vec<_> = self
            .of_volume(volume)
            .filter_map(|(name, dataset)| match &dataset.role {
                Role::Generation {
                    number,
                    mark,
                    is_dead: false,
                } => Some((name, dataset, *number, mark)),
                _ => None,
            })
            .collect();
        generations.sort_by_key(|(_, _, number, _)| *number);
        generations
    }

    /// Returns every dataset of a volume, with views and dead generations.
    pub(super) fn of_volume(
        &self,
        volume: &SessionId,
    ) -> impl Iterator<Item = (&String, &Dataset)> {
        self.datasets
            .iter()
            .filter(move |(_, dataset)| dataset.volume == *volume)
    }

    pub(super) fn volumes(&self) -> Vec<SessionId> {
        let mut volumes: Vec<SessionId> = self
            .datasets
            .values()
            .filter(|dataset| matches!(dataset.role, Role::Generation { is_dead: false, .. }))
            .map(|dataset| dataset.volume.clone())
            .collect();
        volumes.sort();
        volumes.dedup();
        volumes
    }

    pub(super) fn live(&self, volume: &SessionId) -> Result<Live> {
        let generations = self.generations(volume);
        let (name, dataset, number, mark) =
            generations.last().ok_or_else(|| volume_not_found(volume))?;
        Ok(Live {
            dataset: (*name).clone(),
            number: *number,
            mark: (*mark).clone(),
            refquota: dataset.refquota,
        })
    }

    /// Returns the number of the next generation, above those being deleted.
    pub(super) fn next_number(&self, volume: &SessionId) -> u64 {
        let numbers = self
            .of_volume(volume)
            .filter_map(|(_, dataset)| match dataset.role {
                Role::Generation { number, .. } => Some(number + 1),
                Role::View => None,
            });
        numbers.max().unwrap_or(0)
    }

    /// Returns the snapshots of a volume, oldest first: its own, of all generations, except those
    /// dropped by a rollback.
    pub(super) fn snapshots(&self, volume: &SessionId) -> Vec<VisibleSnapshot> {
        self.sorted_snapshots(volume).0
    }

    /// Returns snapshots dropped by a rollback and not destroyed yet. They must be destroyed before
    /// the generation whose mark hides them.
    pub(super) fn dropped_snapshots(&self, volume: &SessionId) -> Vec<VisibleSnapshot> {
        self.sorted_snapshots(volume).1
    }

    /// Returns visible and dropped snapshots, each oldest first.
    fn sorted_snapshots(&self, volume: &SessionId) -> (Vec<VisibleSnapshot>, Vec<VisibleSnapshot>) {
        let generations = self.generations(volume);
        let Some((_, _, _, live)) = generations.last() else {
            return (Vec::new(), Vec::new());
        };
        let mut cut = Moment::MAX;
        let (mut visible, mut dropped) = (Vec::new(), Vec::new());
        for (dataset_name, dataset, _, mark) in generations.iter().rev() {
            for snapshot in dataset
                .snapshots
                .iter()
                .filter(|snapshot| !snapshot.is_deferred)
            {
                let Some(taken) = &snapshot.mark else {
                    continue;
                };
                let Some(name) = &taken.name else { continue };
                if taken.instance != live.instance {
                    continue;
                }
                let list = if taken.created <= cut {
                    &mut visible
                } else {
                    &mut dropped
                };
                list.push(VisibleSnapshot {
                    full_name: format!("{dataset_name}@{}", snapshot.tag),
                    name: name.clone(),
                    created: taken.created,
                });
            }
            cut = cut.min(mark.cut.unwrap_or(Moment::MAX));
        }
        for list in [&mut visible, &mut dropped] {
            list.sort_by_key(|snapshot| snapshot.created);
        }
        (visible, dropped)
    }

    /// Returns the datasets cloned from a snapshot.
    pub(super) fn clones<'a>(&'a self, snapshot: &'a str) -> impl Iterator<Item = &'a String> {
        let is_clone = move |dataset: &Dataset| dataset.origin.as_deref() == Some(snapshot);
        self.datasets
            .iter()
            .filter(move |(_, dataset)| is_clone(dataset))
            .map(|(name, _)| name)
    }

    /// Returns generations to destroy: dead ones, and old ones without visible snapshots.
    pub(super) fn garbage(&self, volume: &SessionId) -> Vec<String> {
        let live = self.live(volume).ok();
        let visible = self.snapshots(volume);
        let is_used = |name: &str| {
            live.as_ref().is_some_and(|live| live.dataset == name)
                || visible
                    .iter()
                    .any(|snapshot| dataset_of(&snapshot.full_name) == name)
        };
        let generations = self
            .of_volume(volume)
            .filter(|(_, dataset)| dataset.role != Role::View);
        generations
            .filter(|(name, _)| !is_used(name))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns our snapshots that are neither visible nor the origin of a clone.
    pub(super) fn stale_snapshots(&self) -> Vec<String> {
        let volumes = self.volumes();
        let visible: std::collections::HashSet<String> = volumes
            .iter()
            .flat_map(|volume| self.snapshots(volume))
            .map(|snapshot| snapshot.full_name)
            .collect();
        let mut stale = Vec::new();
        for (name, dataset) in &self.datasets {
            for snapshot in dataset
                .snapshots
                .iter()
                .filter(|snapshot| snapshot.mark.is_some())
            {
                let full_name = format!("{name}@{}", snapshot.tag);
                if !visible.contains(&full_name) && self.clones(&full_name).next().is_none() {
                    stale.push(full_name);
                }
            }
        }
        stale
    }

    /// Applies `zfs promote` to the catalog: the clone takes over its origin and all older
    /// snapshots, and becomes the origin of its former parent.
    pub(super) fn promote(&mut self, clone: &str) {
        let Some(origin) = self
            .datasets
            .get(clone)
            .and_then(|dataset| dataset.origin.clone())
        else {
            return;
        };
        let Some((parent, tag)) = origin.split_once('@') else {
            return;
        };
        let Some(parent_dataset) = self.datasets.get_mut(parent) else {
            return;
        };
        let Some(position) = parent_dataset
            .snapshots
            .iter()
            .position(|snapshot| snapshot.tag == tag)
        else {
            return;
        };
        let moved: Vec<Snapshot> = parent_dataset.snapshots.drain(..=position).collect();
        let grandparent = parent_dataset.origin.replace(format!("{clone}@{tag}"));
        for dataset in self.datasets.values_mut() {
            let moved_tag = dataset
                .origin
                .as_deref()
                .and_then(|origin| origin.split_once('@'))
                .and_then(|(on, tag)| {
                    (on == parent && moved.iter().any(|snapshot| snapshot.tag == tag))
                        .then(|| tag.to_owned())
                });
            if let Some(tag) = moved_tag {
                dataset.origin = Some(format!("{clone}@{tag}"));
            }
        }
        if let Some(dataset) = self.datasets.get_mut(clone) {
            dataset.origin = grandparent;
            dataset.snapshots.splice(0..0, moved);
        }
    }

    /// Removes a destroyed dataset, and the deferred snapshot that was destroyed with it.
    pub(super) fn remove(&mut self, dataset: &str) {
        let Some(removed) = self.datasets.remove(dataset) else {
            return;
        };
        let Some(origin) = removed.origin else { return };
        if self.clones(&origin).next().is_none()
            && self
                .snapshot(&origin)
                .is_some_and(|snapshot| snapshot.is_deferred)
        {
            self.remove_snapshot(&origin);
        }
    }

    pub(super) fn snapshot(&mut self, full_name: &str) -> Option<&mut Snapshot> {
        let (dataset, tag) = full_name.split_once('@')?;
        self.datasets
            .get_mut(dataset)?
            .snapshots
            .iter_mut()
            .find(|snapshot| snapshot.tag == tag)
    }

    pub(super) fn remove_snapshot(&mut self, full_name: &str) {
        if let Some((dataset, tag)) = full_name.split_once('@')
            && let Some(dataset) = self.datasets.get_mut(dataset)
        {
            dataset.snapshots.retain(|snapshot| snapshot.tag != tag);
        }
    }

    /// Returns the latest moment of any mark, which the clock continues from.
    pub(super) fn latest_moment(&self) -> Moment {
        let of_dataset = |dataset: &Dataset| {
            let own = match &dataset.role {
                Role::Generation { mark, .. } => mark.instance,
                Role::View => 0,
            };
            let marks = dataset
                .snapshots
                .iter()
                .filter_map(|snapshot| snapshot.mark.as_ref());
            marks.map(|mark| mark.created).max().unwrap_or(0).max(own)
        };
        self.datasets.values().map(of_dataset).max().unwrap_or(0)
    }
}

/// Returns the dataset of a snapshot.
pub(super) fn dataset_of(snapshot: &str) -> &str {
    snapshot
        .split_once('@')
        .map_or(snapshot, |(dataset, _)| dataset)
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
