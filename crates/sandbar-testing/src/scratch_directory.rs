//! A directory for a host that runs in the test's own process.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::mount::{UnmountFlags, unmount};

use crate::tree::temporary_directory;

/// The test's directory. Removed only when nothing is mounted below it any more: a removal that
/// walks into a mount would empty what is mounted there.
#[derive(Debug)]
pub struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    pub fn new() -> Self {
        Self(temporary_directory())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for ScratchDirectory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        let below = format!(" {}/", self.0.display());
        let mounted: Vec<&str> = mounts
            .lines()
            .filter(|line| line.contains(&below))
            .filter_map(|line| line.split(' ').nth(4))
            .collect();
        for mount_point in mounted.into_iter().rev() {
            let _ = unmount(mount_point, UnmountFlags::DETACH);
        }
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo");
        if mounts.is_ok_and(|mounts| !mounts.contains(&below)) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
