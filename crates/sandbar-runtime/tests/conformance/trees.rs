//! Session roots made of this machine's programs.
//!
//! Nothing is deleted recursively, which would follow bind mounts into files of this machine. All
//! trees are in a tmpfs, which is detached; only its empty mount point is removed.

#![expect(unsafe_code, reason = "`unshare` affects the whole thread")]

use std::{
    fs,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{PermissionsExt, chown, symlink},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
        mount_bind, mount_change, mount_remount, move_mount, open_tree, unmount,
    },
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::OwnerMap;

/// The roots of one test, in a mount namespace of its own.
#[derive(Debug)]
pub(crate) struct Trees {
    path: PathBuf,
    planted: AtomicU32,
}

impl Trees {
    /// Creates the directory `name` for the duration of the test.
    pub(crate) fn new(name: &str) -> Self {
        // SAFETY: only this thread and those it starts leave the shared namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .unwrap();
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        let trees = Self {
            path,
            planted: AtomicU32::new(0),
        };
        mount(
            "tmpfs",
            &trees.path,
            "tmpfs",
            MountFlags::NOSUID,
            Some(c"mode=755"),
        )
        .unwrap();
        trees
    }

    /// Directory for files of tests that belong to no session.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a root; with an owner map, it is idmapped like the volume of a box.
    pub(crate) fn plant(&self, owners: Option<&OwnerMap>) -> Tree {
        let path = self.path.join(format!(
            "tree-{}",
            self.planted.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir(&path).unwrap();
        mount(
            "tmpfs",
            &path,
            "tmpfs",
            MountFlags::NOSUID,
            Some(c"mode=755"),
        )
        .unwrap();
        for (name, mode) in [
            ("workspace", 0o755),
            ("tmp", 0o1777),
            ("var", 0o755),
            ("usr", 0o755),
        ] {
            fs::create_dir(path.join(name)).unwrap();
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let programs = path.join("usr");
        mount_bind("/usr", &programs).unwrap();
        mount_remount(&programs, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        for name in ["bin", "sbin", "lib", "lib64"] {
            symlink(Path::new("usr").join(name), path.join(name)).unwrap();
        }
        let tree = Tree::at(path);
        if let Some(owners) = owners {
            tree.translate(owners);
        }
        tree
    }
}

impl Drop for Trees {
    fn drop(&mut self) {
        // With everything that is mounted below.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        // Not recursive: on a directory that is not empty it does nothing.
        let _ = fs::remove_dir(&self.path);
    }
}

/// A tmpfs with read-only bind mounts of this machine's programs.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    plain: OwnedFd,
}

impl Tree {
    /// Opens an existing tree.
    pub(crate) fn at(path: PathBuf) -> Self {
        let plain = openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        Self { path, plain }
    }

    /// Path to the tree with the owners it has on disk, for tests to write and inspect files.
    pub(crate) fn on_disk(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.plain.as_raw_fd()).into()
    }

    /// Changes the owner of everything outside the bind mounts to an ordinary user.
    pub(crate) fn give_to(&self, user: u32) {
        for name in ["", "workspace", "tmp", "var"] {
            chown(self.path.join(name), Some(user), Some(user)).unwrap();
        }
    }

    fn translate(&self, owners: &OwnerMap) {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(CWD, &self.path, flags).unwrap();
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: u64::try_from(owners.as_fd().as_raw_fd()).unwrap(),
        };
        // SAFETY: an empty path with the flag for it, and a structure of the size given.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
        move_mount(
            &tree,
            "",
            CWD,
            &self.path,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .unwrap();
    }
}
