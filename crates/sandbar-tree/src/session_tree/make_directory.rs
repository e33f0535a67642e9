//! Creating directories in the tree, and giving empty ones to another owner.

use std::path::Path;

use rustix::{
    fs::{Dir, DirEntry, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, MakeDirOptions, Result, shown_path};

use super::tree::{SessionTree, failure};

impl SessionTree {
    /// Creates the directory `path`; returns `false` if it exists already.
    pub fn make_directory(&self, path: &Path, options: MakeDirOptions) -> Result<bool> {
        match self.open_path(path, OFlags::PATH) {
            Ok(found) => {
                let stat = fstat(&found).map_err(|errno| failure(path, errno))?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    return Ok(false);
                }
                return Err(not_a_directory(path));
            }
            Err(error) if error.code() == ErrorCode::FileNotFound => {}
            Err(error) => return Err(error),
        }
        if options.create_dirs {
            self.make_directories(path, options.owner)?;
            return Ok(true);
        }
        let place = self.named(path)?;
        let _acting = self.act_as(options.owner)?;
        match self.make_one(&place.directory, place.name.as_c_str(), options.owner) {
            Ok(()) => Ok(true),
            // Created concurrently, or a dangling symbolic link.
            Err(Errno::EXIST) => self
                .directory(path)
                .map(|_| false)
                .map_err(|_| not_a_directory(path)),
            Err(errno) => Err(failure(path, errno)),
        }
    }

    /// Sets owner and permission bits of the directory `path`, if it is empty and belongs to root;
    /// returns whether it did.
    pub fn give_empty_directory(&self, path: &Path, owner: (u32, u32), mode: u32) -> Result<bool> {
        let complain = |errno| failure(path, errno);
        let directory = self.directory(path)?;
        let stat = fstat(&directory).map_err(complain)?;
        let entries = Dir::read_from(&directory).map_err(complain)?;
        let is_dots = |entry: &DirEntry| matches!(entry.file_name().to_bytes(), b"." | b"..");
        let mut others = entries.filter(|entry| !entry.as_ref().is_ok_and(is_dots));
        if stat.st_uid != self.mounted_owner(0) || others.next().is_some() {
            return Ok(false);
        }
        let owner = (
            Uid::from_raw(self.mounted_owner(owner.0)),
            Gid::from_raw(self.mounted_owner(owner.1)),
        );
        fchown(&directory, Some(owner.0), Some(owner.1)).map_err(complain)?;
        fchmod(&directory, Mode::from_raw_mode(mode)).map_err(complain)?;
        Ok(true)
    }
}

fn not_a_directory(path: &Path) -> Error {
    Error::invalid(
        "path",
        format!("`{}` exists and is not a directory", shown_path(path)),
    )
    .with_hint("use another name, or remove the existing entry")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _};

    use super::*;

    #[test]
    fn make_directory_creates_parents_with_the_given_owner() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir(root.join("dir")).unwrap();
        fs::write(root.join("dir/file"), "x").unwrap();
        let tree = SessionTree::open(root, None).unwrap();
        let mine = MakeDirOptions {
            create_dirs: true,
            owner: Some((1000, 1001)),
        };
        assert!(tree.make_directory(Path::new("/dir/a/b"), mine).unwrap());
        assert!(!tree.make_directory(Path::new("/dir/a/b"), mine).unwrap());
        for path in ["dir/a", "dir/a/b"] {
            let made = fs::metadata(root.join(path)).unwrap();
            assert_eq!(
                (made.uid(), made.gid(), made.mode() & 0o777),
                (1000, 1001, 0o755),
                "{path}"
            );
        }
        assert_eq!(fs::metadata(root.join("dir")).unwrap().uid(), 0);
        let over = tree
            .make_directory(Path::new("/dir/file"), mine)
            .unwrap_err();
        assert_eq!(
            (over.code(), over.field()),
            (ErrorCode::InvalidArgument, Some("path"))
        );
        let alone = MakeDirOptions::default();
        let missing = tree
            .make_directory(Path::new("/no/such"), alone)
            .unwrap_err();
        assert_eq!(missing.code(), ErrorCode::FileNotFound);
        assert!(tree.make_directory(Path::new("/dir/c"), alone).unwrap());
    }
}
