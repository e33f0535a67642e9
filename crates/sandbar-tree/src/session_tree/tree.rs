//! Opening paths in the tree, and the errors of doing so.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fs::File,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{
        CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, fchmod, fchown, fstat, mkdirat,
        openat, readlinkat,
    },
    io::Errno,
    path::Arg,
    process::geteuid,
};
use sandbar_core::{Error, ErrorCode, MakeDirOptions, OwnerMap, Result, shown_path};

use crate::{ActingOwner, open_confined};

/// Directory that relative paths start from.
pub const WORKING_DIRECTORY: &str = "/workspace";

/// Limit on symbolic links to follow, the same as the kernel's.
const MAX_SYMLINKS: usize = 40;

/// Mounted tree of a session.
#[derive(Clone, Debug)]
pub struct SessionTree {
    pub(super) root: Arc<OwnedFd>,
    owners: Option<Arc<OwnerMap>>,
    /// Directory below the root that `/workspace` stands for, if it is another one.
    workspace: Option<Arc<Path>>,
}

/// Location to write a file to: its open directory, its name there, and the existing file.
#[derive(Debug)]
pub struct WriteTarget {
    pub directory: OwnedFd,
    pub name: PathBuf,
    pub existing: Option<Stat>,
}

impl SessionTree {
    /// Opens the tree at `root`, mounted with the map `owners`.
    pub fn open(root: &Path, owners: Option<Arc<OwnerMap>>) -> Result<Self> {
        openat(
            CWD,
            root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map(|root| Self {
            root: Arc::new(root),
            owners,
            workspace: None,
        })
        .map_err(|errno| {
            Error::io(
                format!("open the tree at `{}`", root.display()),
                errno.into(),
            )
        })
    }

    /// Takes the open root of a tree that was mounted with the map `owners`.
    pub fn of_root(root: OwnedFd, owners: Option<Arc<OwnerMap>>) -> Self {
        Self {
            root: Arc::new(root),
            owners,
            workspace: None,
        }
    }

    /// Returns the open root of the tree.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns the map the tree was mounted with.
    pub fn owners(&self) -> Option<&Arc<OwnerMap>> {
        self.owners.as_ref()
    }

    /// Maps `/workspace` to `directory` of the tree.
    #[must_use]
    pub fn with_workspace(self, directory: &Path) -> Self {
        Self {
            workspace: Some(directory.into()),
            ..self
        }
    }

    /// Opens `path`; `flags` decide whether a symbolic link at its end is followed.
    pub fn open_path(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let real = match (&self.workspace, path.strip_prefix(WORKING_DIRECTORY)) {
            (Some(workspace), Ok(below)) => Cow::Owned(workspace.join(below)),
            _ => Cow::Borrowed(path),
        };
        let below = real.strip_prefix("/").unwrap_or(&real);
        let below = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        open_confined(
            &*self.root,
            below,
            flags,
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )
        .map_err(|errno| failure(path, errno))
    }

    pub fn directory(&self, path: &Path) -> Result<OwnedFd> {
        self.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a directory, creating it and its parents where missing. New directories belong to
    /// `owner`, or to root.
    pub fn make_directories(&self, path: &Path, owner: Option<(u32, u32)>) -> Result<OwnedFd> {
        let _acting = self.act_as(owner)?;
        let mut so_far = PathBuf::from("/");
        let mut missing = path;
        if let (Some(_), Ok(below)) = (&self.workspace, path.strip_prefix(WORKING_DIRECTORY)) {
            so_far.push(WORKING_DIRECTORY);
            missing = below;
        }
        for component in missing.components() {
            match component {
                Component::Normal(name) => {
                    let parent = self.directory(&so_far)?;
                    so_far.push(name);
                    match self.make_one(&parent, name, owner) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(failure(&so_far, errno)),
                    }
                }
                // Resolved by the kernel, after symbolic links.
                Component::ParentDir => so_far.push(".."),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.directory(path)
    }

    /// Creates one directory. On an ID-mapped mount, the caller has set the thread's fsuid to
    /// `owner`.
    pub(super) fn make_one(
        &self,
        parent: &OwnedFd,
        name: impl Arg + Copy,
        owner: Option<(u32, u32)>,
    ) -> rustix::io::Result<()> {
        const MODE: Mode = Mode::from_raw_mode(0o755);
        let (None, Some((user, group))) = (&self.owners, owner) else {
            return mkdirat(parent, name, MODE);
        };
        // Not ID-mapped, as on FUSE, which checks uids and ignores capabilities: the directory is
        // created as root and then given to `owner`. A process of the session may swap it in
        // between. Only a directory with mode 0 that root owns is the one created here.
        mkdirat(parent, name, Mode::empty())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(parent, name, flags, Mode::empty())?;
        let stat = fstat(&made)?;
        if Mode::from_raw_mode(stat.st_mode).is_empty() && stat.st_uid == geteuid().as_raw() {
            fchown(&made, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
            fchmod(&made, MODE)?;
        }
        Ok(())
    }

    /// Opens the directory to create an entry in.
    pub(super) fn directory_for(&self, path: &Path, options: MakeDirOptions) -> Result<OwnedFd> {
        if options.create_dirs {
            self.make_directories(path, options.owner)
        } else {
            self.directory(path)
        }
    }

    /// Returns a guard under which new files belong to the root user of the sandbox.
    pub(super) fn act(&self) -> Result<Option<ActingOwner>> {
        self.act_as(None)
    }

    /// Returns a guard under which new files belong to this user and group of the sandbox, or to
    /// its root; `None` where the mount does not translate owners. Files have the right owner when
    /// they are created: a later `chown` could hit a file that was swapped in.
    pub(super) fn act_as(&self, owner: Option<(u32, u32)>) -> Result<Option<ActingOwner>> {
        let Some(owners) = self.owners.as_deref() else {
            return Ok(None);
        };
        let (user, group) = owner.unwrap_or_default();
        ActingOwner::on_host(owners.on_host(user), owners.on_host(group)).map(Some)
    }

    /// Returns the uid or gid in the mounted tree for one inside the sandbox. Ids outside the map
    /// become the sandbox's `nobody`.
    pub(super) fn mounted_owner(&self, inside: u32) -> u32 {
        self.owners
            .as_ref()
            .map_or(inside, |owners| owners.on_host(inside))
    }

    /// Returns the uid or gid inside the sandbox for one in the mounted tree.
    pub(super) fn owner_inside(&self, owner: u32) -> u32 {
        self.owners
            .as_ref()
            .map_or(owner, |owners| owners.inside(owner))
    }

    /// Returns the owner for a file that replaces one of `owner`: the same, or the sandbox's
    /// `nobody` if `owner` is outside the map.
    pub(super) fn preserved_owner(&self, owner: u32) -> u32 {
        self.owners
            .as_ref()
            .map_or(owner, |owners| owners.on_host(owners.inside(owner)))
    }

    /// Returns where a file named `path` is written: symbolic links at its end are followed, as by
    /// a shell's `>`.
    pub fn write_target(&self, path: &Path, options: MakeDirOptions) -> Result<WriteTarget> {
        let text = path.as_os_str().as_bytes();
        // `file_name` ignores these suffixes.
        if text.ends_with(b"/") || text.ends_with(b"/.") {
            return Err(is_a_directory(path));
        }
        let mut current = path.to_owned();
        for _ in 0..MAX_SYMLINKS {
            let (Some(parent), Some(name)) = (current.parent(), current.file_name()) else {
                return Err(is_a_directory(path));
            };
            let directory = self.directory_for(parent, options)?;
            let existing = match openat(
                &directory,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            ) {
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(failure(path, errno)),
                Ok(found) => Some(fstat(found).map_err(|errno| failure(path, errno))?),
            };
            match existing.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(FileType::Symlink) => {
                    match readlinkat(&directory, name, Vec::new()) {
                        Ok(target) => current = parent.join(OsStr::from_bytes(target.as_bytes())),
                        // No longer a link: try again.
                        Err(Errno::NOENT | Errno::INVAL) => {}
                        Err(errno) => return Err(failure(path, errno)),
                    }
                }
                Some(FileType::Directory) => return Err(is_a_directory(path)),
                Some(FileType::RegularFile) | None => {
                    return Ok(WriteTarget {
                        directory,
                        name: PathBuf::from(name),
                        existing,
                    });
                }
                Some(_) => {
                    return Err(not_regular(
                        path,
                        "write to it from a command in the session",
                    ));
                }
            }
        }
        Err(failure(path, Errno::LOOP))
    }
}

/// Opens the regular file of the `O_PATH` descriptor `found` for reading; `None` for another type.
/// The type is checked before the open, because opening a device or a pipe can have side effects.
/// Never blocks: a file that a process holds a lease on is `EAGAIN`.
pub fn open_regular(found: &OwnedFd) -> rustix::io::Result<Option<(File, Stat)>> {
    let stat = fstat(found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(
        CWD,
        format!("/proc/self/fd/{}", found.as_raw_fd()),
        flags,
        Mode::empty(),
    )?;
    Ok(Some((file.into(), stat)))
}

/// Returns the absolute path, relative to the working directory.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(
            Error::invalid("path", "path is empty").with_hint("give a path inside the session")
        );
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(
            Error::invalid("path", "path contains NUL").with_hint("file names cannot contain NUL")
        );
    }
    Ok(Path::new(WORKING_DIRECTORY).join(path))
}

pub(super) fn is_a_directory(path: &Path) -> Error {
    Error::invalid("path", format!("`{}` is a directory", shown_path(path)))
        .with_hint("name a file in it")
}

pub(super) fn not_regular(path: &Path, hint: &str) -> Error {
    Error::invalid(
        "path",
        format!("`{}` is not a regular file", shown_path(path)),
    )
    .with_hint(hint)
}

/// Converts the error of a system call on `path`.
pub fn failure(path: &Path, errno: Errno) -> Error {
    let shown = shown_path(path);
    match errno {
        Errno::NOENT | Errno::NOTDIR => Error::new(
            ErrorCode::FileNotFound,
            format!("`{shown}` does not exist in the session"),
        )
        .with_field("path")
        .with_hint("list its parent directory to see what exists"),
        Errno::LOOP => Error::invalid(
            "path",
            format!(
                "`{shown}` passes through too many symbolic links, or through a link in `/proc`"
            ),
        )
        .with_hint("name the file itself"),
        Errno::NAMETOOLONG => {
            Error::invalid("path", format!("`{shown}` is too long")).with_hint("use a shorter path")
        }
        Errno::ISDIR => is_a_directory(path),
        Errno::AGAIN => Error::new(
            ErrorCode::Unavailable,
            format!("`{shown}` is locked by a file lease of a process"),
        )
        .with_field("path")
        .with_hint("try again, or end the process that holds the lease"),
        errno => {
            Error::io(format!("access `{shown}` in the session"), errno.into()).with_field("path")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbar_core::WriteOptions;

    use super::*;

    #[test]
    fn open_file_with_a_lease_fails_without_waiting() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("leased"), "x").unwrap();
        let held = File::options()
            .read(true)
            .write(true)
            .open(scratch.path().join("leased"))
            .unwrap();
        let tree = SessionTree::open(scratch.path(), None).unwrap();
        sandbar_testing::take_lease(&held);
        let refused = tree.open_file(Path::new("/leased")).unwrap_err();
        assert_eq!(
            refused.code(),
            ErrorCode::Unavailable,
            "{}",
            refused.chain()
        );
        assert_eq!(
            tree.details(Path::new("/leased")).unwrap().stat.size.get(),
            1
        );
        drop(held);
        tree.open_file(Path::new("/leased")).unwrap();
    }

    #[test]
    fn mapped_workspace_resolves_paths_and_links() {
        let scratch = tempfile::tempdir().unwrap();
        let project = scratch.path().join("workspace/me/project");
        fs::create_dir_all(&project).unwrap();
        fs::write(scratch.path().join("workspace/me/beside"), "beside").unwrap();
        std::os::unix::fs::symlink("../beside", project.join("link")).unwrap();
        let tree = SessionTree::open(scratch.path(), None)
            .unwrap()
            .with_workspace(Path::new("/workspace/me/project"));
        tree.make_directories(Path::new("/workspace/a/b"), None)
            .unwrap();
        assert!(project.join("a/b").is_dir());
        let options = WriteOptions {
            create_dirs: true,
            ..WriteOptions::default()
        };
        tree.draft(Path::new("/workspace/a/c/file"), options)
            .unwrap()
            .commit()
            .unwrap();
        assert!(project.join("a/c/file").is_file());
        let (_, stat) = tree.open_file(Path::new("/workspace/link")).unwrap();
        assert_eq!(
            (stat.path.as_path(), stat.size.get()),
            (Path::new("/workspace/link"), 6)
        );
        tree.stat(Path::new("/workspace/../beside")).unwrap();
        let listed: Vec<_> = tree.list(Path::new("/workspace"), 9, 9).unwrap().entries;
        let paths: Vec<_> = listed
            .iter()
            .map(|entry| entry.path.to_str().unwrap())
            .collect();
        assert_eq!(
            paths,
            [
                "/workspace/a",
                "/workspace/a/b",
                "/workspace/a/c",
                "/workspace/a/c/file",
                "/workspace/link"
            ]
        );
    }
}
