//! Walk over a part of the tree in the order of paths. It takes few descriptors and no recursion,
//! however deep a session nests its directories.

use std::{
    ffi::{CStr, CString, OsStr},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    vec,
};

use rustix::{fs::FileType, io::Errno};
use sandbar_core::Result;

use super::tree::{SessionTree, failure};
use crate::descent::{DirectoryStack, EntryStat, Identity, names, open_directory};

/// Current entry of a walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkEntry<'a> {
    /// Directory of the entry.
    pub directory: BorrowedFd<'a>,
    pub name: &'a CStr,
    /// Path relative to the start of the walk.
    pub path: &'a Path,
    pub kind: FileType,
    /// 1 for entries of the start directory.
    pub depth: usize,
}

/// Continuation of a walk after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Descend, if it is a directory.
    Into,
    /// Go on with the next sibling.
    Over,
    /// End the walk.
    Stop,
}

/// Callbacks of a walk.
pub trait Visitor {
    /// Called before the entries of a directory. `path` is relative to the start, and empty for the
    /// start itself.
    fn enter(&mut self, directory: BorrowedFd<'_>, path: &Path) -> Result<()> {
        let _ = (directory, path);
        Ok(())
    }

    fn visit(&mut self, entry: &WalkEntry<'_>) -> Result<Step>;

    /// Called after the entries of the directory entered last.
    fn leave(&mut self) {}
}

impl SessionTree {
    /// Visits everything below the directory `start` in the order of paths. Symbolic links are not
    /// followed. Entries removed or replaced during the walk are left out.
    pub fn walk(&self, start: &Path, visitor: &mut impl Visitor) -> Result<()> {
        let complain = |errno| failure(start, errno);
        let root = self.directory(start)?;
        let mut ahead = vec![sorted_names(&root).map_err(complain)?];
        let mut stack = DirectoryStack::new(root).map_err(complain)?;
        let mut path = PathBuf::new();
        visitor.enter(stack.current().map_err(complain)?, &path)?;
        while let Some(level) = ahead.last_mut() {
            let Some((name, kind)) = level.next() else {
                ahead.pop();
                visitor.leave();
                path.pop();
                stack.pop().map_err(complain)?;
                continue;
            };
            let directory = stack.current().map_err(complain)?;
            let kind = match kind {
                FileType::Unknown => match EntryStat::at(directory, &name) {
                    Ok(found) => found.kind,
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(complain(errno)),
                },
                kind => kind,
            };
            path.push(OsStr::from_bytes(name.to_bytes()));
            let entry = WalkEntry {
                directory,
                name: &name,
                path: &path,
                kind,
                depth: ahead.len(),
            };
            let step = visitor.visit(&entry)?;
            if step == Step::Stop {
                return Ok(());
            }
            if step == Step::Into
                && kind == FileType::Directory
                && let Some(below) = descend(directory, &name).map_err(complain)?
            {
                stack.push(below.directory, below.identity);
                visitor.enter(stack.current().map_err(complain)?, &path)?;
                ahead.push(below.names);
                continue;
            }
            path.pop();
        }
        Ok(())
    }
}

struct Below {
    directory: OwnedFd,
    identity: Identity,
    names: vec::IntoIter<(CString, FileType)>,
}

/// Opens a directory to descend into; `None` when it is gone or no longer a directory.
fn descend(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Option<Below>> {
    let directory = match open_directory(parent, name) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let identity = EntryStat::of(&directory)?.identity();
    let names = sorted_names(&directory)?;
    Ok(Some(Below {
        directory,
        identity,
        names,
    }))
}

fn sorted_names(directory: impl AsFd) -> rustix::io::Result<vec::IntoIter<(CString, FileType)>> {
    let mut names = names(directory)?;
    names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(names.into_iter())
}
