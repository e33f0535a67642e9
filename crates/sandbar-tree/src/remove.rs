//! Removal of a tree of any depth. `std::fs::remove_dir_all` needs a descriptor and a stack frame
//! per level, so a sandbox could create a tree that it cannot delete.

use std::{
    ffi::{CStr, CString},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, CWD, FileType, Mode},
    io::Errno,
};
use sandbar_core::{Error, Result};

use crate::descent::{DirectoryStack, EntryStat, chmod_named, names, open_directory};

/// Removes `path` and everything below it. Symbolic links are removed, not followed. A mount at
/// `path` or below is `EBUSY`; its content is not touched. A missing path is success.
pub fn remove_tree(path: &Path) -> Result<()> {
    let failure = |errno: Errno| Error::io(format!("remove `{}`", path.display()), errno.into());
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| failure(Errno::INVAL))?;
    remove_at(CWD, &name).map_err(failure)
}

/// [`remove_tree`] of a name in an open directory.
pub fn remove_tree_at(directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    remove_at(directory, name)
}

/// [`remove_tree`] of a name in an open directory.
pub(crate) fn remove_at(directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    // Another process may remove the same tree, such as a host that is shutting down. The walk then
    // fails with `ENOENT` inside a directory that is gone, and starts again with what is left.
    const MAX_ATTEMPTS: usize = 16;
    let mut outcome = Ok(());
    for _ in 0..MAX_ATTEMPTS {
        outcome = try_remove_at(&directory, name);
        if outcome != Err(Errno::NOENT) {
            break;
        }
    }
    outcome
}

/// Removes once; `ENOENT` when a directory of the walk was removed concurrently.
fn try_remove_at(directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    match EntryStat::at(&directory, name) {
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
        Ok(stat) if stat.kind != FileType::Directory => {
            return gone(fs::unlinkat(directory, name, AtFlags::empty()));
        }
        // Do not delete the content of a file system that is still mounted here.
        Ok(stat) if stat.mount_root => return Err(Errno::BUSY),
        Ok(_) => {}
    }
    empty(open_anyway(&directory, name)?)?;
    gone(fs::unlinkat(directory, name, AtFlags::REMOVEDIR))
}

/// Removes everything in a directory.
fn empty(root: OwnedFd) -> Result<(), Errno> {
    let mut levels = vec![(CString::default(), names(&root)?)];
    let mut directories = DirectoryStack::new(root)?;
    while let Some((_, left)) = levels.last_mut() {
        let Some((name, kind)) = left.pop() else {
            let Some((name, _)) = levels.pop() else { break };
            if directories.pop()?.is_some() {
                gone(fs::unlinkat(
                    directories.current()?,
                    &name,
                    AtFlags::REMOVEDIR,
                ))?;
            }
            continue;
        };
        let current = directories.current()?;
        let is_directory = match kind {
            FileType::Unknown => {
                EntryStat::at(current, &name).is_ok_and(|stat| stat.kind == FileType::Directory)
            }
            kind => kind == FileType::Directory,
        };
        if !is_directory {
            gone(fs::unlinkat(current, &name, AtFlags::empty()))?;
            continue;
        }
        // `EBUSY` for a mount point; most directories are empty and need no further call.
        match fs::unlinkat(current, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let directory = match open_anyway(current, &name) {
            Err(Errno::NOENT) => continue,
            opened => opened?,
        };
        let stat = EntryStat::of(&directory)?;
        if stat.mount_root {
            return Err(Errno::BUSY);
        }
        levels.push((name, names(&directory)?));
        directories.push(directory, stat.identity());
    }
    Ok(())
}

/// Opens a directory to empty it. An ordinary user may own directories without the permission bits
/// this needs; they are added.
fn open_anyway(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    if !rustix::process::geteuid().is_root() {
        let stat = EntryStat::at(&parent, name)?;
        if stat.kind == FileType::Directory && stat.mode & 0o700 != 0o700 {
            chmod_named(&parent, name, Mode::RWXU)?;
        }
    }
    open_directory(parent, name)
}

fn gone(outcome: Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remove_tree_from_three_threads_succeeds() {
        let scratch = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let tree = scratch.path().join(round.to_string());
            for directory in 0..40 {
                let inside = tree.join(format!("{directory}/deep/er"));
                std::fs::create_dir_all(&inside).unwrap();
                std::fs::write(inside.join("file"), "").unwrap();
            }
            std::thread::scope(|scope| {
                let removers: Vec<_> = (0..3).map(|_| scope.spawn(|| remove_tree(&tree))).collect();
                for remover in removers {
                    remover.join().unwrap().unwrap();
                }
            });
            assert!(!tree.exists());
        }
    }
}
