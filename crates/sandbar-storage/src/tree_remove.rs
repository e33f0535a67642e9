//! Removing a tree, however deep: the standard library needs a descriptor and a stack frame for each level, and a
//! sandbox could make a tree that cannot be deleted that way.

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

/// Removes `path` and everything below it, never through a symbolic link and never into what is mounted there or
/// below, which is an error. Nothing there is success.
pub fn remove_tree(path: &Path) -> Result<()> {
    let failure = |errno: Errno| Error::io(format!("remove `{}`", path.display()), errno.into());
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| failure(Errno::INVAL))?;
    remove_at(CWD, &name).map_err(failure)
}

/// [`remove_tree`] of a name in an open directory.
pub(crate) fn remove_at(directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    // Somebody else may be removing the same, a host that is just ending, say: then a directory is gone while we are in
    // it, and what is left has to be looked at again.
    const TRIES: usize = 16;
    let mut outcome = Ok(());
    for _ in 0..TRIES {
        outcome = try_remove_at(&directory, name);
        if outcome != Err(Errno::NOENT) {
            break;
        }
    }
    outcome
}

/// `NOENT` when something was gone before we came to it.
fn try_remove_at(directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    match EntryStat::at(&directory, name) {
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
        Ok(stat) if stat.kind != FileType::Directory => {
            return gone(fs::unlinkat(directory, name, AtFlags::empty()));
        }
        // What is mounted here is not ours to empty, whoever forgot to unmount it.
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
                gone(fs::unlinkat(directories.current()?, &name, AtFlags::REMOVEDIR))?;
            }
            continue;
        };
        let current = directories.current()?;
        let is_directory = match kind {
            FileType::Unknown => EntryStat::at(current, &name).is_ok_and(|stat| stat.kind == FileType::Directory),
            kind => kind == FileType::Directory,
        };
        if !is_directory {
            gone(fs::unlinkat(current, &name, AtFlags::empty()))?;
            continue;
        }
        // A mount point says busy, and most directories that are left are empty ones.
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

/// An ordinary user may own directories that lack the bits needed to empty them.
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
    fn two_may_remove_the_same_tree() {
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
