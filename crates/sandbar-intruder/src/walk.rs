//! Walks through trees that may be large and may change during the walk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::call::{call, text};

/// Limits the entries visited in one walk.
const MAX_FILES: usize = 50_000;

#[derive(Debug)]
pub(crate) enum Found {
    Writable(PathBuf),
    /// Number of entries visited.
    Nothing(usize),
}

/// Finds the first file below `root`, at most `depth` directories down, that is `wanted` and that
/// this process may write. Opens no file.
pub(crate) fn find_writable(root: &Path, depth: usize, wanted: impl Fn(&Path) -> bool) -> Found {
    let mut writable = None;
    let looked = find(root, depth, |path| {
        let file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        if file && wanted(path) && may_write(path) {
            writable = Some(path.to_owned());
        }
        writable.is_some()
    });
    writable.map_or(Found::Nothing(looked), Found::Writable)
}

/// Calls `stop` for every entry below `root` until it returns `true`. Returns the number of
/// entries.
pub(crate) fn find(root: &Path, depth: usize, mut stop: impl FnMut(&Path) -> bool) -> usize {
    let mut looked = 0;
    let mut directories = vec![(root.to_owned(), depth)];
    while let Some((directory, depth)) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            looked += 1;
            if stop(&path) || looked == MAX_FILES {
                return looked;
            }
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push((path, depth - 1));
            }
        }
    }
    looked
}

fn may_write(path: &Path) -> bool {
    text(path).is_ok_and(|path| call!(SYS_faccessat, libc::AT_FDCWD, &path, libc::W_OK).is_ok())
}
