//! Trees as btrfs subvolumes.

use std::{
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rustix::{
    fs::{StatVfsMountFlags, fstatfs, fstatvfs},
    io::Errno,
};
use sandbar_core::{ByteCount, Capability, Error, Result, StorageKind};

use super::{image::PoolImage, ioctl, ioctl::QuotaMode};
use crate::{
    Space, StorageFacts,
    layered::{Birth, Primitives, TreeAccess},
    private_directory::{make_private_directory, require_safe_place},
};

const BTRFS_MAGIC: i64 = 0x9123_683E;

/// btrfs file system, and its pool image, if any.
#[derive(Debug)]
pub(crate) struct Subvolumes {
    root: PathBuf,
    image: Option<PoolImage>,
    /// Accounting mode; `None` when quotas could not be enabled.
    quota: Option<QuotaMode>,
    facts: StorageFacts,
}

impl Subvolumes {
    pub(super) fn open(directory: &Path, limit: Option<ByteCount>) -> Result<Self> {
        if !directory.exists() {
            make_private_directory(directory)?;
        }
        require_safe_place(directory)?;
        let (root, image, place) = if is_btrfs(directory)? {
            (
                directory.to_owned(),
                None,
                format!("btrfs at `{}`", directory.display()),
            )
        } else {
            let image = PoolImage::open(directory, limit)?;
            let place = format!("btrfs in `{}`", directory.join("pool.btrfs").display());
            (image.mount_point().to_owned(), Some(image), place)
        };
        let (mode, quota) = match enable_quota(&root) {
            Ok(mode) => (Some(mode), Capability::Yes),
            Err(reason) => (None, Capability::no(reason)),
        };
        let facts = StorageFacts {
            keep_later: Capability::Yes,
            quota,
            constant_time_snapshots: Capability::Yes,
            layered: Capability::Yes,
            description: place,
        };
        Ok(Self {
            root,
            image,
            quota: mode,
            facts,
        })
    }

    pub(super) fn root_directory(&self) -> PathBuf {
        self.root.clone()
    }

    fn root_file(&self) -> Result<File> {
        open_directory(&self.root)
    }
}

fn is_btrfs(directory: &Path) -> Result<bool> {
    let found = fstatfs(open_directory(directory)?).map_err(|errno| {
        Error::io(
            format!("read the file system type of `{}`", directory.display()),
            errno.into(),
        )
    })?;
    Ok(found.f_type == BTRFS_MAGIC)
}

/// Enables the cheapest accounting mode; a pool with quotas keeps its mode.
fn enable_quota(root: &Path) -> std::result::Result<QuotaMode, String> {
    let root = File::open(root).map_err(|error| error.to_string())?;
    let id = ioctl::subvolume_id(&root).map_err(|errno| errno.to_string())?;
    for mode in [QuotaMode::Simple, QuotaMode::Full] {
        match ioctl::enable_quota(&root, mode) {
            // If quotas are already enabled, the kernel does not report the mode, which is not
            // needed.
            Ok(()) | Err(Errno::EXIST) => return Ok(mode),
            Err(_) => {}
        }
    }
    match ioctl::referenced_bytes(&root, id) {
        Ok(Some(_)) => Ok(QuotaMode::Full),
        Ok(None) => Err("btrfs quotas are off and could not be turned on".into()),
        Err(errno) => Err(format!("btrfs quotas could not be enabled: {errno}")),
    }
}

fn open_directory(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io(format!("open `{}`", path.display()), error))
}

/// Opens the parent of `path` and returns its last component.
fn parent_and_name(path: &Path) -> Result<(File, &[u8])> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::internal(format!(
            "`{}` has no parent",
            path.display()
        )));
    };
    Ok((open_directory(parent)?, name.as_bytes()))
}

impl Primitives for Subvolumes {
    fn kind(&self) -> StorageKind {
        StorageKind::Btrfs
    }

    fn facts(&self) -> &StorageFacts {
        &self.facts
    }

    fn make_tree(&self, path: &Path) -> Result<()> {
        let (parent, name) = parent_and_name(path)?;
        ioctl::create_subvolume(&parent, name).map_err(|errno| {
            Error::io(
                format!("create subvolume `{}`", path.display()),
                errno.into(),
            )
        })
    }

    fn copy_tree(
        &self,
        source: &Path,
        destination: &Path,
        access: TreeAccess,
        _staging: &Path,
    ) -> Result<()> {
        let (parent, name) = parent_and_name(destination)?;
        let source_file = open_directory(source)?;
        ioctl::create_snapshot(&source_file, &parent, name, access == TreeAccess::ReadOnly).map_err(
            |errno| {
                Error::io(
                    format!(
                        "snapshot `{}` to `{}`",
                        source.display(),
                        destination.display()
                    ),
                    errno.into(),
                )
            },
        )
    }

    fn remove_tree(&self, path: &Path) -> Result<()> {
        let (parent, name) = match parent_and_name(path) {
            Ok(found) => found,
            Err(_) if !path.exists() => return Ok(()),
            Err(error) => return Err(error),
        };
        match ioctl::destroy_subvolume(&parent, name) {
            // A plain directory or file: the caller removes it.
            Ok(()) | Err(Errno::NOENT | Errno::INVAL | Errno::NOTDIR | Errno::NOTTY) => Ok(()),
            Err(errno) => Err(Error::io(
                format!("remove subvolume `{}`", path.display()),
                errno.into(),
            )),
        }
    }

    fn birth(&self, path: &Path) -> Result<Birth> {
        let complain = |error: io::Error| {
            Error::io(
                format!("read the creation time of `{}`", path.display()),
                error,
            )
        };
        let (id, seconds, nanoseconds) = ioctl::subvolume_birth(&open_directory(path)?)
            .map_err(|errno| complain(errno.into()))?;
        let out_of_range = |_| complain(io::Error::other("the time is out of range"));
        let seconds = i64::try_from(seconds)
            .map_err(|_| complain(io::Error::other("the time is out of range")))?;
        let created = Timestamp::new(seconds, i32::try_from(nanoseconds).unwrap_or(0))
            .map_err(out_of_range)?;
        // Ids only increase. The time has the resolution of a clock tick and may be set back.
        Ok(Birth {
            sequence: id,
            created,
        })
    }

    fn stable_inodes(&self) -> bool {
        true
    }

    fn usage(&self, tree: &Path) -> Result<ByteCount> {
        let complain = |errno: Errno| {
            Error::io(
                format!("read the usage of `{}`", tree.display()),
                errno.into(),
            )
        };
        if self.quota.is_none() {
            return sandbar_tree::allocated(tree);
        }
        let id = ioctl::subvolume_id(&open_directory(tree)?).map_err(complain)?;
        Ok(ByteCount(
            ioctl::referenced_bytes(&self.root_file()?, id)
                .map_err(complain)?
                .unwrap_or(0),
        ))
    }

    fn set_quota(&self, tree: &Path, quota: Option<ByteCount>) -> Result<()> {
        let complain = |errno: Errno| {
            Error::io(
                format!("set the quota of `{}`", tree.display()),
                errno.into(),
            )
        };
        let id = ioctl::subvolume_id(&open_directory(tree)?).map_err(complain)?;
        ioctl::limit_subvolume(&self.root_file()?, id, quota.map(ByteCount::get)).map_err(complain)
    }

    fn space(&self) -> Result<Space> {
        let found = fstatvfs(self.root_file()?).map_err(|errno| {
            Error::io(
                format!("read the free space of `{}`", self.root.display()),
                errno.into(),
            )
        })?;
        let mut available = ByteCount(found.f_bavail * found.f_frsize);
        if let Some(image) = &self.image {
            // The image is sparse: free space is also limited by the disk.
            available = available.min(image.room_below()?);
        }
        let read_only = found.f_flag.contains(StatVfsMountFlags::RDONLY);
        Ok(Space {
            total: ByteCount(found.f_blocks * found.f_frsize),
            available,
            state: if read_only { "read-only" } else { "ONLINE" }.into(),
            healthy: !read_only,
        })
    }

    fn settle(&self) -> Result<()> {
        let root = self.root_file()?;
        let complain = |errno: Errno| Error::io("wait for deleted subvolumes", errno.into());
        ioctl::sync(&root).map_err(complain)?;
        match ioctl::wait_for_deleted(&root) {
            // Nothing queued, or a kernel before 6.13.
            Ok(()) | Err(Errno::NOTTY | Errno::NOENT) => {}
            Err(errno) => return Err(complain(errno)),
        }
        // Freed blocks are reusable only after their transaction is committed.
        ioctl::sync(&root).map_err(complain)
    }

    fn close_to_others(&self) -> Result<()> {
        self.image
            .as_ref()
            .map_or(Ok(()), PoolImage::close_to_others)
    }

    fn close(&self) -> Result<()> {
        self.image.as_ref().map_or(Ok(()), PoolImage::close)
    }
}
