//! Reading the tree: metadata of an entry, directory listings, file content.

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
use sandbar_core::{ByteCount, EntryType, Error, FileStat, Result, shown_path};

use super::{
    tree::{SessionTree, failure, is_a_directory, not_regular, open_regular},
    walk::{Step, Visitor, WalkEntry},
};

/// Entry limit of one listing, which is held in memory. A session creates as many files as its
/// quota allows.
const MAX_LISTED_ENTRIES: usize = 100_000;

/// Limit on bytes of paths, link targets and attributes in one listing. Entries have full paths, so
/// these grow with the square of the depth.
pub(super) const MAX_LISTED_BYTES: usize = 32 << 20;

/// Entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by path.
    pub entries: Vec<FileStat>,
    /// Whether entries were left out because of a limit.
    pub truncated: bool,
}

impl SessionTree {
    /// Opens a file for reading; symbolic links are followed inside the session.
    pub fn open_file(&self, path: &Path) -> Result<(File, FileStat)> {
        let found = self.open_path(path, OFlags::PATH)?;
        match open_regular(&found).map_err(|errno| failure(path, errno))? {
            Some((file, stat)) => Ok((file, self.describe(path.to_owned(), &stat, None))),
            None => match fstat(&found).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::Directory) => Err(is_a_directory(path)),
                _ => Err(not_regular(path, "read it from a command in the session")),
            },
        }
    }

    /// Returns the metadata of `path`, not following a symbolic link.
    pub fn stat(&self, path: &Path) -> Result<FileStat> {
        let found = self.open_path(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = fstat(&found).map_err(|errno| failure(path, errno))?;
        let target = link_target(&found, c"", &stat).map_err(|errno| failure(path, errno))?;
        Ok(self.describe(path.to_owned(), &stat, target))
    }

    /// Lists `depth` levels below a directory, sorted by path. Symbolic links are not followed.
    /// More entries than the limit is an error.
    pub fn list_all(&self, path: &Path, depth: u32) -> Result<Vec<FileStat>> {
        let listing = self.list(path, depth, MAX_LISTED_ENTRIES)?;
        if listing.truncated {
            Err(too_much(path))
        } else {
            Ok(listing.entries)
        }
    }

    /// Lists `depth` levels below a directory, at most `most` entries, sorted by path. Symbolic
    /// links are not followed.
    pub fn list(&self, path: &Path, depth: u32, most: usize) -> Result<Listing> {
        let depth = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        let listing = Listing {
            entries: Vec::new(),
            truncated: false,
        };
        let mut lister = Lister {
            tree: self,
            start: path,
            depth,
            most,
            bytes: MAX_LISTED_BYTES,
            listing,
        };
        self.walk(path, &mut lister)?;
        Ok(lister.listing)
    }

    fn describe(&self, path: PathBuf, stat: &Stat, symlink_target: Option<PathBuf>) -> FileStat {
        // A process may set any time; clamp it to the range of `Timestamp`.
        let nearest = if stat.st_mtime < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        let nanoseconds = i32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let modified = Timestamp::new(stat.st_mtime, nanoseconds).unwrap_or(nearest);
        FileStat {
            path,
            entry: EntryType::of_mode(stat.st_mode),
            size: ByteCount(u64::try_from(stat.st_size).unwrap_or(0)),
            mode: stat.st_mode & 0o7777,
            uid: self.owner_inside(stat.st_uid),
            gid: self.owner_inside(stat.st_gid),
            modified,
            symlink_target,
        }
    }
}

struct Lister<'a> {
    tree: &'a SessionTree,
    start: &'a Path,
    depth: usize,
    most: usize,
    /// Bytes left of the limit.
    bytes: usize,
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
        let target = match link_target(entry.directory, entry.name, &stat) {
            Ok(target) => target,
            // No longer a link.
            Err(Errno::NOENT | Errno::INVAL) => return Ok(Step::Over),
            Err(errno) => return Err(complain(errno)),
        };
        let path = self.start.join(entry.path);
        let size =
            path.as_os_str().len() + target.as_ref().map_or(0, |target| target.as_os_str().len());
        if self.listing.entries.len() >= self.most || size > self.bytes {
            self.listing.truncated = true;
            return Ok(Step::Stop);
        }
        self.bytes -= size;
        self.listing
            .entries
            .push(self.tree.describe(path, &stat, target));
        Ok(if entry.depth < self.depth {
            Step::Into
        } else {
            Step::Over
        })
    }
}

pub(super) fn too_much(path: &Path) -> Error {
    let most = MAX_LISTED_BYTES >> 20;
    Error::invalid(
        "depth",
        format!(
            "`{}` has more than {MAX_LISTED_ENTRIES} entries or {most} MiB of names below it",
            shown_path(path)
        ),
    )
    .with_hint("use a smaller depth, or list subdirectories separately")
}

fn link_target(
    directory: impl AsFd,
    name: &CStr,
    stat: &Stat,
) -> rustix::io::Result<Option<PathBuf>> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    let target = readlinkat(directory, name, Vec::new())?;
    Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes()))))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        time::{Duration, SystemTime},
    };

    use rustix::fs::{CWD, Mode, mkdirat, openat};
    use sandbar_core::ErrorCode;
    use sandbar_testing::tree::scratch;

    use super::*;

    #[test]
    fn list_all_of_a_very_deep_tree_is_refused() {
        let scratch = scratch();
        let name = "d".repeat(100);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut directory = openat(CWD, scratch.path(), flags, Mode::empty()).unwrap();
        // 900 levels of 100 bytes are 40 MB of paths.
        for _ in 0..900 {
            mkdirat(&directory, &name, Mode::from_raw_mode(0o755)).unwrap();
            directory = openat(&directory, &name, flags, Mode::empty()).unwrap();
        }
        let tree = SessionTree::open(scratch.path(), None).unwrap();
        let refused = tree.list_all(Path::new("/"), u32::MAX).unwrap_err();
        assert_eq!(
            (refused.code(), refused.field()),
            (ErrorCode::InvalidArgument, Some("depth"))
        );
        assert_eq!(
            tree.list_details(Path::new("/"), u32::MAX)
                .unwrap_err()
                .field(),
            Some("depth")
        );
        assert_eq!(tree.list_all(Path::new("/"), 500).unwrap().len(), 500);
        assert!(
            tree.list(Path::new("/"), u32::MAX, usize::MAX)
                .unwrap()
                .truncated
        );
    }

    #[test]
    fn stat_with_a_time_out_of_range_is_clamped() {
        let scratch = scratch();
        fs::write(scratch.path().join("far"), "x").unwrap();
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(999_999_999_999);
        let file = File::options()
            .write(true)
            .open(scratch.path().join("far"))
            .unwrap();
        file.set_modified(far).unwrap();
        assert_ne!(
            file.metadata().unwrap().modified().unwrap(),
            SystemTime::UNIX_EPOCH
        );
        let tree = SessionTree::open(scratch.path(), None).unwrap();
        // Some file systems clamp such a time to the latest they support.
        assert!(
            tree.stat(Path::new("/far")).unwrap().modified
                > Timestamp::from_second(10_000_000_000).unwrap()
        );
        let mut stat = fstat(&file).unwrap();
        for (seconds, shown) in [
            (999_999_999_999, Timestamp::MAX),
            (-999_999_999_999, Timestamp::MIN),
        ] {
            stat.st_mtime = seconds;
            assert_eq!(tree.describe("/far".into(), &stat, None).modified, shown);
        }
        assert_eq!(tree.list_all(Path::new("/"), 1).unwrap().len(), 1);
        tree.open_file(Path::new("/far")).unwrap();
    }
}
