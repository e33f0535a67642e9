//! What is on the pool, kept in memory: one host owns the datasets, so that most questions need no command at all.

use std::collections::BTreeMap;

use sandbar_core::{BaseName, Result, SessionId, SnapshotName};

use super::{
    layout::{Layout, Part, READY},
    listing::Properties,
    marks::{self, BaseMark, Moment, SnapshotMark, VolumeMark},
};
use crate::errors::volume_not_found;

/// The properties a catalog is made from.
pub(super) const PROPERTIES: [&str; 10] = [
    "origin",
    "referenced",
    "createtxg",
    "refquota",
    "userrefs",
    "defer_destroy",
    marks::VOLUME,
    marks::SNAPSHOT,
    marks::BASE,
    marks::DELETED,
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    pub(super) bases: BTreeMap<BaseName, Base>,
    /// Generations and views by the names of their datasets.
    pub(super) datasets: BTreeMap<String, Dataset>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Bytes its tree refers to.
    pub(super) referenced: u64,
    pub(super) is_held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dataset {
    pub(super) volume: SessionId,
    pub(super) role: Role,
    /// The snapshot it is a clone of.
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
        /// It is being deleted.
        is_dead: bool,
    },
    View,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) tag: String,
    /// `None` for a snapshot that somebody else took.
    pub(super) mark: Option<SnapshotMark>,
    /// It disappears with its last clone.
    pub(super) is_deferred: bool,
}

/// The generation a volume shows.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) dataset: String,
    pub(super) number: u64,
    pub(super) mark: VolumeMark,
    pub(super) refquota: u64,
}

/// A snapshot a user can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleSnapshot {
    /// `dataset@tag`.
    pub(super) full_name: String,
    pub(super) name: SnapshotName,
    pub(super) created: Moment,
}

impl Catalog {
    /// Reads a listing. The second part names the datasets that an interrupted call left unfinished.
    pub(super) fn read(layout: &Layout, rows: &BTreeMap<String, Properties>) -> Result<(Self, Vec<String>)> {
        let mut catalog = Self::default();
        let mut unfinished = Vec::new();
        let mut deleted: BTreeMap<SessionId, u64> = BTreeMap::new();
        for (name, properties) in rows.iter().filter(|(name, _)| !name.contains('@')) {
            let origin = properties.text("origin").map(str::to_owned);
            if let Some((base, is_staged)) = layout.parse_base(name) {
                let ready = rows.get(&format!("{name}@{READY}"));
                match ready.filter(|ready| ready.local(marks::BASE).is_some()) {
                    Some(ready) if !is_staged => {
                        marks::parse::<BaseMark>(name, ready.local(marks::BASE).unwrap_or_default())?;
                        let is_held = ready.number("userrefs") > 0;
                        catalog.bases.insert(base, Base { referenced: ready.number("referenced"), is_held });
                    }
                    // Half deleted, or a dataset of somebody else's; only what carries our kind of name is removed.
                    _ if is_staged => unfinished.push(name.clone()),
                    _ => {}
                }
                continue;
            }
            let Some((volume, part)) = layout.parse(name) else { continue };
            let role = match part {
                Part::Receiving => {
                    unfinished.push(name.clone());
                    continue;
                }
                Part::View => Role::View,
                Part::Generation(number) => match properties.local(marks::VOLUME) {
                    Some(json) => {
                        if properties.local(marks::DELETED).is_some() {
                            let highest = deleted.entry(volume.clone()).or_default();
                            *highest = (*highest).max(number);
                        }
                        Role::Generation { number, mark: marks::parse(name, json)?, is_dead: false }
                    }
                    // A clone whose properties were not written any more. Not ours when it is not made from ours.
                    None if origin.as_deref().is_some_and(|origin| layout.owns(origin)) => {
                        unfinished.push(name.clone());
                        continue;
                    }
                    None => continue,
                },
            };
            let snapshots = read_snapshots(name, rows)?;
            let refquota = properties.number("refquota");
            catalog.datasets.insert(name.clone(), Dataset { volume, role, origin, refquota, snapshots });
        }
        for dataset in catalog.datasets.values_mut() {
            if let Role::Generation { number, is_dead, .. } = &mut dataset.role {
                *is_dead = deleted.get(&dataset.volume).is_some_and(|highest| *number <= *highest);
            }
        }
        Ok((catalog, unfinished))
    }

    /// Generations of a volume that are not being deleted, oldest first.
    fn generations(&self, volume: &SessionId) -> Vec<(&String, &Dataset, u64, &VolumeMark)> {
        let mut generations: Vec<_> = self
            .of_volume(volume)
            .filter_map(|(name, dataset)| match &dataset.role {
                Role::Generation { number, mark, is_dead: false } => Some((name, dataset, *number, mark)),
                _ => None,
            })
            .collect();
        generations.sort_by_key(|(_, _, number, _)| *number);
        generations
    }

    /// Every dataset of a volume, views and dead generations too.
    pub(super) fn of_volume(&self, volume: &SessionId) -> impl Iterator<Item = (&String, &Dataset)> {
        self.datasets.iter().filter(move |(_, dataset)| dataset.volume == *volume)
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
        let (name, dataset, number, mark) = generations.last().ok_or_else(|| volume_not_found(volume))?;
        Ok(Live { dataset: (*name).clone(), number: *number, mark: (*mark).clone(), refquota: dataset.refquota })
    }

    /// The number for the next generation, above those that are being deleted too.
    pub(super) fn next_number(&self, volume: &SessionId) -> u64 {
        let numbers = self.of_volume(volume).filter_map(|(_, dataset)| match dataset.role {
            Role::Generation { number, .. } => Some(number + 1),
            Role::View => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Snapshots of a volume, oldest first: those it took itself, on any generation, that no rollback has dropped.
    pub(super) fn snapshots(&self, volume: &SessionId) -> Vec<VisibleSnapshot> {
        self.sorted_snapshots(volume).0
    }

    /// Snapshots a rollback has dropped, and that are still there. The mark that hides them goes with its generation, so
    /// they must go first.
    pub(super) fn dropped_snapshots(&self, volume: &SessionId) -> Vec<VisibleSnapshot> {
        self.sorted_snapshots(volume).1
    }

    /// Those that can be seen, and those that were dropped, each oldest first.
    fn sorted_snapshots(&self, volume: &SessionId) -> (Vec<VisibleSnapshot>, Vec<VisibleSnapshot>) {
        let generations = self.generations(volume);
        let Some((_, _, _, live)) = generations.last() else { return (Vec::new(), Vec::new()) };
        let mut cut = Moment::MAX;
        let (mut visible, mut dropped) = (Vec::new(), Vec::new());
        for (dataset_name, dataset, _, mark) in generations.iter().rev() {
            for snapshot in dataset.snapshots.iter().filter(|snapshot| !snapshot.is_deferred) {
                let Some(taken) = &snapshot.mark else { continue };
                let Some(name) = &taken.name else { continue };
                if taken.instance != live.instance {
                    continue;
                }
                let list = if taken.created <= cut { &mut visible } else { &mut dropped };
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

    /// Datasets cloned from a snapshot.
    pub(super) fn clones<'a>(&'a self, snapshot: &'a str) -> impl Iterator<Item = &'a String> {
        let is_clone = move |dataset: &Dataset| dataset.origin.as_deref() == Some(snapshot);
        self.datasets.iter().filter(move |(_, dataset)| is_clone(dataset)).map(|(name, _)| name)
    }

    /// Generations nobody can see any more: dead ones, and old ones whose snapshots are all gone.
    pub(super) fn garbage(&self, volume: &SessionId) -> Vec<String> {
        let live = self.live(volume).ok();
        let visible = self.snapshots(volume);
        let is_used = |name: &str| {
            live.as_ref().is_some_and(|live| live.dataset == name)
                || visible.iter().any(|snapshot| dataset_of(&snapshot.full_name) == name)
        };
        let generations = self.of_volume(volume).filter(|(_, dataset)| dataset.role != Role::View);
        generations.filter(|(name, _)| !is_used(name)).map(|(name, _)| name.clone()).collect()
    }

    /// Snapshots of ours that nobody sees and nothing stands on.
    pub(super) fn stale_snapshots(&self) -> Vec<String> {
        let volumes = self.volumes();
        let visible: std::collections::HashSet<String> =
            volumes.iter().flat_map(|volume| self.snapshots(volume)).map(|snapshot| snapshot.full_name).collect();
        let mut stale = Vec::new();
        for (name, dataset) in &self.datasets {
            for snapshot in dataset.snapshots.iter().filter(|snapshot| snapshot.mark.is_some()) {
                let full_name = format!("{name}@{}", snapshot.tag);
                if !visible.contains(&full_name) && self.clones(&full_name).next().is_none() {
                    stale.push(full_name);
                }
            }
        }
        stale
    }

    /// Does what `zfs promote` does: the clone takes its origin and everything before it, and the two change places.
    pub(super) fn promote(&mut self, clone: &str) {
        let Some(origin) = self.datasets.get(clone).and_then(|dataset| dataset.origin.clone()) else { return };
        let Some((parent, tag)) = origin.split_once('@') else { return };
        let Some(parent_dataset) = self.datasets.get_mut(parent) else { return };
        let Some(position) = parent_dataset.snapshots.iter().position(|snapshot| snapshot.tag == tag) else { return };
        let moved: Vec<Snapshot> = parent_dataset.snapshots.drain(..=position).collect();
        let grandparent = parent_dataset.origin.replace(format!("{clone}@{tag}"));
        for dataset in self.datasets.values_mut() {
            let moved_tag =
                dataset.origin.as_deref().and_then(|origin| origin.split_once('@')).and_then(|(on, tag)| {
                    (on == parent && moved.iter().any(|snapshot| snapshot.tag == tag)).then(|| tag.to_owned())
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

    /// Forgets a destroyed dataset, and the deferred snapshot that went with it.
    pub(super) fn remove(&mut self, dataset: &str) {
        let Some(removed) = self.datasets.remove(dataset) else { return };
        let Some(origin) = removed.origin else { return };
        if self.clones(&origin).next().is_none() && self.snapshot(&origin).is_some_and(|snapshot| snapshot.is_deferred)
        {
            self.remove_snapshot(&origin);
        }
    }

    pub(super) fn snapshot(&mut self, full_name: &str) -> Option<&mut Snapshot> {
        let (dataset, tag) = full_name.split_once('@')?;
        self.datasets.get_mut(dataset)?.snapshots.iter_mut().find(|snapshot| snapshot.tag == tag)
    }

    pub(super) fn remove_snapshot(&mut self, full_name: &str) {
        if let Some((dataset, tag)) = full_name.split_once('@')
            && let Some(dataset) = self.datasets.get_mut(dataset)
        {
            dataset.snapshots.retain(|snapshot| snapshot.tag != tag);
        }
    }

    /// The latest moment on any mark, so that the clock can go on from there.
    pub(super) fn latest_moment(&self) -> Moment {
        let of_dataset = |dataset: &Dataset| {
            let own = match &dataset.role {
                Role::Generation { mark, .. } => mark.instance,
                Role::View => 0,
            };
            let marks = dataset.snapshots.iter().filter_map(|snapshot| snapshot.mark.as_ref());
            marks.map(|mark| mark.created).max().unwrap_or(0).max(own)
        };
        self.datasets.values().map(of_dataset).max().unwrap_or(0)
    }
}

/// The dataset a snapshot is of.
pub(super) fn dataset_of(snapshot: &str) -> &str {
    snapshot.split_once('@').map_or(snapshot, |(dataset, _)| dataset)
}

fn read_snapshots(dataset: &str, rows: &BTreeMap<String, Properties>) -> Result<Vec<Snapshot>> {
    let prefix = format!("{dataset}@");
    let mut snapshots = Vec::new();
    for (name, properties) in rows.range(prefix.clone()..) {
        let Some(tag) = name.strip_prefix(&prefix) else { break };
        let mark = properties.local(marks::SNAPSHOT).map(|json| marks::parse(name, json)).transpose()?;
        let snapshot = Snapshot { tag: tag.to_owned(), mark, is_deferred: properties.flag("defer_destroy") };
        snapshots.push((properties.number("createtxg"), snapshot));
    }
    snapshots.sort_by_key(|(transaction, _)| *transaction);
    Ok(snapshots.into_iter().map(|(_, snapshot)| snapshot).collect())
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
