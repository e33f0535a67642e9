//! Renames in the tree, also of directories that overlayfs cannot rename.

use std::{
    ffi::{CString, OsStr},
    os::fd::AsFd,
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, mkdirat, renameat, statat},
    io::Errno,
};
use sandbar_core::{Error, MakeDirOptions, Result, SessionId, shown_path};

use super::{
    named::{Named, c_string, split},
    tree::{SessionTree, failure},
};
use crate::{
    copy::{CopyOptions, Fidelity, OverlayInternals, copy_opened},
    descent::open_directory,
    remove::remove_at,
};

impl SessionTree {
    /// Renames `from` to `to` like `rename(2)`: replaces a file, or an empty directory by a
    /// directory. Symbolic links are renamed, not followed. `options` apply to the parent
    /// directories of `to`.
    pub fn rename(&self, from: &Path, to: &Path, options: MakeDirOptions) -> Result<()> {
        let source = self.named(from)?;
        // Parent directories of `to` are not created if `from` does not exist.
        statat(&source.directory, &source.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failure(from, errno))?;
        let (above, name) = split(to).map_err(|error| error.with_field("new_path"))?;
        let directory = self
            .directory_for(above, options)
            .map_err(|error| error.with_field("new_path"))?;
        let target = Named { directory, name };
        let _acting = self.act()?;
        match renameat(
            &source.directory,
            &source.name,
            &target.directory,
            &target.name,
        ) {
            Ok(()) => Ok(()),
            // A directory of the base, which overlayfs cannot rename.
            Err(Errno::XDEV) => Self::move_by_copy(&source, from, &target, to),
            Err(errno) => Err(not_moved(from, to, errno)),
        }
    }

    /// Copies a directory under a temporary name, renames the complete copy to its target, and
    /// removes the source.
    fn move_by_copy(source: &Named, from: &Path, target: &Named, to: &Path) -> Result<()> {
        let opened =
            open_directory(&source.directory, &source.name).map_err(|errno| match errno {
                Errno::NOTDIR | Errno::LOOP => not_moved(from, to, Errno::XDEV),
                errno => failure(from, errno),
            })?;
        let copy = Copy {
            directory: target.directory.as_fd(),
            name: temporary()?,
        };
        let complain = |errno| failure(to, errno);
        mkdirat(copy.directory, &copy.name, Mode::RWXU).map_err(complain)?;
        let made = open_directory(copy.directory, &copy.name).map_err(complain)?;
        let options = CopyOptions {
            fidelity: Fidelity::BestEffort,
            overlay_internals: OverlayInternals::Drop,
            progress: &|_, _| {},
            check: &|| Ok(()),
        };
        copy_opened(opened, made, from, &options)?;
        renameat(copy.directory, &copy.name, &target.directory, &target.name)
            .map_err(|errno| not_moved(from, to, errno))?;
        remove_at(&source.directory, &source.name).map_err(|errno| failure(from, errno))
    }
}

/// Temporary copy, removed on drop unless it was renamed to its target.
struct Copy<'a> {
    directory: std::os::fd::BorrowedFd<'a>,
    name: CString,
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        // A no-op after the rename.
        if let Err(errno) = remove_at(self.directory, &self.name) {
            tracing::warn!(%errno, "could not remove an incomplete copy");
        }
    }
}

fn temporary() -> Result<CString> {
    c_string(OsStr::new(&format!(".sandbar-{}", SessionId::random())))
}

fn not_moved(from: &Path, to: &Path, errno: Errno) -> Error {
    let (source, shown) = (shown_path(from), shown_path(to));
    match errno {
        Errno::NOTEMPTY | Errno::EXIST => Error::invalid(
            "new_path",
            format!("`{shown}` is a directory that is not empty"),
        )
        .with_hint("move it to a new name, or remove the directory"),
        Errno::ISDIR => Error::invalid(
            "new_path",
            format!("`{shown}` is a directory, and `{source}` is not"),
        )
        .with_hint("name a file in it"),
        Errno::NOTDIR => Error::invalid(
            "new_path",
            format!("`{shown}` is not a directory, and `{source}` is"),
        )
        .with_hint("use another name"),
        Errno::INVAL => Error::invalid("new_path", format!("`{shown}` is inside `{source}`"))
            .with_hint("choose a target outside the source"),
        Errno::XDEV | Errno::BUSY => Error::invalid(
            "path",
            format!(
                "`{source}` and `{shown}` are on different file systems, or one is a mount point"
            ),
        )
        .with_hint("copy it with a command in the session"),
        Errno::NOENT => failure(from, errno),
        errno => failure(to, errno).with_field("new_path"),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::PathBuf};

    use sandbar_core::ErrorCode;

    use super::*;

    const ALL: MakeDirOptions = MakeDirOptions {
        create_dirs: true,
        owner: None,
    };

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
    fn rename_and_remove_stay_inside_the_tree() {
        let (scratch, root, tree) = scene();
        symlink("../outside", root.join("out")).unwrap();
        symlink(scratch.path().join("outside"), root.join("absolute")).unwrap();
        for path in [
            "/out/kept",
            "/absolute/kept",
            "/../outside/kept",
            "/dir/../../outside/kept",
        ] {
            tree.remove(Path::new(path)).unwrap();
            let moved = tree
                .rename(Path::new(path), Path::new("/stolen"), ALL)
                .unwrap_err();
            assert_eq!(moved.code(), ErrorCode::FileNotFound, "{path}");
        }
        tree.rename(Path::new("/dir/file"), Path::new("/../outside/new"), ALL)
            .unwrap();
        assert!(
            root.join("outside/new").is_file(),
            "the root is its own parent"
        );
        for link in ["/out", "/absolute"] {
            tree.remove(Path::new(link)).unwrap();
            assert!(!root.join(&link[1..]).is_symlink());
        }
        assert_eq!(
            fs::read_to_string(scratch.path().join("outside/kept")).unwrap(),
            "kept"
        );
        assert_eq!(
            fs::read_dir(scratch.path().join("outside"))
                .unwrap()
                .count(),
            1
        );
    }

    #[test]
    fn rename_errors_name_the_field_and_a_hint() {
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
            let error = tree
                .rename(Path::new(from), Path::new(to), ALL)
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some(field)),
                "{from} {to}"
            );
            assert!(error.hint().is_some(), "{from} {to}");
        }
        let missing = tree
            .rename(Path::new("/none"), Path::new("/made/for/it"), ALL)
            .unwrap_err();
        assert_eq!(missing.code(), ErrorCode::FileNotFound);
        assert!(!root.join("made").exists());
    }
}
