//! Creating, forking and deleting volumes.

use sandbar_core::{BaseName, ByteCount, Error, Result, SessionId};

use super::{
    ZfsStorage,
    bases::bases,
    catalog::{Dataset, Role, Snapshot},
    command::Fault,
    listing,
    marks::{self, SnapshotMark, VolumeMark},
    store::lock,
};
use crate::{
    ForkPoint, VolumeSpec,
    errors::{snapshot_not_found, volume_exists, volume_not_found},
};

/// Parameters of a new generation.
#[derive(Debug)]
pub(super) struct NewGeneration<'a> {
    pub(super) volume: &'a SessionId,
    pub(super) origin: String,
    pub(super) mark: VolumeMark,
    /// Zero for no limit.
    pub(super) refquota: u64,
}

pub(super) fn create(store: &ZfsStorage, volume: &SessionId, spec: &VolumeSpec) -> Result<()> {
    store.require_absent(volume)?;
    let refquota = store.refquota(&spec.base, spec.quota)?;
    let mark = VolumeMark::new(store.moment(), spec.base.clone(), None);
    store.make_generation(&NewGeneration {
        volume,
        origin: store.layout.ready(&spec.base),
        mark,
        refquota,
    })
}

pub(super) fn fork(
    store: &ZfsStorage,
    source: &SessionId,
    point: &ForkPoint,
    volume: &SessionId,
    quota: Option<ByteCount>,
) -> Result<()> {
    store.require_absent(volume)?;
    let live = store.catalog().live(source)?;
    let refquota = store.refquota(&live.mark.base, quota)?;
    let origin = match point {
        ForkPoint::Snapshot(name) => {
            let known = store.catalog().snapshots(source);
            let found = known.iter().find(|snapshot| snapshot.name == *name);
            found
                .map(|snapshot| snapshot.full_name.clone())
                .ok_or_else(|| {
                    snapshot_not_found(source, name, known.iter().map(|snapshot| &snapshot.name))
                })?
        }
        ForkPoint::Now => {
            let created = store.moment();
            store
                .add_snapshot(
                    &live.dataset,
                    SnapshotMark::new(live.mark.instance, created, None),
                )
                .map_err(|failure| failure.into_error(format!("fork session `{source}`")))?
        }
    };
    let mark = VolumeMark::new(store.moment(), live.mark.base, None);
    let made = store.make_generation(&NewGeneration {
        volume,
        origin: origin.clone(),
        mark,
        refquota,
    });
    if made.is_err() && *point == ForkPoint::Now {
        let _dataset_lock = lock(&store.dataset_lock);
        store
            .destroy_snapshot(&origin)
            .map_err(|failure| failure.into_error(format!("remove `{origin}`")))?;
    }
    made
}

/// Deletes a volume. If that takes several steps, marks the volume first, so that it stays deleted
/// after a `kill -9`.
pub(super) fn delete(store: &ZfsStorage, volume: &SessionId) -> Result<()> {
    let dataset_lock = lock(&store.dataset_lock);
    let (datasets, live): (Vec<String>, _) = {
        let catalog = store.catalog();
        let datasets = catalog
            .of_volume(volume)
            .map(|(name, _)| name.clone())
            .collect();
        (datasets, catalog.live(volume).ok())
    };
    if datasets.is_empty() {
        return Ok(());
    }
    let is_in_use = !store.unmount_for_good(volume)?;
    let mut is_marked = live.is_none();
    if let Some(live) = live
        && (is_in_use || store.needs_steps(&datasets))
    {
        let mark = format!("{}=yes", marks::DELETED);
        match store.with_reserve(|| store.tools.zfs(&["set", &mark, &live.dataset])) {
            Ok(_) => {
                is_marked = true;
                store.mark_dead(volume, live.number);
            }
            // Without space for the mark, delete anyway: that frees space.
            Err(failure) if failure.fault == Fault::Full => {}
            Err(failure) => return Err(failure.into_error(format!("delete volume `{volume}`"))),
        }
    }
    // An open file would keep the dataset busy: leave it to `settle`.
    let discarded = if is_in_use && is_marked {
        Ok(())
    } else {
        store.discard(&datasets)
    };
    store.restore_reserve();
    drop(dataset_lock);
    match discarded {
        // No longer visible; `settle` tries again.
        Err(failure) if is_marked && failure.fault == Fault::Busy => {
            tracing::warn!(%volume, %failure, "part of a deleted volume is still busy");
        }
        Err(failure) => return Err(failure.into_error(format!("delete volume `{volume}`"))),
        Ok(()) => {}
    }
    store.remove_mount_point(volume);
    Ok(())
}

impl ZfsStorage {
    /// Fails with `SessionExists` if the id is taken. Remains of an earlier volume of that name do
    /// not count.
    fn require_absent(&self, volume: &SessionId) -> Result<()> {
        match self.catalog().live(volume) {
            Ok(_) => Err(volume_exists(volume)),
            Err(_) => Ok(()),
        }
    }

    /// Returns the `refquota` for a quota: the space of the base does not count.
    pub(super) fn refquota(&self, base: &BaseName, quota: Option<ByteCount>) -> Result<u64> {
        let referenced = self.catalog().bases.get(base).map(|base| base.referenced);
        let Some(referenced) = referenced else {
            return Err(self.base_missing(base));
        };
        Ok(quota.map_or(0, |quota| quota.get().saturating_add(referenced).max(1)))
    }

    /// Clones a snapshot with all properties in one command, so that a clone that exists is
    /// complete.
    pub(super) fn make_generation(&self, new: &NewGeneration<'_>) -> Result<()> {
        let number = self.catalog().next_number(new.volume);
        let dataset = self.layout.generation(new.volume, number)?;
        let action = format!("create volume `{}`", new.volume);
        let mountpoint = format!(
            "mountpoint={}",
            self.layout.volume_directory(new.volume).display()
        );
        let quota = format!("refquota={}", new.refquota);
        let mark = marks::assignment(marks::VOLUME, &new.mark)?;
        let mut arguments = vec![
            "clone",
            "-o",
            "canmount=noauto",
            "-o",
            &mountpoint,
            "-o",
            &mark,
        ];
        if new.refquota > 0 {
            arguments.extend(["-o", &quota]);
        }
        arguments.extend([new.origin.as_str(), &dataset]);
        match self.tools.zfs(&arguments) {
            Ok(_) => {}
            Err(failure) if failure.fault == Fault::Exists => {
                return Err(volume_exists(new.volume).with_source(failure.to_string()));
            }
            Err(failure) if failure.fault == Fault::Missing => {
                return Err(match self.base_of(&new.origin) {
                    Some(base) => self.base_missing(&base),
                    None => volume_not_found(new.volume).with_source(failure.to_string()),
                });
            }
            Err(failure) => {
                // Old versions mount a clone at once, and may fail after it was created.
                self.destroy_unfinished(&dataset)?;
                return Err(failure.into_error(action));
            }
        }
        let made = Dataset {
            volume: new.volume.clone(),
            role: Role::Generation {
                number,
                mark: new.mark.clone(),
                is_dead: false,
            },
            origin: Some(new.origin.clone()),
            refquota: new.refquota,
            snapshots: Vec::new(),
        };
        self.catalog().datasets.insert(dataset, made);
        Ok(())
    }

    /// Takes a snapshot with a mark and adds it to the catalog; returns `dataset@tag`.
    pub(super) fn add_snapshot(
        &self,
        dataset: &str,
        mark: SnapshotMark,
    ) -> Result<String, super::command::Failure> {
        let tag = marks::tag(mark.created);
        let full_name = format!("{dataset}@{tag}");
        // A mark of numbers and a valid name always encodes.
        let assignment = marks::assignment(marks::SNAPSHOT, &mark).unwrap_or_default();
        self.tools
            .zfs(&["snapshot", "-o", &assignment, &full_name])?;
        if let Some(dataset) = self.catalog().datasets.get_mut(dataset) {
            dataset.snapshots.push(Snapshot {
                tag,
                mark: Some(mark),
                is_deferred: false,
            });
        }
        Ok(full_name)
    }

    fn needs_steps(&self, datasets: &[String]) -> bool {
        let catalog = self.catalog();
        datasets.len() > 1
            || datasets.iter().any(|name| {
                catalog
                    .datasets
                    .get(name)
                    .is_some_and(|found| !found.snapshots.is_empty())
            })
    }

    fn mark_dead(&self, volume: &SessionId, highest: u64) {
        for dataset in self
            .catalog()
            .datasets
            .values_mut()
            .filter(|dataset| dataset.volume == *volume)
        {
            if let Role::Generation {
                number, is_dead, ..
            } = &mut dataset.role
                && *number <= highest
            {
                *is_dead = true;
            }
        }
    }

    /// Returns the bytes referenced by a snapshot or dataset.
    pub(super) fn referenced(&self, name: &str) -> Result<u64> {
        let rows = listing::read_these(&self.tools, &["referenced"], &[name])
            .map_err(|failure| failure.into_error(format!("read `{name}`")))?;
        Ok(listing::only(&rows, name)?.number("referenced"))
    }

    fn base_of(&self, snapshot: &str) -> Option<BaseName> {
        self.layout
            .parse_base(super::catalog::dataset_of(snapshot))
            .map(|(base, _)| base)
    }

    pub(super) fn base_missing(&self, name: &BaseName) -> Error {
        match bases(self) {
            Ok(known) => crate::errors::base_not_found(name, known.iter().map(|base| &base.name)),
            Err(error) => error,
        }
    }
}
