//! A fresh directory for the files an attempt creates.

use std::{
    cell::RefCell,
    env, fs, io,
    path::{Path, PathBuf},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::call::{Argument, call};

/// Scratch directory. Drop removes the names created through it one by one, never recursively: a
/// recursive delete would follow a mount and delete files of the mounted tree.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: PathBuf,
    made: RefCell<Vec<PathBuf>>,
}

impl Scratch {
    /// Creates it below `/tmp`, or else in the working directory.
    pub(crate) fn new() -> io::Result<Self> {
        Self::below(Path::new("/tmp")).or_else(|_| Self::here())
    }

    /// Creates it in the working directory, which in a box is on the root file system; `/tmp` may
    /// be another mount.
    pub(crate) fn here() -> io::Result<Self> {
        Self::below(&env::current_dir()?)
    }

    pub(crate) fn below(place: &Path) -> io::Result<Self> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos());
        let directory = place.join(format!("intruder-{}-{now}", process::id()));
        fs::create_dir(&directory)?;
        Ok(Self {
            directory,
            made: RefCell::default(),
        })
    }

    /// Returns a path to create a file of any type at; drop removes it.
    pub(crate) fn name(&self, name: &str) -> PathBuf {
        let path = self.directory.join(name);
        self.made.borrow_mut().push(path.clone());
        path
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.name(name);
        fs::write(&path, content)?;
        Ok(path)
    }

    pub(crate) fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.name(name);
        fs::create_dir(&path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in self.made.borrow().iter().rev() {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Leaves the mount namespace where that is permitted, so that an attempt run outside of a box
/// leaves no mount behind. Inside, it is refused, and the attempt is made on the mounts of the box.
pub(crate) fn leave_mount_namespace() -> io::Result<()> {
    if call!(SYS_unshare, libc::CLONE_NEWNS).is_err() {
        return Ok(());
    }
    let private = libc::MS_REC | libc::MS_PRIVATE;
    call!(
        SYS_mount,
        c"none",
        c"/",
        Argument::NULL,
        private,
        Argument::NULL
    )
    .map(drop)
}
