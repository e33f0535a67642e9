//! Walking trees by descriptors: metadata of an entry, names in a directory, and a stack of open
//! directories that needs few descriptors however deep a sandbox nests them.

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{
        self, AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxAttributes, StatxFlags,
        Timespec, Timestamps,
    },
    io::{Errno, Result},
};

/// Maximum number of directories a [`DirectoryStack`] keeps open, the root not counted.
const OPEN_LEVELS: usize = 64;

/// Metadata of one entry, from `statx`.
#[derive(Clone, Copy, Debug)]
pub struct EntryStat {
    pub kind: FileType,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub size: u64,
    /// Bytes allocated on disk.
    pub allocated: u64,
    pub device: (u32, u32),
    pub inode: u64,
    /// Device number of a device node.
    pub node: (u32, u32),
    pub accessed: Timespec,
    pub modified: Timespec,
    /// Whether something is mounted here.
    pub mount_root: bool,
    /// Time of the last change of the inode, which programs cannot set.
    pub changed: Timespec,
}

impl EntryStat {
    /// Returns the metadata of an open descriptor.
    pub fn of(fd: impl AsFd) -> Result<Self> {
        Ok(Self::from_statx(&fs::statx(
            fd,
            c"",
            AtFlags::EMPTY_PATH,
            StatxFlags::BASIC_STATS,
        )?))
    }

    /// Returns the metadata of a name in a directory, not following a symbolic link.
    pub fn at(directory: impl AsFd, name: &CStr) -> Result<Self> {
        Ok(Self::from_statx(&fs::statx(
            directory,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::BASIC_STATS,
        )?))
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
            accessed: Timespec {
                tv_sec: stat.stx_atime.tv_sec,
                tv_nsec: stat.stx_atime.tv_nsec.into(),
            },
            modified: Timespec {
                tv_sec: stat.stx_mtime.tv_sec,
                tv_nsec: stat.stx_mtime.tv_nsec.into(),
            },
            mount_root: stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            changed: Timespec {
                tv_sec: stat.stx_ctime.tv_sec,
                tv_nsec: stat.stx_ctime.tv_nsec.into(),
            },
        }
    }

    /// Returns device and inode number, which identify the inode.
    pub fn identity(&self) -> Identity {
        (self.device, self.inode)
    }

    pub fn timestamps(&self) -> Timestamps {
        Timestamps {
            last_access: self.accessed,
            last_modification: self.modified,
        }
    }

    /// Returns whether this is an overlayfs whiteout: a character device 0/0, which marks a
    /// deletion.
    pub fn is_whiteout(&self) -> bool {
        self.kind == FileType::CharacterDevice && self.node == (0, 0)
    }
}

/// Device and inode number.
pub type Identity = ((u32, u32), u64);

/// Lists a directory: names and the types the directory itself stores, unordered, without `.` and
/// `..`.
pub fn names(directory: impl AsFd) -> Result<Vec<(CString, FileType)>> {
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
pub fn open_directory(parent: impl AsFd, name: &CStr) -> Result<OwnedFd> {
    fs::openat(
        parent,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Changes the mode of an entry that cannot be opened, such as a device. `fchmodat` follows
/// symbolic links, so a process that swaps the entry for a link could change a file outside the
/// tree. The `O_PATH` descriptor pins the inode that was checked.
pub fn chmod_named(directory: impl AsFd, name: &CStr, mode: Mode) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = fs::openat(directory, name, flags, Mode::empty())?;
    if EntryStat::of(&entry)?.kind == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    fs::chmod(format!("/proc/self/fd/{}", entry.as_raw_fd()), mode)
}

/// Directories from the root of a walk down to its current directory.
///
/// Only the deepest 64 and the root stay open. On the way up, the others are opened
/// again through `..`. Their identity is compared, so a concurrent move fails with `ESTALE` and
/// cannot lead the walk out of the tree.
#[derive(Debug)]
pub struct DirectoryStack {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    directory: Option<OwnedFd>,
    identity: Identity,
}

impl DirectoryStack {
    pub fn new(root: OwnedFd) -> Result<Self> {
        let identity = EntryStat::of(&root)?.identity();
        Ok(Self {
            levels: vec![Level {
                directory: Some(root),
                identity,
            }],
        })
    }

    pub fn current(&self) -> Result<BorrowedFd<'_>> {
        self.levels
            .last()
            .and_then(|level| level.directory.as_ref())
            .map(AsFd::as_fd)
            .ok_or(Errno::BADF)
    }

    pub fn push(&mut self, directory: OwnedFd, identity: Identity) {
        self.levels.push(Level {
            directory: Some(directory),
            identity,
        });
        if let Some(far) = self.levels.len().checked_sub(OPEN_LEVELS) {
            // The root stays open: hard links are created relative to it.
            if far > 0 {
                self.levels[far].directory = None;
            }
        }
    }

    /// Goes one level up and returns the directory that was left; `None` at the root.
    pub fn pop(&mut self) -> Result<Option<OwnedFd>> {
        if self.levels.len() < 2 {
            return Ok(None);
        }
        let Some(child) = self.levels.pop().and_then(|level| level.directory) else {
            return Err(Errno::BADF);
        };
        if let Some(parent) = self
            .levels
            .last_mut()
            .filter(|parent| parent.directory.is_none())
        {
            let reopened = open_directory(&child, c"..")?;
            if EntryStat::of(&reopened)?.identity() != parent.identity {
                return Err(Errno::STALE);
            }
            parent.directory = Some(reopened);
        }
        Ok(Some(child))
    }
}
