//! Mounting datasets, and what is lent on top of them.

use std::{
    ffi::OsString,
    fs, io,
    os::{fd::AsFd as _, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat, statvfs},
    io::Errno,
    mount::{UnmountFlags, unmount},
};
use sandbar_core::{Error, OwnerMap, Result, SessionId};

use super::{
    ZfsStorage,
    catalog::Role,
    command::{Failure, Fault, Tools},
    lend::lend,
    namespace,
    store::lock,
};
use crate::{
    BaseRecord, LayerDirectory, Mounted,
    layered::make_directory,
    mount_attributes::{Extent, HARMLESS, MountAttributes},
    mount_clone::bind,
    overlay::detach,
    translation::{LiveMount, translate_where_possible},
};

/// Enough for hundreds of files closed at once, and done in a few milliseconds.
const QUESTIONS: usize = 32;

/// The mounts of the calling thread's namespace, in the order they were made.
#[derive(Debug, Default)]
pub(super) struct MountTable(Vec<Mount>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) target: PathBuf,
    /// `zfs`, or `fuse.zfs` with zfs-fuse.
    pub(super) kind: String,
    /// The dataset, for these two kinds.
    pub(super) source: String,
}

impl Mount {
    pub(super) fn is_zfs(&self) -> bool {
        matches!(self.kind.as_str(), "zfs" | "fuse.zfs")
    }
}

impl MountTable {
    pub(super) fn read() -> Result<Self> {
        // Not `/proc/self`, which is the main thread's namespace.
        let path = "/proc/thread-self/mountinfo";
        let table = fs::read(path).map_err(|error| Error::io(format!("read `{path}`"), error))?;
        Ok(Self::parse(&table))
    }

    pub(super) fn parse(table: &[u8]) -> Self {
        let mounts = table.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let target = fields.nth(4)?;
            let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
            let (kind, source) = (rest.next()?, rest.next()?);
            Some(Mount {
                target: PathBuf::from(unescape(target)),
                kind: String::from_utf8_lossy(kind).into_owned(),
                source: unescape(source).to_string_lossy().into_owned(),
            })
        });
        Self(mounts.collect())
    }

    /// What is on top at a mount point.
    pub(super) fn at(&self, target: &Path) -> Option<&Mount> {
        self.0.iter().rev().find(|mount| mount.target == target)
    }

    pub(super) fn shows(&self, dataset: &str, target: &Path) -> bool {
        self.at(target).is_some_and(|mount| mount.is_zfs() && mount.source == dataset)
    }

    /// Where datasets of a pool are mounted.
    pub(super) fn of_pool(&self, pool: &str) -> impl Iterator<Item = &Path> {
        let is_of_pool = move |mount: &&Mount| {
            let rest = mount.source.strip_prefix(pool);
            mount.is_zfs() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0.iter().filter(is_of_pool).map(|mount| mount.target.as_path())
    }

    /// Mounts below a directory, the last one first.
    fn below<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().rev().filter(move |mount| mount.target != directory && mount.target.starts_with(directory))
    }
}

/// Undoes the octal escapes of the mount table.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let ([b'\\', a, b, c, after @ ..], true) = (rest, *first == b'\\') {
            let digits = [*a, *b, *c];
            let code = std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok());
            if let Some(code) = code {
                bytes.push(code);
                rest = after;
                continue;
            }
        }
        bytes.push(*first);
        rest = tail;
    }
    OsString::from_vec(bytes)
}

impl ZfsStorage {
    pub(super) fn mount_volume(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        let live = self.catalog().live(volume)?;
        let directory = self.layout.volume_directory(volume);
        let (own, place) = (directory.join("rootfs"), self.layout.translated_directory(volume));
        let root = |translated| if translated { place.clone() } else { own.clone() };
        let before = lock(&self.mounted).get(volume).copied();
        if let Some(LiveMount { translated, .. }) = before.filter(|before| before.is_for(owners))
            && MountTable::read()?.shows(&live.dataset, &directory)
        {
            return Ok(Mounted { root: root(translated), translated });
        }
        let base = self.read_base(&live.mark.base)?;
        self.undress(volume)?;
        self.show(&live.dataset, &directory)?;
        make_harmless(&directory)?;
        if owners.is_some() {
            // A place of its own: the dataset's mount shows the owners on disk, as views need them.
            make_directory(&place)?;
        }
        let mount = |owners: Option<&OwnerMap>| match owners {
            None => lend_all(&base, &own, &self.layout.empty, owners),
            Some(_) => bind(&own, &place, owners).and_then(|()| lend_all(&base, &place, &self.layout.empty, owners)),
        };
        let translated = translate_where_possible(owners, mount, || self.undress(volume))?;
        lock(&self.mounted).insert(volume.clone(), LiveMount::new(owners, translated));
        Ok(Mounted { root: root(translated), translated })
    }

    /// Takes away what is mounted over a volume's own dataset, and the view with translated owners.
    fn undress(&self, volume: &SessionId) -> Result<()> {
        lock(&self.mounted).remove(volume);
        take_back(&self.layout.volume_directory(volume))?;
        let place = self.layout.translated_directory(volume);
        detach(&place)?;
        match fs::remove_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("remove `{}`", place.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Mounts a dataset at its mount point, unless it is there.
    pub(super) fn show(&self, dataset: &str, directory: &Path) -> Result<()> {
        // Several sessions may want the same base at once.
        let _mounting = lock(&self.mounting);
        let table = MountTable::read()?;
        if table.shows(dataset, directory) {
            return Ok(());
        }
        let fail = |failure: Failure| failure.into_error(format!("mount `{dataset}` at `{}`", directory.display()));
        if let Some(other) = table.at(directory).filter(|mount| mount.is_zfs()) {
            // An older generation, left mounted by a host that was killed in a rollback.
            hide(&self.tools, &other.source, Patience::Full).map_err(fail)?;
        }
        match self.tools.zfs_patiently(&["mount", dataset]) {
            // Another process was faster.
            Err(failure) if failure.fault != Fault::AlreadyMounted => return Err(fail(failure)),
            _ => {}
        }
        if MountTable::read()?.shows(dataset, directory) {
            return Ok(());
        }
        Err(Error::internal(format!("dataset `{dataset}` is mounted where this process cannot see it")).with_hint(
            "with zfs-fuse, start the host in the daemon's mount namespace; it shares its mounts before it leaves",
        ))
    }

    pub(super) fn unmount_volume(&self, volume: &SessionId) -> Result<()> {
        self.undress(volume)?;
        self.unmount_at(&self.layout.volume_directory(volume))
    }

    /// Unmounts a volume that is being deleted. Returns `false` when something in it is still open.
    ///
    /// OpenZFS lets it be detached then. zfs-fuse hangs for ever when a file is closed at the very moment its file system
    /// goes away, and that is what a detached one does: it stays mounted until the file is closed.
    pub(super) fn unmount_for_good(&self, volume: &SessionId) -> Result<bool> {
        let directory = self.layout.volume_directory(volume);
        let is_in_use = is_in_use(&self.layout.translated_directory(volume))?;
        self.undress(volume)?;
        if is_in_use {
            detach(&directory)?;
            return Ok(false);
        }
        while let Some(mount) = MountTable::read()?.at(&directory).filter(|mount| mount.is_zfs()) {
            match hide(&self.tools, &mount.source, Patience::Little) {
                Ok(()) => {}
                Err(failure) if failure.fault == Fault::Busy => {
                    if namespace::is_in_kernel() {
                        detach(&directory)?;
                    }
                    return Ok(false);
                }
                Err(failure) => return Err(failure.into_error(format!("unmount `{}`", directory.display()))),
            }
        }
        Ok(true)
    }

    /// Unmounts whatever dataset is at a mount point, with what is mounted on it.
    pub(super) fn unmount_at(&self, directory: &Path) -> Result<()> {
        take_back(directory)?;
        while let Some(mount) = MountTable::read()?.at(directory).filter(|mount| mount.is_zfs()) {
            hide(&self.tools, &mount.source, Patience::Full)
                .map_err(|failure| failure.into_error(format!("unmount `{}`", directory.display())))?;
        }
        Ok(())
    }

    pub(super) fn unmount_everything(&self) -> Result<()> {
        let (volumes, views, bases) = {
            let catalog = self.catalog();
            let views = catalog.datasets.iter().filter(|(_, dataset)| dataset.role == Role::View);
            let views: Vec<String> = views.map(|(name, _)| name.clone()).collect();
            (catalog.volumes(), views, catalog.bases.keys().cloned().collect::<Vec<_>>())
        };
        let surgery = lock(&self.surgery);
        for view in views {
            self.destroy(&view).map_err(|failure| failure.into_error(format!("remove view `{view}`")))?;
        }
        drop(surgery);
        let table = MountTable::read()?;
        let is_mounted = |directory: &Path| table.at(directory).is_some();
        for volume in volumes.iter().filter(|volume| is_mounted(&self.layout.volume_directory(volume))) {
            self.unmount_volume(volume)?;
        }
        let bases = bases.iter().map(|base| self.layout.base_directory(base));
        bases.filter(|directory| is_mounted(directory)).try_for_each(|directory| self.unmount_at(&directory))
    }

    /// The empty directory a volume was mounted on.
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

/// How long to wait for a dataset that is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Little,
    Full,
}

/// Unmounts a dataset. That it is not mounted is fine.
pub(super) fn hide(tools: &Tools, dataset: &str, patience: Patience) -> Result<(), Failure> {
    let table = MountTable::read().unwrap_or_default();
    let mut mounts = table.0.iter().filter(|mount| mount.is_zfs() && mount.source == dataset).peekable();
    if mounts.peek().is_none() {
        return Ok(());
    }
    mounts.filter(|mount| mount.kind == "fuse.zfs").for_each(|mount| await_releases(&mount.target));
    let arguments = ["unmount", dataset];
    let outcome = match patience {
        Patience::Little => tools.zfs_briefly(&arguments),
        Patience::Full => tools.zfs_patiently(&arguments),
    };
    match outcome {
        Err(failure) if !matches!(failure.fault, Fault::NothingToDo | Fault::Missing) => Err(failure),
        _ => Ok(()),
    }
}

/// Waits until a zfs-fuse daemon has heard of every file that was closed. The kernel tells it in its own time, and
/// unmounting throws away what is not told yet; the daemon then waits for that file for ever, and serves nobody.
/// A question is answered after everything that was queued before it, and the kernel queues these messages twelve at
/// a time.
fn await_releases(mount_point: &Path) {
    for _ in 0..QUESTIONS {
        if statvfs(mount_point).is_err() {
            return;
        }
    }
}

/// Device nodes of a session open nothing, and setuid bits raise nobody.
fn make_harmless(directory: &Path) -> Result<()> {
    let complain = |errno: Errno| Error::io(format!("make `{}` harmless", directory.display()), errno.into());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, directory, flags, Mode::empty()).map_err(complain)?;
    let attributes = MountAttributes { flags: HARMLESS, owners: None, private: false };
    attributes.apply(root.as_fd(), Extent::Alone).map_err(complain)
}

/// Shows what the machine lends to a base.
fn lend_all(base: &BaseRecord, root: &Path, empty: &Path, owners: Option<&OwnerMap>) -> Result<()> {
    base.layers.iter().try_for_each(|layer| match &layer.directory {
        LayerDirectory::Own => Ok(()),
        LayerDirectory::Host(source) => lend(source, root, &layer.mount_point, empty, owners),
    })
}

/// Whether a file is open through what is mounted at `place`, which is gone afterwards when none is.
fn is_in_use(place: &Path) -> Result<bool> {
    take_back(place)?;
    match unmount(place, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(Error::io(format!("unmount `{}`", place.display()), errno.into())),
    }
}

/// Takes away everything mounted below a directory.
fn take_back(directory: &Path) -> Result<()> {
    MountTable::read()?.below(directory).try_for_each(|mount| detach(&mount.target))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        66 43 0:42 / /tank/sessions rw,relatime shared:1 - fuse.zfs tank/sessions rw,user_id=0\n\
        67 66 0:43 / /tank/sessions/a\\040b rw,relatime master:2 - zfs tank/sessions/ab:0 rw,xattr\n\
        68 66 0:44 / /tank/sessions/c rw - fuse.zfs tank/sessions/c:0 rw\n\
        69 68 0:45 / /tank/sessions/c rw - fuse.zfs tank/sessions/c:1 rw\n\
        70 69 8:1 /usr /tank/sessions/c/rootfs/usr ro - ext4 /dev/vda rw\n";

    #[test]
    fn the_mount_on_top_is_the_one_that_shows() {
        let table = MountTable::parse(TABLE);
        assert!(table.shows("tank/sessions/c:1", "/tank/sessions/c".as_ref()));
        assert!(!table.shows("tank/sessions/c:0", "/tank/sessions/c".as_ref()));
        assert!(table.shows("tank/sessions", "/tank/sessions".as_ref()));
        assert!(!table.shows("proc", "/proc".as_ref()));
    }

    #[test]
    fn names_are_unescaped_and_optional_fields_skipped() {
        let table = MountTable::parse(TABLE);
        assert!(table.shows("tank/sessions/ab:0", "/tank/sessions/a b".as_ref()));
        assert_eq!(unescape(b"a\\134b\\"), OsString::from("a\\b\\"));
    }

    #[test]
    fn mounts_below_a_directory_come_last_one_first() {
        let table = MountTable::parse(TABLE);
        let below: Vec<_> = table.below("/tank/sessions/c".as_ref()).map(|mount| mount.target.clone()).collect();
        assert_eq!(below, [PathBuf::from("/tank/sessions/c/rootfs/usr")]);
    }

    #[test]
    fn a_translated_view_is_in_use_while_a_file_in_it_is_open() {
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
        let owner = open.and_then(|file| file.metadata()).map(|file| std::os::unix::fs::MetadataExt::uid(&file));
        let after = is_in_use(&place);
        let is_gone = !place.join("file").exists();
        // Before anything can fail: the directory is removed with the test, and must not hold a mount then.
        detach(&place).unwrap();
        bound.unwrap();
        assert_eq!(owner.unwrap(), 1_000_000);
        assert_eq!([before, during, after].map(|outcome| outcome.unwrap()), [false, true, false]);
        assert!(is_gone);
    }
}
