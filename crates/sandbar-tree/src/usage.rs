//! Disk usage of a tree, by a walk over every file.

use std::{
    collections::HashSet,
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use rustix::{
    fs::{CWD, FileType},
    io::Errno,
};
use sandbar_core::{ByteCount, Error, Result};

use crate::descent::{DirectoryStack, EntryStat, Identity, names, open_directory};

/// Returns the bytes allocated to all files below `tree`; hard links count once. The tree may
/// change during the walk.
pub fn allocated(tree: &Path) -> Result<ByteCount> {
    let failure = |errno: Errno| Error::io(format!("measure `{}`", tree.display()), errno.into());
    let name = CString::new(tree.as_os_str().as_bytes()).map_err(|_| failure(Errno::INVAL))?;
    measure(&name).map(ByteCount).map_err(failure)
}

fn measure(tree: &CStr) -> Result<u64, Errno> {
    let root = open_directory(CWD, tree)?;
    let mut total = 0;
    let mut linked: HashSet<Identity> = HashSet::new();
    let mut levels = vec![names(&root)?];
    let mut directories = DirectoryStack::new(root)?;
    while let Some(left) = levels.last_mut() {
        let Some((name, _)) = left.pop() else {
            levels.pop();
            directories.pop()?;
            continue;
        };
        let current = directories.current()?;
        let stat = match EntryStat::at(current, &name) {
            Ok(stat) => stat,
            // Gone since it was listed.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        if stat.kind != FileType::Directory {
            if stat.links < 2 || linked.insert(stat.identity()) {
                total += stat.allocated;
            }
            continue;
        }
        total += stat.allocated;
        match open_directory(current, &name) {
            Ok(below) => {
                levels.push(names(&below)?);
                directories.push(below, stat.identity());
            }
            // Gone, or replaced by something else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(total)
}
