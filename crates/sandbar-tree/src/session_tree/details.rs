//! Details of an entry: the target of a link and the attributes of files.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat},
    io::Errno,
};
use sandbar_core::{EntryType, ErrorCode, FileDetails, FileStat, LinkEnd, Result};

use super::{
    list::{MAX_LISTED_BYTES, too_much},
    tree::{SessionTree, failure},
};
use crate::xattrs;

/// Name prefix of attributes that the owner of a file may set.
pub(super) const USER_ATTRIBUTES: &str = "user.";

/// Limit on attribute bytes read from one file, because a sandbox controls how many there are.
const MAX_ATTRIBUTE_BYTES: usize = 16 << 10;

impl SessionTree {
    /// Returns metadata, link target and user attributes of `path`.
    pub fn details(&self, path: &Path) -> Result<FileDetails> {
        self.with_details(self.stat(path)?)
    }

    /// [`list_all`](Self::list_all) with link targets and user attributes.
    pub fn list_details(&self, path: &Path, depth: u32) -> Result<Vec<FileDetails>> {
        let mut left = MAX_LISTED_BYTES;
        let mut found = Vec::new();
        for stat in self.list_all(path, depth)? {
            let details = match self.with_details(stat) {
                Ok(details) => details,
                // Gone since it was listed.
                Err(error) if error.code() == ErrorCode::FileNotFound => continue,
                Err(error) => return Err(error),
            };
            let size: usize = details
                .attributes
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            left = left.checked_sub(size).ok_or_else(|| too_much(path))?;
            found.push(details);
        }
        Ok(found)
    }

    fn with_details(&self, stat: FileStat) -> Result<FileDetails> {
        let is_link = stat.entry == EntryType::Symlink;
        let end = match self.open_path(&stat.path, OFlags::PATH) {
            Ok(end) => end,
            // A dangling link, or a loop.
            Err(error)
                if is_link
                    && matches!(
                        error.code(),
                        ErrorCode::FileNotFound | ErrorCode::InvalidArgument
                    ) =>
            {
                return Ok(FileDetails {
                    stat,
                    link_end: None,
                    attributes: BTreeMap::new(),
                });
            }
            Err(error) => return Err(error),
        };
        let complain = |errno| failure(&stat.path, errno);
        let found = fstat(&end).map_err(complain)?;
        let link_end = if is_link {
            self.link_end(&end, &found).map_err(complain)?
        } else {
            None
        };
        let attributes = attributes(&end, &found).map_err(complain)?;
        Ok(FileDetails {
            stat,
            link_end,
            attributes,
        })
    }

    fn link_end(&self, end: &OwnedFd, found: &Stat) -> Result<Option<LinkEnd>, Errno> {
        // The path of the open descriptor, unaffected by later changes of the links.
        let (root, path) = (path_of_descriptor(&self.root)?, path_of_descriptor(end)?);
        Ok(path.strip_prefix(root).ok().map(|below| LinkEnd {
            path: Path::new("/").join(below),
            entry: EntryType::of_mode(found.st_mode),
            mode: found.st_mode & 0o7777,
        }))
    }
}

/// Returns the path of a descriptor in the host's mount namespace.
fn path_of_descriptor(descriptor: &OwnedFd) -> Result<PathBuf, Errno> {
    let path = readlinkat(CWD, own_descriptor(descriptor), Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

fn own_descriptor(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Reads the attributes `user.*`. Only files and directories can have any.
fn attributes(found: &OwnedFd, stat: &Stat) -> Result<BTreeMap<String, Vec<u8>>, Errno> {
    let mut attributes = BTreeMap::new();
    if !matches!(
        FileType::from_raw_mode(stat.st_mode),
        FileType::RegularFile | FileType::Directory
    ) {
        return Ok(attributes);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match openat(CWD, own_descriptor(found), flags, Mode::empty()) {
        // A process holds a lease on the file: list it without attributes rather than wait.
        Err(Errno::AGAIN) => return Ok(attributes),
        opened => opened?,
    };
    let place = xattrs::XattrTarget::Open(&opened);
    let mut left = MAX_ATTRIBUTE_BYTES;
    for name in place.list()? {
        let Ok(text) = name.to_str() else { continue };
        if !text.starts_with(USER_ATTRIBUTES) || xattrs::is_overlay_internal(&name) {
            continue;
        }
        match place.get(&name) {
            Ok(value) if value.len() + text.len() <= left => {
                left -= value.len() + text.len();
                attributes.insert(text.to_owned(), value);
            }
            Ok(_) => break,
            // Gone since it was listed.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use sandbar_core::WriteOptions;

    use super::*;

    #[test]
    fn link_end_is_resolved_inside_the_tree() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        fs::create_dir_all(root.join("deep/er")).unwrap();
        fs::write(scratch.path().join("outside"), "secret").unwrap();
        fs::write(root.join("deep/er/file"), "x").unwrap();
        symlink("/deep/link", root.join("first")).unwrap();
        symlink("er/../er/file", root.join("deep/link")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        symlink("/", root.join("top")).unwrap();
        let tree = SessionTree::open(&root, None).unwrap();
        let end = |path: &str| {
            tree.details(Path::new(path))
                .unwrap()
                .link_end
                .map(|end| (end.path, end.entry))
        };
        assert_eq!(
            end("/first"),
            Some(("/deep/er/file".into(), EntryType::File))
        );
        assert_eq!(end("/top"), Some(("/".into(), EntryType::Directory)));
        assert_eq!(
            (end("/out"), end("/circle"), end("/deep/er/file")),
            (None, None, None)
        );
        assert_eq!(tree.list_details(Path::new("/"), 9).unwrap().len(), 8);
    }

    #[test]
    fn attributes_stay_with_their_file_and_are_bounded() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = SessionTree::open(scratch.path(), None).unwrap();
        let draft = tree
            .draft(Path::new("/file"), WriteOptions::default())
            .unwrap();
        draft.set_attribute("user.e2b.author", b"me").unwrap();
        let refused = draft
            .set_attribute("security.capability", b"all")
            .unwrap_err();
        assert_eq!(
            (refused.code(), refused.field()),
            (ErrorCode::InvalidArgument, Some("attributes"))
        );
        assert_eq!(
            draft
                .set_attribute(&"user.".repeat(60), b"")
                .unwrap_err()
                .code(),
            ErrorCode::InvalidArgument
        );
        draft.commit().unwrap();
        symlink("file", scratch.path().join("link")).unwrap();
        for path in ["/file", "/link"] {
            let attributes = tree.details(Path::new(path)).unwrap().attributes;
            assert_eq!(
                attributes,
                BTreeMap::from([("user.e2b.author".to_owned(), b"me".to_vec())])
            );
        }
        // A replacement does not inherit attributes.
        tree.draft(Path::new("/file"), WriteOptions::default())
            .unwrap()
            .commit()
            .unwrap();
        assert!(
            tree.details(Path::new("/file"))
                .unwrap()
                .attributes
                .is_empty()
        );
    }
}
