//! Quota of a directory tree by project quotas (XFS, and ext4 mounted with `prjquota`).

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use sandbar_core::{ByteCount, Capability, Error, Result};

use super::quota_calls;

/// Probes whether quotas work in `root`.
pub(super) fn probe(root: &Path) -> Capability {
    const HINT: &str =
        "use a file system mounted with project quotas (XFS `-o prjquota`), btrfs or zfs";
    match File::open(root).and_then(|directory| quota_calls::enforced(&directory)) {
        Ok(true) => Capability::Yes,
        Ok(false) => Capability::no(format!(
            "project quotas are off on this file system; {HINT}"
        )),
        Err(error) => Capability::no(format!(
            "this file system has no project quotas ({error}); {HINT}"
        )),
    }
}

/// Limits the space of `tree`. The first call assigns the whole tree to a new project.
pub(super) fn set(tree: &Path, quota: Option<ByteCount>) -> Result<()> {
    let complain = |error| Error::io(format!("set the quota of `{}`", tree.display()), error);
    let directory = File::open(tree).map_err(complain)?;
    let mut project = quota_calls::project(&directory).map_err(complain)?;
    if project == 0 {
        project = unused_project(&directory).map_err(complain)?;
        join(tree, project).map_err(complain)?;
    }
    // A limit of zero blocks means no limit, so a quota below one block is rounded up.
    let blocks = quota.map_or(0, |quota| quota.get().div_ceil(512).max(1));
    quota_calls::limit(&directory, project, blocks).map_err(complain)
}

/// Returns an unused project id. Inode numbers of existing trees are unique; an older tree may
/// still use one.
fn unused_project(directory: &File) -> io::Result<u32> {
    let mut project =
        u32::try_from(directory.metadata()?.ino() & 0x3fff_ffff).unwrap_or(1) | 0x4000_0000;
    while quota_calls::charged_blocks(directory, project)? != 0 {
        project = project.wrapping_add(1) | 0x4000_0000;
    }
    Ok(project)
}

fn join(path: &Path, project: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        quota_calls::join_project(&File::open(path)?, project)?;
        for entry in fs::read_dir(path)? {
            join(&entry?.path(), project)?;
        }
    } else if metadata.is_file() {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        quota_calls::join_project(&file, project)?;
    }
    // Links, FIFOs and devices have no data to charge.
    Ok(())
}
