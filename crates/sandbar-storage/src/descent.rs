//! Walking trees by descriptors: what an entry is, the names in a directory, and a way down that needs few
//! descriptors however deep a sandbox nests its directories.

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxAttributes, StatxFlags, Timespec, Timestamps},
    io::{Errno, Result},
};

/// Open directories a [`DirectoryStack`] keeps at most.
const OPEN_LEVELS: usize = 64;

/// What the kernel says about one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryStat {
    pub(crate) kind: FileType,
    /// Permission bits with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    /// Bytes that take up space.
    pub(crate) allocated: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// Device number of a device node.
    pub(crate) node: (u32, u32),
    pub(crate) accessed: Timespec,
    pub(crate) modified: Timespec,
    /// Whether something is mounted here.
    pub(crate) mount_root: bool,
    /// When anything about the inode changed last. Programs cannot set it.
    pub(crate) changed: Timespec,
}

impl EntryStat {
    /// Of an open descriptor.
    pub(crate) fn of(fd: impl AsFd) -> Result<Self> {
        Ok(Self::from_statx(&fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?))
    }

    /// Of a name in a directory, not following a symbolic link.
    pub(crate) fn at(directory: impl AsFd, name: &CStr) -> Result<Self> {
        Ok(Self::from_statx(&fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?))
    }

    fn from_statx(stat: &Statx) -> Self {
        let mode = u32::from(stat.stx_mode);
        Self {
            kind: FileType::from_raw_mode(mode),
            mode: mode & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            links: stat.stx_nlink,
            size: stat.stx_size,
            allocated: stat.stx_blocks.saturating_mul(512),
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            node: (stat.stx_rdev_major, stat.stx_rdev_minor),
            accessed: Timespec { tv_sec: stat.stx_atime.tv_sec, tv_nsec: stat.stx_atime.tv_nsec.into() },
            modified: Timespec { tv_sec: stat.stx_mtime.tv_sec, tv_nsec: stat.stx_mtime.tv_nsec.into() },
            mount_root: stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            changed: Timespec { tv_sec: stat.stx_ctime.tv_sec, tv_nsec: stat.stx_ctime.tv_nsec.into() },
        }
    }

    /// What tells two inodes apart.
    pub(crate) fn identity(&self) -> Identity {
        (self.device, self.inode)
    }

    pub(crate) fn timestamps(&self) -> Timestamps {
        Timestamps { last_access: self.accessed, last_modification: self.modified }
    }

    /// Whether this is how overlayfs writes "deleted".
    pub(crate) fn is_whiteout(&self) -> bool {
        self.kind == FileType::CharacterDevice && self.node == (0, 0)
    }
}

/// Device and inode number.
pub(crate) type Identity = ((u32, u32), u64);

/// The names in a directory with the types the directory itself knows, in no order, without `.` and `..`.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<(CString, FileType)>> {
    let mut buffer = [const { MaybeUninit::uninit() }; 16 * 1024];
    let mut listing = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

/// Opens a directory below `parent`, never through a symbolic link.
pub(crate) fn open_directory(parent: impl AsFd, name: &CStr) -> Result<OwnedFd> {
    fs::openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Changes the mode of an entry that cannot be opened. `fchmodat` would follow a symbolic link that somebody put in its
/// place meanwhile, out of the tree.
pub(crate) fn chmod_named(directory: impl AsFd, name: &CStr, mode: Mode) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = fs::openat(directory, name, flags, Mode::empty())?;
    if EntryStat::of(&entry)?.kind == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    fs::chmod(format!("/proc/self/fd/{}", entry.as_raw_fd()), mode)
}

/// The directories from a root down to where a walk is. Only the deepest ones stay open; the others are found again
/// through `..` on the way up, and it is an error if somebody moved them meanwhile.
#[derive(Debug)]
pub(crate) struct DirectoryStack {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    directory: Option<OwnedFd>,
    identity: Identity,
}

impl DirectoryStack {
    pub(crate) fn new(root: OwnedFd) -> Result<Self> {
        let identity = EntryStat::of(&root)?.identity();
        Ok(Self { levels: vec![Level { directory: Some(root), identity }] })
    }

    pub(crate) fn current(&self) -> Result<BorrowedFd<'_>> {
        self.levels.last().and_then(|level| level.directory.as_ref()).map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    pub(crate) fn push(&mut self, directory: OwnedFd, identity: Identity) {
        self.levels.push(Level { directory: Some(directory), identity });
        if let Some(far) = self.levels.len().checked_sub(OPEN_LEVELS) {
            // The root stays open: it is cheap and hard links are made from it.
            if far > 0 {
                self.levels[far].directory = None;
            }
        }
    }

    /// Goes one level up and returns the directory left behind; `None` at the root.
    pub(crate) fn pop(&mut self) -> Result<Option<OwnedFd>> {
        if self.levels.len() < 2 {
            return Ok(None);
        }
        let Some(child) = self.levels.pop().and_then(|level| level.directory) else {
            return Err(Errno::BADF);
        };
        if let Some(parent) = self.levels.last_mut().filter(|parent| parent.directory.is_none()) {
            let reopened = open_directory(&child, c"..")?;
            if EntryStat::of(&reopened)?.identity() != parent.identity {
                return Err(Errno::STALE);
            }
            parent.directory = Some(reopened);
        }
        Ok(Some(child))
    }
}
