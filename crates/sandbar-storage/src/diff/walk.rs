//! Parallel walk of two merged trees.

use std::{
    collections::BTreeSet,
    ffi::{CStr, CString},
    io,
    path::{Path, PathBuf},
};

use rustix::{fs::FileType, io::Errno};
use sandbar_core::{Aspect, Aspects, Change, ChangeKind, EntryType, Error, Result};

use super::{
    DiffEntry,
    compare::{Side, Trust, aspects},
    merged::{Found, Merged, OpenDirectory, Origin, Parts, child},
};
use crate::{TreeView, ViewLayer};

/// Adds every difference at one mount point to `entries`. Without an `old` layer, everything is
/// new.
pub(super) fn layer(
    old: Option<&ViewLayer>,
    new: &ViewLayer,
    from: &TreeView,
    to: &TreeView,
    entries: &mut Vec<DiffEntry>,
) -> Result<()> {
    let walk = Walk {
        old: old.map(Merged::open).transpose()?,
        new: Merged::open(new)?,
        mount_point: &new.mount_point,
        covered: to
            .layers
            .iter()
            .filter_map(|layer| layer.mount_point.strip_prefix(&new.mount_point).ok())
            .filter(|below| !below.as_os_str().is_empty())
            .map(Path::to_owned)
            .collect(),
        trust: Trust::new(
            from.stable_inodes && to.stable_inodes,
            [from.frozen_at, to.frozen_at],
        ),
    };
    walk.run(entries)
}

struct Walk<'a> {
    old: Option<Merged>,
    new: Merged,
    mount_point: &'a Path,
    /// Nested mount points, which their own layer reports.
    covered: Vec<PathBuf>,
    trust: Trust,
}

/// Directory to visit: its layers in the old and in the new tree, where it exists.
struct Visit {
    below: PathBuf,
    old: Option<Parts>,
    new: Option<Parts>,
}

impl Walk<'_> {
    fn run(&self, entries: &mut Vec<DiffEntry>) -> Result<()> {
        let new_root = self.new.root()?;
        let old_root = self.old.as_ref().map(Merged::root).transpose()?;
        self.root(old_root.as_ref(), &new_root, entries)?;
        let mut pending = vec![Visit {
            below: PathBuf::new(),
            old: old_root.map(|root| root.parts),
            new: Some(new_root.parts),
        }];
        while let Some(visit) = pending.pop() {
            self.visit(&visit, entries, &mut pending)?;
        }
        Ok(())
    }

    fn root(&self, old: Option<&Found>, new: &Found, entries: &mut Vec<DiffEntry>) -> Result<()> {
        let Some(found) = old else { return Ok(()) };
        let open = |merged: &Merged, parts| merged.directory(Path::new(""), parts);
        let Some(merged) = &self.old else {
            return Ok(());
        };
        let (old_directory, new_directory) =
            (open(merged, found.parts)?, open(&self.new, new.parts)?);
        let differs = aspects(
            c".",
            Side {
                directory: &old_directory,
                found,
            },
            Side {
                directory: &new_directory,
                found: new,
            },
            self.trust,
        )
        .map_err(|error| self.failed(Path::new(""), error))?;
        if !differs.is_empty() {
            entries.push(self.entry(Path::new(""), ChangeKind::Modified, new, differs));
        }
        Ok(())
    }

    fn visit(
        &self,
        visit: &Visit,
        entries: &mut Vec<DiffEntry>,
        pending: &mut Vec<Visit>,
    ) -> Result<()> {
        let failed = |error: io::Error| self.failed(&visit.below, error);
        let old = match (&self.old, visit.old) {
            (Some(merged), Some(parts)) => Some(merged.directory(&visit.below, parts)?),
            _ => None,
        };
        let new = visit
            .new
            .map(|parts| self.new.directory(&visit.below, parts))
            .transpose()?;
        for name in self
            .names(visit, old.as_ref(), new.as_ref())
            .map_err(|errno| failed(errno.into()))?
        {
            let below = child(&visit.below, &name);
            if self.covered.contains(&below) {
                continue;
            }
            let before = look_up(old.as_ref(), &name).map_err(failed)?;
            let after = look_up(new.as_ref(), &name).map_err(failed)?;
            self.compare(
                below,
                &name,
                (old.as_ref(), before),
                (new.as_ref(), after),
                entries,
                pending,
            )?;
        }
        Ok(())
    }

    /// Returns the names that can differ: with the same lower directory in both trees, only those
    /// of the upper layers.
    fn names(
        &self,
        visit: &Visit,
        old: Option<&OpenDirectory>,
        new: Option<&OpenDirectory>,
    ) -> rustix::io::Result<BTreeSet<CString>> {
        let common_lower = visit.old.is_some_and(|parts| parts.lower)
            && visit.new.is_some_and(|parts| parts.lower)
            && self
                .old
                .as_ref()
                .is_some_and(|old| old.shares_lower(&self.new));
        let mut names = BTreeSet::new();
        for directory in [old, new].into_iter().flatten() {
            names.extend(directory.upper_names()?);
            if !common_lower {
                names.extend(directory.lower_names()?);
            }
        }
        Ok(names)
    }

    fn compare(
        &self,
        below: PathBuf,
        name: &CStr,
        (old, before): (Option<&OpenDirectory>, Option<Found>),
        (new, after): (Option<&OpenDirectory>, Option<Found>),
        entries: &mut Vec<DiffEntry>,
        pending: &mut Vec<Visit>,
    ) -> Result<()> {
        let is_directory = |found: &Found| found.stat.kind == FileType::Directory;
        match (before, after) {
            (None, None) => return Ok(()),
            (None, Some(found)) => {
                entries.push(self.entry(&below, ChangeKind::Added, &found, Aspects::NONE));
            }
            (Some(found), None) => {
                entries.push(self.entry(&below, ChangeKind::Deleted, &found, Aspects::NONE));
            }
            (Some(was), Some(is)) if was.stat.kind != is.stat.kind => {
                entries.push(self.entry(
                    &below,
                    ChangeKind::Modified,
                    &is,
                    Aspects::NONE.with(Aspect::Type),
                ));
            }
            (Some(was), Some(is)) => {
                let shared = was.origin == Origin::Lower
                    && is.origin == Origin::Lower
                    && self
                        .old
                        .as_ref()
                        .is_some_and(|old| old.shares_lower(&self.new));
                if shared {
                    return Ok(());
                }
                if let (Some(old), Some(new)) = (old, new) {
                    let differs = aspects(
                        name,
                        Side {
                            directory: old,
                            found: &was,
                        },
                        Side {
                            directory: new,
                            found: &is,
                        },
                        self.trust,
                    )
                    .map_err(|error| self.failed(&below, error))?;
                    if !differs.is_empty() {
                        entries.push(self.entry(&below, ChangeKind::Modified, &is, differs));
                    }
                }
            }
        }
        let (old, new) = (before.filter(is_directory), after.filter(is_directory));
        if old.is_some() || new.is_some() {
            pending.push(Visit {
                below,
                old: old.map(|found| found.parts),
                new: new.map(|found| found.parts),
            });
        }
        Ok(())
    }

    fn entry(&self, below: &Path, kind: ChangeKind, found: &Found, aspects: Aspects) -> DiffEntry {
        let entry = EntryType::of_mode(found.stat.kind.as_raw_mode());
        let path = if below.as_os_str().is_empty() {
            self.mount_point.to_owned()
        } else {
            self.mount_point.join(below)
        };
        let size = if entry == EntryType::File {
            found.stat.size
        } else {
            0
        };
        let source = match kind {
            ChangeKind::Deleted => None,
            ChangeKind::Added | ChangeKind::Modified => self.new.real_path(below, found.origin),
        };
        DiffEntry {
            change: Change {
                path,
                kind,
                entry,
                aspects,
                size,
            },
            source,
        }
    }

    fn failed(&self, below: &Path, error: io::Error) -> Error {
        Error::io(
            format!("compare `{}`", self.mount_point.join(below).display()),
            error,
        )
    }
}

fn look_up(directory: Option<&OpenDirectory>, name: &CStr) -> io::Result<Option<Found>> {
    match directory.map(|directory| directory.look_up(name)) {
        // The directory does not exist, or the name vanished from a live tree.
        None | Some(Err(Errno::NOENT | Errno::NOTDIR)) => Ok(None),
        Some(found) => Ok(found?),
    }
}
