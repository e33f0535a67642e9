//! Ways into the tree.

use std::{
    borrow::Cow,
    ffi::OsStr,
    fs::File,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{
        CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, fchmod, fchown, fstat, mkdirat, openat, readlinkat,
    },
    io::Errno,
    path::Arg,
    process::geteuid,
};
use sandbar_core::{Error, ErrorCode, MakeDirOptions, OwnerMap, Result};

use crate::{ActingOwner, open_confined};

/// Where relative paths start.
pub const WORKING_DIRECTORY: &str = "/workspace";

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// The mounted tree of a session.
#[derive(Clone, Debug)]
pub struct SessionTree {
    pub(super) root: Arc<OwnedFd>,
    owners: Option<Arc<OwnerMap>>,
    /// Where `/workspace` really lies below the root, when it is not there.
    workspace: Option<Arc<Path>>,
}

/// A place for a file: its directory, its name there, and what is there now.
#[derive(Debug)]
pub struct Place {
    pub directory: OwnedFd,
    pub name: PathBuf,
    pub existing: Option<Stat>,
}

impl SessionTree {
    /// The tree at `root`; `owners` are those it was mounted with.
    pub fn open(root: &Path, owners: Option<Arc<OwnerMap>>) -> Result<Self> {
        openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map(|root| Self { root: Arc::new(root), owners, workspace: None })
            .map_err(|errno| Error::io(format!("open the tree at `{}`", root.display()), errno.into()))
    }

    /// The same tree with `directory` of it as its `/workspace`.
    #[must_use]
    pub fn with_workspace(self, directory: &Path) -> Self {
        Self { workspace: Some(directory.into()), ..self }
    }

    /// Opens what `path` names; `flags` decide whether a link at its end is followed.
    pub fn reach(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let real = match (&self.workspace, path.strip_prefix(WORKING_DIRECTORY)) {
            (Some(workspace), Ok(below)) => Cow::Owned(workspace.join(below)),
            _ => Cow::Borrowed(path),
        };
        let below = real.strip_prefix("/").unwrap_or(&real);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        open_confined(&*self.root, below, flags, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
            .map_err(|errno| failure(path, errno))
    }

    pub fn directory(&self, path: &Path) -> Result<OwnedFd> {
        self.reach(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a directory, making it and those above it when they are missing. What is made belongs to `owner`, or to root.
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
                // Left to the kernel, which knows where links have led.
                Component::ParentDir => so_far.push(".."),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.directory(path)
    }

    /// Makes one directory; the thread acts as `owner` where the mount translates owners.
    pub(super) fn make_one(
        &self,
        parent: &OwnedFd,
        name: impl Arg + Copy,
        owner: Option<(u32, u32)>,
    ) -> rustix::io::Result<()> {
        const MODE: Mode = Mode::from_raw_mode(0o755);
        let (None, Some((user, group))) = (&self.owners, owner) else { return mkdirat(parent, name, MODE) };
        // FUSE asks who somebody is and not what he may do, so nobody can act as another there. It is given away, should it
        // be what was made: nobody else makes directories that are closed to everybody.
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

    /// Opens a directory something is to be put into.
    pub(super) fn directory_for(&self, path: &Path, options: MakeDirOptions) -> Result<OwnedFd> {
        if options.create_dirs { self.make_directories(path, options.owner) } else { self.directory(path) }
    }

    /// While it lives, what the calling thread makes belongs to the root user of the sandbox.
    pub(super) fn act(&self) -> Result<Option<ActingOwner>> {
        self.act_as(None)
    }

    /// While it lives, what the calling thread makes belongs to this user and group of the sandbox, or to its root, where the
    /// mount translates owners. It does so from the first moment: what is given away later could be something else by then.
    pub(super) fn act_as(&self, owner: Option<(u32, u32)>) -> Result<Option<ActingOwner>> {
        let Some(owners) = self.owners.as_deref() else { return Ok(None) };
        let (user, group) = owner.unwrap_or_default();
        ActingOwner::on_host(owners.on_host(user), owners.on_host(group)).map(Some)
    }

    /// Who somebody inside is in the mounted tree. One the sandbox has no room for is nobody there.
    pub(super) fn shown(&self, inside: u32) -> u32 {
        self.owners.as_ref().map_or(inside, |owners| owners.on_host(inside))
    }

    /// Who an owner of the mounted tree is inside the sandbox.
    pub(super) fn inside(&self, owner: u32) -> u32 {
        self.owners.as_ref().map_or(owner, |owners| owners.inside(owner))
    }

    /// Who can own a file in the mounted tree as this one does: itself, or nobody where it has no counterpart inside.
    pub(super) fn kept(&self, owner: u32) -> u32 {
        self.owners.as_ref().map_or(owner, |owners| owners.on_host(owners.inside(owner)))
    }

    /// Where a file named `path` would be written: the end of the links at its end, as a shell's `>` has it.
    pub fn place(&self, path: &Path, options: MakeDirOptions) -> Result<Place> {
        let text = path.as_os_str().as_bytes();
        // `file_name` overlooks these ends.
        if text.ends_with(b"/") || text.ends_with(b"/.") {
            return Err(is_a_directory(path));
        }
        let mut current = path.to_owned();
        for _ in 0..MOST_LINKS {
            let (Some(parent), Some(name)) = (current.parent(), current.file_name()) else {
                return Err(is_a_directory(path));
            };
            let directory = self.directory_for(parent, options)?;
            let existing =
                match openat(&directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
                    Err(Errno::NOENT) => None,
                    Err(errno) => return Err(failure(path, errno)),
                    Ok(found) => Some(fstat(found).map_err(|errno| failure(path, errno))?),
                };
            match existing.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(FileType::Symlink) => {
                    match readlinkat(&directory, name, Vec::new()) {
                        Ok(target) => current = parent.join(OsStr::from_bytes(target.as_bytes())),
                        // It was a link a moment ago: looked at again.
                        Err(Errno::NOENT | Errno::INVAL) => {}
                        Err(errno) => return Err(failure(path, errno)),
                    }
                }
                Some(FileType::Directory) => return Err(is_a_directory(path)),
                Some(FileType::RegularFile) | None => {
                    return Ok(Place { directory, name: PathBuf::from(name), existing });
                }
                Some(_) => return Err(not_regular(path, "write to it from a command in the session")),
            }
        }
        Err(failure(path, Errno::LOOP))
    }
}

/// Opens the regular file `found` refers to, for reading. It was looked at before it is opened: opening a device or a
/// pipe can have effects. `None`: it is something else. It never waits: a file that a process holds a lease on is
/// refused with `EAGAIN`.
pub fn open_regular(found: &OwnedFd) -> rustix::io::Result<Option<(File, Stat)>> {
    let stat = fstat(found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?;
    Ok(Some((file.into(), stat)))
}

/// The absolute path a caller means.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::invalid("path", "the path is empty").with_hint("give a path inside the session"));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::invalid("path", "the path contains NUL").with_hint("no file name can hold one"));
    }
    Ok(Path::new(WORKING_DIRECTORY).join(path))
}

pub(super) fn is_a_directory(path: &Path) -> Error {
    Error::invalid("path", format!("`{}` is a directory", path.display())).with_hint("name a file in it")
}

pub(super) fn not_regular(path: &Path, hint: &str) -> Error {
    Error::invalid("path", format!("`{}` is not a regular file", path.display())).with_hint(hint)
}

/// What the kernel's refusal means to a caller.
pub fn failure(path: &Path, errno: Errno) -> Error {
    let shown = path.display();
    match errno {
        Errno::NOENT | Errno::NOTDIR => {
            Error::new(ErrorCode::FileNotFound, format!("`{shown}` does not exist in the session"))
                .with_field("path")
                .with_hint("look at what is there by listing the directory above it")
        }
        Errno::LOOP => {
            Error::invalid("path", format!("`{shown}` leads through too many links, or through one of the kernel's"))
                .with_hint("name the file itself")
        }
        Errno::NAMETOOLONG => Error::invalid("path", format!("`{shown}` is too long")).with_hint("use a shorter path"),
        Errno::ISDIR => is_a_directory(path),
        Errno::AGAIN => {
            Error::new(ErrorCode::Unavailable, format!("`{shown}` is leased by a process, which has to let go of it"))
                .with_field("path")
                .with_hint("end the process that holds a lease on it, or try again")
        }
        errno => Error::io(format!("reach `{shown}` in the session"), errno.into()).with_field("path"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbar_core::WriteOptions;

    use super::*;

    #[test]
    fn leased_file_is_refused_without_waiting() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("leased"), "x").unwrap();
        let held = File::options().read(true).write(true).open(scratch.path().join("leased")).unwrap();
        let tree = SessionTree::open(scratch.path(), None).unwrap();
        sandbar_testing::take_lease(&held);
        let refused = tree.open_file(Path::new("/leased")).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Unavailable, "{}", refused.chain());
        assert_eq!(tree.details(Path::new("/leased")).unwrap().stat.size.get(), 1);
        drop(held);
        tree.open_file(Path::new("/leased")).unwrap();
    }

    #[test]
    fn a_workspace_that_lies_elsewhere_is_reached_by_its_name_and_links_lead_where_they_really_do() {
        let scratch = tempfile::tempdir().unwrap();
        let project = scratch.path().join("workspace/me/project");
        fs::create_dir_all(&project).unwrap();
        fs::write(scratch.path().join("workspace/me/beside"), "beside").unwrap();
        std::os::unix::fs::symlink("../beside", project.join("link")).unwrap();
        let tree = SessionTree::open(scratch.path(), None).unwrap().with_workspace(Path::new("/workspace/me/project"));
        tree.make_directories(Path::new("/workspace/a/b"), None).unwrap();
        assert!(project.join("a/b").is_dir());
        let options = WriteOptions { create_dirs: true, ..WriteOptions::default() };
        tree.draft(Path::new("/workspace/a/c/file"), options).unwrap().commit().unwrap();
        assert!(project.join("a/c/file").is_file());
        let (_, stat) = tree.open_file(Path::new("/workspace/link")).unwrap();
        assert_eq!((stat.path.as_path(), stat.size.get()), (Path::new("/workspace/link"), 6));
        tree.stat(Path::new("/workspace/../beside")).unwrap();
        let listed: Vec<_> = tree.list(Path::new("/workspace"), 9, 9).unwrap().entries;
        let paths: Vec<_> = listed.iter().map(|entry| entry.path.to_str().unwrap()).collect();
        assert_eq!(
            paths,
            ["/workspace/a", "/workspace/a/b", "/workspace/a/c", "/workspace/a/c/file", "/workspace/link"]
        );
    }
}
