//! Mounting datasets, and the lent directories on top of them.

use std::{fs, io, os::fd::AsFd as _, path::Path};

use rustix::{
    fs::{CWD, Mode, OFlags, openat, statvfs},
    io::Errno,
    mount::{UnmountFlags, unmount as unmount_path},
};
use sandbar_core::{Error, OwnerMap, Result, SessionId};

use super::{
    ZfsStorage,
    catalog::Role,
    command::{Failure, Fault, Tools},
    lend::lend,
    mount_table::MountTable,
    namespace,
    store::lock,
};
use crate::{
    BaseRecord, LayerDirectory, Mounted,
    layered::make_directory,
    mount_attributes::{Extent, MountAttributes, NOSUID_NODEV},
    mount_clone::bind,
    overlay::detach,
    translation::{LiveMount, translate_where_possible},
};

/// Requests sent to drain the queue: enough for hundreds of closed files, done in milliseconds.
const DRAIN_REQUESTS: usize = 32;

pub(super) fn unmount_all(store: &ZfsStorage) -> Result<()> {
    let (volumes, views, bases) = {
        let catalog = store.catalog();
        let views = catalog
            .datasets
            .iter()
            .filter(|(_, dataset)| dataset.role == Role::View);
        let views: Vec<String> = views.map(|(name, _)| name.clone()).collect();
        (
            catalog.volumes(),
            views,
            catalog.bases.keys().cloned().collect::<Vec<_>>(),
        )
    };
    let dataset_lock = lock(&store.dataset_lock);
    for view in views {
        store
            .destroy(&view)
            .map_err(|failure| failure.into_error(format!("remove view `{view}`")))?;
    }
    drop(dataset_lock);
    let table = MountTable::read()?;
    let is_mounted = |directory: &Path| table.at(directory).is_some();
    for volume in volumes
        .iter()
        .filter(|volume| is_mounted(&store.layout.volume_directory(volume)))
    {
        unmount(store, volume)?;
    }
    let bases = bases.iter().map(|base| store.layout.base_directory(base));
    bases
        .filter(|directory| is_mounted(directory))
        .try_for_each(|directory| store.unmount_at(&directory))
}

pub(super) fn mount_as(
    store: &ZfsStorage,
    volume: &SessionId,
    owners: Option<&OwnerMap>,
) -> Result<Mounted> {
    let live = store.catalog().live(volume)?;
    let directory = store.layout.volume_directory(volume);
    let (own, place) = (
        directory.join("rootfs"),
        store.layout.translated_directory(volume),
    );
    let root = |translated| {
        if translated {
            place.clone()
        } else {
            own.clone()
        }
    };
    let before = lock(&store.mounted).get(volume).copied();
    if let Some(LiveMount { translated, .. }) = before.filter(|before| before.is_for(owners))
        && MountTable::read()?.shows(&live.dataset, &directory)
    {
        return Ok(Mounted {
            root: root(translated),
            translated,
        });
    }
    let base = store.base_record(&live.mark.base)?;
    store.unmount_over(volume)?;
    store.mount_dataset(&live.dataset, &directory)?;
    set_nosuid_nodev(&directory)?;
    if owners.is_some() {
        // Separate, because the dataset's own mount shows the owners on disk, which views need.
        make_directory(&place)?;
    }
    let mount = |owners: Option<&OwnerMap>| match owners {
        None => lend_all(&base, &own, &store.layout.empty, owners),
        Some(_) => bind(&own, &place, owners)
            .and_then(|()| lend_all(&base, &place, &store.layout.empty, owners)),
    };
    let translated = translate_where_possible(owners, mount, || store.unmount_over(volume))?;
    lock(&store.mounted).insert(volume.clone(), LiveMount::new(owners, translated));
    Ok(Mounted {
        root: root(translated),
        translated,
    })
}

pub(super) fn unmount(store: &ZfsStorage, volume: &SessionId) -> Result<()> {
    store.unmount_over(volume)?;
    store.unmount_at(&store.layout.volume_directory(volume))
}

impl ZfsStorage {
    /// Unmounts everything on top of a volume's dataset, and its ID-mapped mount.
    fn unmount_over(&self, volume: &SessionId) -> Result<()> {
        lock(&self.mounted).remove(volume);
        detach_below(&self.layout.volume_directory(volume))?;
        let place = self.layout.translated_directory(volume);
        detach(&place)?;
        match fs::remove_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("remove `{}`", place.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Mounts a dataset at its mount point, unless it is mounted there.
    pub(super) fn mount_dataset(&self, dataset: &str, directory: &Path) -> Result<()> {
        // Several sessions may mount the same base concurrently.
        let _mounting = lock(&self.mounting);
        let table = MountTable::read()?;
        if table.shows(dataset, directory) {
            return Ok(());
        }
        let fail = |failure: Failure| {
            failure.into_error(format!("mount `{dataset}` at `{}`", directory.display()))
        };
        if let Some(other) = table.at(directory).filter(|mount| mount.is_zfs()) {
            // An older generation, left mounted by a host that was killed during a rollback.
            unmount_dataset(&self.tools, &other.source, BusyRetry::Long).map_err(fail)?;
        }
        match self.tools.zfs_retrying(&["mount", dataset]) {
            // Mounted concurrently by another process.
            Err(failure) if failure.fault != Fault::AlreadyMounted => return Err(fail(failure)),
            _ => {}
        }
        if MountTable::read()?.shows(dataset, directory) {
            return Ok(());
        }
        Err(Error::internal(format!("dataset `{dataset}` is mounted outside this mount namespace")).with_hint(
            "with zfs-fuse, start the host in the daemon's mount namespace; it shares its mounts before it leaves",
        ))
    }

    /// Unmounts a volume that is being deleted. Returns `false` when a file in it is still open.
    ///
    /// On OpenZFS it is detached then. zfs-fuse hangs forever when a file is closed at the moment
    /// its file system is unmounted, which is what a detached mount does, so there it stays mounted
    /// until the file is closed.
    pub(super) fn unmount_for_good(&self, volume: &SessionId) -> Result<bool> {
        let directory = self.layout.volume_directory(volume);
        let is_in_use = is_in_use(&self.layout.translated_directory(volume))?;
        self.unmount_over(volume)?;
        if is_in_use {
            detach(&directory)?;
            return Ok(false);
        }
        while let Some(mount) = MountTable::read()?
            .at(&directory)
            .filter(|mount| mount.is_zfs())
        {
            match unmount_dataset(&self.tools, &mount.source, BusyRetry::Short) {
                Ok(()) => {}
                Err(failure) if failure.fault == Fault::Busy => {
                    if namespace::is_in_kernel() {
                        detach(&directory)?;
                    }
                    return Ok(false);
                }
                Err(failure) => {
                    return Err(failure.into_error(format!("unmount `{}`", directory.display())));
                }
            }
        }
        Ok(true)
    }

    /// Unmounts any dataset at a mount point, with everything mounted on it.
    pub(super) fn unmount_at(&self, directory: &Path) -> Result<()> {
        detach_below(directory)?;
        while let Some(mount) = MountTable::read()?
            .at(directory)
            .filter(|mount| mount.is_zfs())
        {
            unmount_dataset(&self.tools, &mount.source, BusyRetry::Long).map_err(|failure| {
                failure.into_error(format!("unmount `{}`", directory.display()))
            })?;
        }
        Ok(())
    }

    /// Removes the empty mount point of a volume.
    pub(super) fn remove_mount_point(&self, volume: &SessionId) {
        let directory = self.layout.volume_directory(volume);
        match fs::remove_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, directory = %directory.display(), "left a mount point behind");
            }
            _ => {}
        }
    }
}

/// Time to retry while a dataset is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BusyRetry {
    Short,
    Long,
}

/// Unmounts a dataset. Not mounted is success.
pub(super) fn unmount_dataset(
    tools: &Tools,
    dataset: &str,
    retry: BusyRetry,
) -> Result<(), Failure> {
    let table = MountTable::read().unwrap_or_default();
    let mut mounts = table.of_dataset(dataset).peekable();
    if mounts.peek().is_none() {
        return Ok(());
    }
    mounts
        .filter(|mount| mount.kind == "fuse.zfs")
        .for_each(|mount| drain_releases(&mount.target));
    let arguments = ["unmount", dataset];
    let outcome = match retry {
        BusyRetry::Short => tools.zfs_retrying_briefly(&arguments),
        BusyRetry::Long => tools.zfs_retrying(&arguments),
    };
    match outcome {
        Err(failure) if !matches!(failure.fault, Fault::NothingToDo | Fault::Missing) => {
            Err(failure)
        }
        _ => Ok(()),
    }
}

/// Waits until the zfs-fuse daemon has processed the release of every closed file.
///
/// The kernel sends FUSE_RELEASE asynchronously, and unmounting drops queued messages. The daemon
/// then waits for that file forever and blocks all other requests. A reply to `statvfs` comes after
/// everything queued before it, and the kernel sends these messages twelve at a time.
fn drain_releases(mount_point: &Path) {
    for _ in 0..DRAIN_REQUESTS {
        if statvfs(mount_point).is_err() {
            return;
        }
    }
}

/// Sets `nosuid` and `nodev` on a mount.
fn set_nosuid_nodev(directory: &Path) -> Result<()> {
    let complain = |errno: Errno| {
        Error::io(
            format!("set nosuid and nodev on `{}`", directory.display()),
            errno.into(),
        )
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, directory, flags, Mode::empty()).map_err(complain)?;
    let attributes = MountAttributes {
        flags: NOSUID_NODEV,
        owners: None,
        private: false,
    };
    attributes
        .apply(root.as_fd(), Extent::Alone)
        .map_err(complain)
}

/// Mounts the directories of the machine that a base lends.
fn lend_all(base: &BaseRecord, root: &Path, empty: &Path, owners: Option<&OwnerMap>) -> Result<()> {
    base.layers
        .iter()
        .try_for_each(|layer| match &layer.directory {
            LayerDirectory::Own => Ok(()),
            LayerDirectory::Host(source) => lend(source, root, &layer.mount_point, empty, owners),
        })
}

/// Returns whether a file is open on the mount at `place`. Unmounts it if none is.
fn is_in_use(place: &Path) -> Result<bool> {
    detach_below(place)?;
    match unmount_path(place, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(Error::io(
            format!("unmount `{}`", place.display()),
            errno.into(),
        )),
    }
}

/// Detaches everything mounted below a directory.
fn detach_below(directory: &Path) -> Result<()> {
    MountTable::read()?
        .below(directory)
        .try_for_each(|mount| detach(&mount.target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_in_use_is_true_while_a_file_is_open() {
        sandbar_testing::private_mounts();
        let scratch = sandbar_testing::tree::scratch();
        let (tree, place) = (scratch.path().join("tree"), scratch.path().join("place"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&place).unwrap();
        fs::write(tree.join("file"), "x").unwrap();
        let owners = sandbar_testing::owner_map(1_000_000);
        let before = is_in_use(&place);
        let bound = bind(&tree, &place, Some(&owners));
        let open = fs::File::open(place.join("file"));
        let during = is_in_use(&place);
        let owner = open
            .and_then(|file| file.metadata())
            .map(|file| std::os::unix::fs::MetadataExt::uid(&file));
        let after = is_in_use(&place);
        let is_gone = !place.join("file").exists();
        // Before any assertion: the directory is removed with the test and must not be a mount
        // point then.
        detach(&place).unwrap();
        bound.unwrap();
        assert_eq!(owner.unwrap(), 1_000_000);
        assert_eq!(
            [before, during, after].map(|outcome| outcome.unwrap()),
            [false, true, false]
        );
        assert!(is_gone);
    }
}
