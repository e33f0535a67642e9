//! Looking at the tree: one entry, a directory, the content of a file.

use std::{
    ffi::{CStr, OsStr},
    fs::File,
    os::{fd::AsFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rustix::{
    fs::{AtFlags, FileType, OFlags, Stat, fstat, readlinkat, statat},
    io::Errno,
};
use sandbar_core::{ByteCount, EntryType, Error, FileStat, Result};

use super::{
    tree::{SessionTree, failure, is_a_directory, not_regular, open_regular},
    walk::{Step, Visitor, WalkEntry},
};

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by path.
    pub entries: Vec<FileStat>,
    /// There was more than the caller wanted.
    pub truncated: bool,
}

impl SessionTree {
    /// Opens a file for reading, following links inside the session.
    pub fn open_file(&self, path: &Path) -> Result<(File, FileStat)> {
        let found = self.reach(path, OFlags::PATH)?;
        match open_regular(&found).map_err(|errno| failure(path, errno))? {
            Some((file, stat)) => Ok((file, self.describe(path.to_owned(), &stat, None)?)),
            None => match fstat(&found).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::Directory) => Err(is_a_directory(path)),
                _ => Err(not_regular(path, "read it from a command in the session")),
            },
        }
    }

    /// What is at `path`; a link is not followed.
    pub fn stat(&self, path: &Path) -> Result<FileStat> {
        let found = self.reach(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = fstat(&found).map_err(|errno| failure(path, errno))?;
        let target = link_target(&found, c"", &stat).map_err(|errno| failure(path, errno))?;
        self.describe(path.to_owned(), &stat, target)
    }

    /// Entries below a directory, `depth` levels of them and at most `most`, sorted by path. Links are not followed.
    pub fn list(&self, path: &Path, depth: u32, most: usize) -> Result<Listing> {
        let depth = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        let listing = Listing { entries: Vec::new(), truncated: false };
        let mut lister = Lister { tree: self, start: path, depth, most, listing };
        self.walk(path, &mut lister)?;
        Ok(lister.listing)
    }

    fn describe(&self, path: PathBuf, stat: &Stat, symlink_target: Option<PathBuf>) -> Result<FileStat> {
        let modified =
            Timestamp::new(stat.st_mtime, i32::try_from(stat.st_mtime_nsec).unwrap_or(0)).map_err(|error| {
                Error::internal(format!("the time of `{}` is out of range", path.display())).with_source(error)
            })?;
        Ok(FileStat {
            path,
            entry: EntryType::of_mode(stat.st_mode),
            size: ByteCount(u64::try_from(stat.st_size).unwrap_or(0)),
            mode: stat.st_mode & 0o7777,
            uid: self.inside(stat.st_uid),
            gid: self.inside(stat.st_gid),
            modified,
            symlink_target,
        })
    }
}

struct Lister<'a> {
    tree: &'a SessionTree,
    start: &'a Path,
    depth: usize,
    most: usize,
    listing: Listing,
}

impl Visitor for Lister<'_> {
    fn visit(&mut self, entry: &WalkEntry<'_>) -> Result<Step> {
        let complain = |errno| failure(self.start, errno);
        let stat = match statat(entry.directory, entry.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Gone since it was listed.
            Err(Errno::NOENT) => return Ok(Step::Over),
            Err(errno) => return Err(complain(errno)),
        };
        if self.listing.entries.len() >= self.most {
            self.listing.truncated = true;
            return Ok(Step::Stop);
        }
        let target = match link_target(entry.directory, entry.name, &stat) {
            Ok(target) => target,
            // It was a link a moment ago.
            Err(Errno::NOENT | Errno::INVAL) => return Ok(Step::Over),
            Err(errno) => return Err(complain(errno)),
        };
        self.listing.entries.push(self.tree.describe(self.start.join(entry.path), &stat, target)?);
        Ok(if entry.depth < self.depth { Step::Into } else { Step::Over })
    }
}

fn link_target(directory: impl AsFd, name: &CStr, stat: &Stat) -> rustix::io::Result<Option<PathBuf>> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    let target = readlinkat(directory, name, Vec::new())?;
    Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes()))))
}
