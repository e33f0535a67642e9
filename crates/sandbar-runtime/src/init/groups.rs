//! Process groups init keeps by itself, where the kernel is another one and the host cannot: gVisor's cgroup file system.

use std::{
    collections::HashSet,
    ffi::CString,
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat, unlinkat},
    mount::{MountFlags, UnmountFlags, mount, unmount},
    process::{Pid, Signal, kill_process},
};

/// A cgroup hierarchy nobody else sees: mounted, held by a descriptor, and taken out of sight.
#[derive(Debug)]
pub(super) struct OwnGroups {
    directory: OwnedFd,
}

impl OwnGroups {
    /// `place` is an empty directory.
    pub(super) fn mount_at(place: &str) -> io::Result<Self> {
        mount("none", place, "cgroup", MountFlags::empty(), Some(c"job"))?;
        let directory = openat(CWD, place, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        unmount(place, UnmountFlags::DETACH)?;
        Ok(Self { directory })
    }

    /// Makes a group and opens the file a process enters it through.
    pub(super) fn make(&self, number: u64) -> io::Result<OwnedFd> {
        mkdirat(&self.directory, name(number), Mode::from_raw_mode(0o755))?;
        let procs = format!("{number}/cgroup.procs");
        Ok(openat(&self.directory, procs, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Ends everything in a group. A child forked while we look is found in the next round; who was killed once can fork
    /// no more, though it may stay in the list for a while.
    pub(super) fn kill(&self, number: u64) {
        let mut killed = HashSet::new();
        loop {
            let members = self.members(number).unwrap_or_default();
            let fresh: Vec<Pid> = members.into_iter().filter(|pid| killed.insert(*pid)).collect();
            if fresh.is_empty() {
                return;
            }
            for pid in fresh {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Removes a group nobody is in any more.
    pub(super) fn forget(&self, number: u64) -> bool {
        unlinkat(self.directory.as_fd(), name(number), rustix::fs::AtFlags::REMOVEDIR).is_ok()
    }

    fn members(&self, number: u64) -> io::Result<Vec<Pid>> {
        let procs = format!("{number}/cgroup.procs");
        let list = openat(&self.directory, procs, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let list = io::read_to_string(std::fs::File::from(list))?;
        Ok(list.lines().filter_map(|line| line.trim().parse().ok().and_then(Pid::from_raw)).collect())
    }
}

fn name(number: u64) -> CString {
    CString::new(number.to_string()).unwrap_or_default()
}
