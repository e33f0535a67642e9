//! Cgroups that init keeps for commands inside gVisor, whose processes the host cannot see.

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

/// Private cgroup hierarchy of init: held by a descriptor and unmounted, so that commands cannot
/// reach it by path.
#[derive(Debug)]
pub(super) struct GuestGroups {
    directory: OwnedFd,
}

impl GuestGroups {
    /// Mounts the hierarchy at a directory, opens it and unmounts it again.
    pub(super) fn mount_at(mount_point: &str) -> io::Result<Self> {
        mount(
            "none",
            mount_point,
            "cgroup",
            MountFlags::empty(),
            Some(c"job"),
        )?;
        let directory = openat(
            CWD,
            mount_point,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        unmount(mount_point, UnmountFlags::DETACH)?;
        Ok(Self { directory })
    }

    /// Creates a group and opens its `cgroup.procs` for writing.
    pub(super) fn create(&self, number: u64) -> io::Result<OwnedFd> {
        mkdirat(&self.directory, name(number), Mode::from_raw_mode(0o755))?;
        let procs = format!("{number}/cgroup.procs");
        Ok(openat(
            &self.directory,
            procs,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// Kills all processes in a group. Repeats until there are no new ones, since a process may
    /// fork before it is killed. A killed process stays listed until it has exited.
    pub(super) fn kill(&self, number: u64) {
        let mut killed = HashSet::new();
        loop {
            let members = self.members(number).unwrap_or_default();
            let fresh: Vec<Pid> = members
                .into_iter()
                .filter(|pid| killed.insert(*pid))
                .collect();
            if fresh.is_empty() {
                return;
            }
            for pid in fresh {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Removes a group. Returns `false` if it still has processes.
    pub(super) fn remove(&self, number: u64) -> bool {
        unlinkat(
            self.directory.as_fd(),
            name(number),
            rustix::fs::AtFlags::REMOVEDIR,
        )
        .is_ok()
    }

    fn members(&self, number: u64) -> io::Result<Vec<Pid>> {
        let procs = format!("{number}/cgroup.procs");
        let list = openat(
            &self.directory,
            procs,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let list = io::read_to_string(std::fs::File::from(list))?;
        Ok(list
            .lines()
            .filter_map(|line| line.trim().parse().ok().and_then(Pid::from_raw))
            .collect())
    }
}

fn name(number: u64) -> CString {
    CString::new(number.to_string()).unwrap_or_default()
}
