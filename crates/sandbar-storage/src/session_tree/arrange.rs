//! Making directories, moving and removing what is in the tree.

use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Dir, DirEntry, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, mkdirat, renameat, statat},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, MakeDirOptions, Result, SessionId};

use super::tree::{SessionTree, failure};
use crate::{
    descent::open_directory,
    tree_copy::{CopyOptions, Fidelity, OverlayInternals, copy_opened},
    tree_remove::remove_at,
};

/// How often a directory is emptied that somebody else fills.
const TRIES: usize = 16;

/// Something in a directory.
struct Named {
    directory: OwnedFd,
    name: CString,
}

impl SessionTree {
    /// Makes the directory `path`; says whether it was not there already.
    pub fn make_directory(&self, path: &Path, options: MakeDirOptions) -> Result<bool> {
        match self.reach(path, OFlags::PATH) {
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
            // Somebody was faster, or it is a link that leads nowhere.
            Err(Errno::EXIST) => self.directory(path).map(|_| false).map_err(|_| not_a_directory(path)),
            Err(errno) => Err(failure(path, errno)),
        }
    }

    /// Gives the directory `path` to another owner, and other permission bits, if it is empty and root's; says whether it
    /// was.
    pub fn give_empty_directory(&self, path: &Path, owner: (u32, u32), mode: u32) -> Result<bool> {
        let complain = |errno| failure(path, errno);
        let directory = self.directory(path)?;
        let stat = fstat(&directory).map_err(complain)?;
        let entries = Dir::read_from(&directory).map_err(complain)?;
        let is_dots = |entry: &DirEntry| matches!(entry.file_name().to_bytes(), b"." | b"..");
        let mut others = entries.filter(|entry| !entry.as_ref().is_ok_and(is_dots));
        if stat.st_uid != self.shown(0) || others.next().is_some() {
            return Ok(false);
        }
        let owner = (Uid::from_raw(self.shown(owner.0)), Gid::from_raw(self.shown(owner.1)));
        fchown(&directory, Some(owner.0), Some(owner.1)).map_err(complain)?;
        fchmod(&directory, Mode::from_raw_mode(mode)).map_err(complain)?;
        Ok(true)
    }

    /// Gives what is at `from` the name `to`, as `rename` does: a file there is replaced, and an empty directory by a
    /// directory. Links are moved themselves. `options` are for the directories above `to`.
    pub fn rename(&self, from: &Path, to: &Path, options: MakeDirOptions) -> Result<()> {
        let source = self.named(from)?;
        // Nothing is made for something that is not there.
        statat(&source.directory, &source.name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| failure(from, errno))?;
        let (above, name) = split(to).map_err(|error| error.with_field("new_path"))?;
        let directory = self.directory_for(above, options).map_err(|error| error.with_field("new_path"))?;
        let target = Named { directory, name };
        let _acting = self.act()?;
        match renameat(&source.directory, &source.name, &target.directory, &target.name) {
            Ok(()) => Ok(()),
            // A directory of the base, which overlayfs does not move.
            Err(Errno::XDEV) => Self::move_by_copy(&source, from, &target, to),
            Err(errno) => Err(not_moved(from, to, errno)),
        }
    }

    /// Removes what is at `path` and everything below it. Links are removed themselves. Nothing there is success.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let place = match self.named(path) {
            Ok(place) => place,
            Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let _acting = self.act()?;
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            outcome = remove_at(&place.directory, &place.name);
            match outcome {
                // Processes of the session put something else there meanwhile.
                Err(
                    Errno::NOENT
                    | Errno::NOTEMPTY
                    | Errno::EXIST
                    | Errno::NOTDIR
                    | Errno::ISDIR
                    | Errno::LOOP
                    | Errno::STALE,
                ) => {}
                _ => break,
            }
        }
        outcome.map_err(|errno| match errno {
            Errno::BUSY => Error::invalid("path", format!("something is mounted at `{}`, or below it", path.display()))
                .with_hint("remove what is beside it"),
            Errno::NOTEMPTY | Errno::EXIST => Error::new(
                ErrorCode::InvalidState,
                format!("processes of the session make files in `{}` while it is removed", path.display()),
            )
            .with_field("path")
            .with_hint("end them first"),
            errno => failure(path, errno),
        })
    }

    fn named(&self, path: &Path) -> Result<Named> {
        let (above, name) = split(path)?;
        Ok(Named { directory: self.directory(above)?, name })
    }

    /// Nothing is seen of the copy until it is whole.
    fn move_by_copy(source: &Named, from: &Path, target: &Named, to: &Path) -> Result<()> {
        let opened = open_directory(&source.directory, &source.name).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => not_moved(from, to, Errno::XDEV),
            errno => failure(from, errno),
        })?;
        let copy = Copy { directory: target.directory.as_fd(), name: temporary()? };
        let complain = |errno| failure(to, errno);
        mkdirat(copy.directory, &copy.name, Mode::RWXU).map_err(complain)?;
        let made = open_directory(copy.directory, &copy.name).map_err(complain)?;
        let options = CopyOptions {
            fidelity: Fidelity::BestEffort,
            overlay_internals: OverlayInternals::Drop,
            progress: &|_, _| {},
        };
        copy_opened(opened, made, from, &options)?;
        renameat(copy.directory, &copy.name, &target.directory, &target.name)
            .map_err(|errno| not_moved(from, to, errno))?;
        remove_at(&source.directory, &source.name).map_err(|errno| failure(from, errno))
    }
}

/// A copy under way, which does not stay when it fails.
struct Copy<'a> {
    directory: std::os::fd::BorrowedFd<'a>,
    name: CString,
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        // Nothing is there when it has its final name.
        if let Err(errno) = remove_at(self.directory, &self.name) {
            tracing::warn!(%errno, "could not remove a half-made copy");
        }
    }
}

fn temporary() -> Result<CString> {
    c_string(OsStr::new(&format!(".sandbar-{}", SessionId::random())))
}

fn c_string(name: &OsStr) -> Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| Error::invalid("path", "the path contains NUL"))
}

/// The directory something is in, and its name there.
fn split(path: &Path) -> Result<(&Path, CString)> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::invalid("path", format!("`{}` ends in no name", path.display()))
            .with_hint("name something below the root, without `..` at the end"));
    };
    Ok((above, c_string(name)?))
}

fn not_a_directory(path: &Path) -> Error {
    Error::invalid("path", format!("`{}` exists and is not a directory", path.display()))
        .with_hint("use another name, or remove what is there")
}

fn not_moved(from: &Path, to: &Path, errno: Errno) -> Error {
    let (from, shown) = (from.display(), to.display());
    match errno {
        Errno::NOTEMPTY | Errno::EXIST => {
            Error::invalid("new_path", format!("`{shown}` is a directory that is not empty"))
                .with_hint("move it to a new name, or remove the directory")
        }
        Errno::ISDIR => Error::invalid("new_path", format!("`{shown}` is a directory, and `{from}` is not"))
            .with_hint("name a file in it"),
        Errno::NOTDIR => Error::invalid("new_path", format!("`{shown}` is not a directory, and `{from}` is"))
            .with_hint("use another name"),
        Errno::INVAL => Error::invalid("new_path", format!("`{shown}` is inside `{from}`"))
            .with_hint("move it to a place outside of itself"),
        Errno::XDEV | Errno::BUSY => Error::invalid(
            "path",
            format!("`{from}` and `{shown}` are on different file systems, or one is a mount point"),
        )
        .with_hint("copy it with a command in the session"),
        Errno::NOENT => failure(Path::new(&from.to_string()), errno),
        errno => failure(to, errno).with_field("new_path"),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
        path::PathBuf,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    const ALL: MakeDirOptions = MakeDirOptions { create_dirs: true, owner: None };

    fn scene() -> (tempfile::TempDir, PathBuf, SessionTree) {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        fs::create_dir_all(root.join("dir/below")).unwrap();
        fs::write(root.join("dir/file"), "x").unwrap();
        fs::create_dir(scratch.path().join("outside")).unwrap();
        fs::write(scratch.path().join("outside/kept"), "kept").unwrap();
        let tree = SessionTree::open(&root, None).unwrap();
        (scratch, root, tree)
    }

    #[test]
    fn directories_are_made_once_and_belong_to_whom_they_are_made_for() {
        let (_scratch, root, tree) = scene();
        let mine = MakeDirOptions { create_dirs: true, owner: Some((1000, 1001)) };
        assert!(tree.make_directory(Path::new("/dir/a/b"), mine).unwrap());
        assert!(!tree.make_directory(Path::new("/dir/a/b"), mine).unwrap());
        for path in ["dir/a", "dir/a/b"] {
            let made = fs::metadata(root.join(path)).unwrap();
            assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (1000, 1001, 0o755), "{path}");
        }
        assert_eq!(fs::metadata(root.join("dir")).unwrap().uid(), 0);
        let over = tree.make_directory(Path::new("/dir/file"), mine).unwrap_err();
        assert_eq!((over.code(), over.field()), (ErrorCode::InvalidArgument, Some("path")));
        let alone = MakeDirOptions::default();
        let missing = tree.make_directory(Path::new("/no/such"), alone).unwrap_err();
        assert_eq!(missing.code(), ErrorCode::FileNotFound);
        assert!(tree.make_directory(Path::new("/dir/c"), alone).unwrap());
    }

    #[test]
    fn nothing_is_moved_or_removed_outside() {
        let (scratch, root, tree) = scene();
        symlink("../outside", root.join("out")).unwrap();
        symlink(scratch.path().join("outside"), root.join("absolute")).unwrap();
        for path in ["/out/kept", "/absolute/kept", "/../outside/kept", "/dir/../../outside/kept"] {
            tree.remove(Path::new(path)).unwrap();
            let moved = tree.rename(Path::new(path), Path::new("/stolen"), ALL).unwrap_err();
            assert_eq!(moved.code(), ErrorCode::FileNotFound, "{path}");
        }
        tree.rename(Path::new("/dir/file"), Path::new("/../outside/new"), ALL).unwrap();
        assert!(root.join("outside/new").is_file(), "the root is its own parent");
        for link in ["/out", "/absolute"] {
            tree.remove(Path::new(link)).unwrap();
            assert!(!root.join(&link[1..]).is_symlink());
        }
        assert_eq!(fs::read_to_string(scratch.path().join("outside/kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(scratch.path().join("outside")).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_moved_says_why() {
        let (_scratch, root, tree) = scene();
        fs::create_dir_all(root.join("full/inside")).unwrap();
        for (from, to, field) in [
            ("/dir", "/full", "new_path"),
            ("/dir", "/dir/below/dir", "new_path"),
            ("/dir/file", "/full", "new_path"),
            ("/dir", "/dir/file", "new_path"),
            ("/", "/new", "path"),
            ("/dir", "/", "new_path"),
        ] {
            let error = tree.rename(Path::new(from), Path::new(to), ALL).unwrap_err();
            assert_eq!((error.code(), error.field()), (ErrorCode::InvalidArgument, Some(field)), "{from} {to}");
            assert!(error.hint().is_some(), "{from} {to}");
        }
        let missing = tree.rename(Path::new("/none"), Path::new("/made/for/it"), ALL).unwrap_err();
        assert_eq!(missing.code(), ErrorCode::FileNotFound);
        assert!(!root.join("made").exists());
    }

    #[test]
    fn a_directory_is_removed_while_somebody_fills_it() {
        let (_scratch, root, tree) = scene();
        let (busy, done) = (root.join("dir/below"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let filler = scope.spawn(|| {
                let mut made = 0;
                while made < 2000 && !done.load(Ordering::Relaxed) {
                    // It fails from the moment the directory is gone.
                    let _ = fs::create_dir(busy.join(format!("d{made}")));
                    let _ = symlink("/", busy.join(format!("l{made}")));
                    made += 1;
                }
            });
            while let Err(error) = tree.remove(Path::new("/dir")) {
                assert_eq!(error.code(), ErrorCode::InvalidState, "{}", error.chain());
            }
            done.store(true, Ordering::Relaxed);
            filler.join().unwrap();
        });
        assert!(!root.join("dir").exists());
    }
}
