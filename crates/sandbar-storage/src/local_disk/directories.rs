//! Trees as plain directories.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;
use rustix::fs::{StatVfsMountFlags, ioctl_ficlone, statvfs};
use sandbar_core::{ByteCount, Capability, Error, Result, StorageKind};
use sandbar_tree::{CopyOptions, allocated, copy_tree, remove_tree};
use uuid::Uuid;

use super::project_quota;
use crate::{
    Space, StorageFacts,
    layered::{Birth, Primitives, TreeAccess},
};

/// Plain directories on one file system.
#[derive(Debug)]
pub(crate) struct Directories {
    root: PathBuf,
    facts: StorageFacts,
}

impl Directories {
    pub(super) fn open(root: &Path) -> Result<Self> {
        let reflink = probe_reflink(root)?;
        let how = if reflink { "reflinks" } else { "full copies" };
        let facts = StorageFacts {
            keep_later: Capability::Yes,
            quota: project_quota::probe(root),
            constant_time_snapshots: Capability::no(format!(
                "snapshots are {how} of the data the session has written; btrfs and zfs are constant-time"
            )),
            layered: Capability::Yes,
            description: format!("directories at `{}`, snapshots by {how}", root.display()),
        };
        Ok(Self {
            root: root.to_owned(),
            facts,
        })
    }
}

/// Probes whether the file system supports reflinks.
fn probe_reflink(root: &Path) -> Result<bool> {
    let stem = Uuid::now_v7().simple().to_string();
    let (from, to) = (
        root.join("staging").join(format!("{stem}-a")),
        root.join("staging").join(format!("{stem}-b")),
    );
    let complain = |error| Error::io(format!("write in `{}`", root.display()), error);
    let attempt = || -> io::Result<bool> {
        let mut source = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&from)?;
        source.write_all(&[1; 4096])?;
        let target = File::create_new(&to)?;
        Ok(ioctl_ficlone(&target, &source).is_ok())
    };
    let outcome = attempt();
    remove_tree(&from)?;
    remove_tree(&to)?;
    outcome.map_err(complain)
}

impl Primitives for Directories {
    fn kind(&self) -> StorageKind {
        StorageKind::LocalDisk
    }

    fn facts(&self) -> &StorageFacts {
        &self.facts
    }

    fn make_tree(&self, path: &Path) -> Result<()> {
        fs::create_dir(path)
            .map_err(|error| Error::io(format!("make directory `{}`", path.display()), error))
    }

    fn copy_tree(
        &self,
        source: &Path,
        destination: &Path,
        _access: TreeAccess,
        staging: &Path,
    ) -> Result<()> {
        let copy = || {
            copy_tree(source, staging, &CopyOptions::VERBATIM)?;
            // The outer directory has the creation time of the copy; its content keeps its times.
            let now = SystemTime::now();
            File::open(staging)
                .and_then(|directory| {
                    directory.set_times(fs::FileTimes::new().set_modified(now).set_accessed(now))
                })
                .and_then(|()| crate::layered::publish(staging, destination))
                .map_err(|error| Error::io(format!("publish `{}`", destination.display()), error))
        };
        copy().inspect_err(|_| {
            if let Err(error) = remove_tree(staging) {
                tracing::warn!(error = error.chain(), "could not remove an incomplete copy");
            }
        })
    }

    fn remove_tree(&self, path: &Path) -> Result<()> {
        // Moved away by one rename, so that an interrupted removal leaves no partial tree.
        let hidden = self
            .root
            .join("trash")
            .join(Uuid::now_v7().simple().to_string());
        match fs::rename(path, &hidden) {
            Ok(()) => remove_tree(&hidden),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(
                format!("move `{}` to the trash", path.display()),
                error,
            )),
        }
    }

    fn birth(&self, path: &Path) -> Result<Birth> {
        let complain = |error| {
            Error::io(
                format!("read the creation time of `{}`", path.display()),
                error,
            )
        };
        let modified = fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .map_err(complain)?;
        let created =
            Timestamp::try_from(modified).map_err(|error| complain(io::Error::other(error)))?;
        Ok(Birth {
            sequence: 0,
            created,
        })
    }

    fn stable_inodes(&self) -> bool {
        false
    }

    fn usage(&self, tree: &Path) -> Result<ByteCount> {
        allocated(tree)
    }

    fn set_quota(&self, tree: &Path, quota: Option<ByteCount>) -> Result<()> {
        project_quota::set(tree, quota)
    }

    fn space(&self) -> Result<Space> {
        let found = statvfs(&self.root).map_err(|errno| {
            Error::io(
                format!("read the free space of `{}`", self.root.display()),
                errno.into(),
            )
        })?;
        let read_only = found.f_flag.contains(StatVfsMountFlags::RDONLY);
        Ok(Space {
            total: ByteCount(found.f_blocks * found.f_frsize),
            available: ByteCount(found.f_bavail * found.f_frsize),
            state: if read_only { "read-only" } else { "ONLINE" }.into(),
            healthy: !read_only,
        })
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
