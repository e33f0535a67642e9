//! Process trees as cgroups: what is in one can be ended as a whole, whatever it did with sessions and parents.
//!
//! Only cgroup v2 is used, and no controller: `/sys/fs/cgroup` on a unified machine, `/sys/fs/cgroup/unified` on a hybrid
//! one. Whether it can be used is found out by trying.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, openat},
};

use crate::spawn;

/// How long killed processes may take to be gone; only one stuck in the kernel takes that long.
const DEATH_LIMIT: Duration = Duration::from_secs(20);

/// The group all sessions of one host lie in.
#[derive(Debug)]
pub(crate) struct HostGroup {
    group: Group,
}

impl HostGroup {
    /// Ends what an earlier host of this name left, then makes the group anew. The error is the reason why cgroups cannot
    /// be used here.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        let parents = parents();
        for parent in &parents {
            let leftover = parent.join(name);
            if leftover.is_dir() {
                tracing::info!(cgroup = %leftover.display(), "ending what an earlier host left running");
                if let Err(error) = Group::at(leftover.clone()).and_then(|group| group.end()) {
                    tracing::warn!(cgroup = %leftover.display(), %error, "could not end everything an earlier host left");
                }
            }
        }
        let mut reason = "there is no cgroup v2 file system".to_owned();
        for parent in parents {
            match Self::try_at(&parent.join(name)) {
                Ok(group) => return Ok(Self { group }),
                Err(error) => reason = format!("`{}` is not usable: {error}", parent.display()),
            }
        }
        Err(reason)
    }

    fn try_at(directory: &Path) -> io::Result<Group> {
        let group = Group::create(directory.to_owned())?;
        let probe = group.child("probe").and_then(|probe| {
            let outcome = spawn::probe_cgroup(probe.as_fd());
            probe.end()?;
            outcome
        });
        match probe {
            Ok(()) => Ok(group),
            Err(error) => {
                let _ = fs::remove_dir(directory);
                Err(error)
            }
        }
    }

    pub(crate) fn session(&self, session: &str) -> io::Result<Group> {
        self.group.child(&format!("session-{session}"))
    }
}

impl Drop for HostGroup {
    fn drop(&mut self) {
        // It stays when sessions still lie in it; the next host of this name ends them.
        let _ = fs::remove_dir(&self.group.directory);
    }
}

/// Where a group of ours may lie: the top of the hierarchy, or below our own group where that was delegated to us.
fn parents() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut found = Vec::new();
    for mount in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new) {
        if mount.join("cgroup.controllers").exists() {
            found.push(mount.to_owned());
            if !own.is_empty() {
                found.push(mount.join(own));
            }
        }
    }
    found
}

/// One cgroup.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    handle: OwnedFd,
}

impl Group {
    fn create(directory: PathBuf) -> io::Result<Self> {
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::at(directory),
        }
    }

    fn at(directory: PathBuf) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(CWD, &directory, flags, Mode::empty())?;
        Ok(Self { directory, handle })
    }

    pub(crate) fn child(&self, name: &str) -> io::Result<Self> {
        Self::create(self.directory.join(name))
    }

    /// Ends every process in the group and below it. They may take a moment to be gone.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match fs::write(self.directory.join("cgroup.kill"), "1") {
            // Kernels before 5.14: one process at a time, until no new one appears.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.directory.exists() => {
                for directory in self.subtree() {
                    kill_listed(&directory.join("cgroup.procs"))?;
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.directory.join("cgroup.events")) {
            Ok(events) => Ok(events.lines().any(|line| line == "populated 1")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends everything in the group, waits until it is gone, and removes the group.
    pub(crate) fn end(&self) -> io::Result<()> {
        let deadline = Instant::now() + DEATH_LIMIT;
        while self.is_populated()? {
            self.kill()?;
            // Opened before the check, so that a change after it wakes the poll.
            let events = fs::File::open(self.directory.join("cgroup.events"))?;
            if !self.is_populated()? {
                break;
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "processes do not die"));
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&pause))?;
        }
        self.remove()
    }

    /// Removes an empty group with the empty groups below it; an error when something still runs in it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        if self.is_populated()? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        for directory in self.subtree().into_iter().rev() {
            match fs::remove_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// This directory and all below it, parents first.
    fn subtree(&self) -> Vec<PathBuf> {
        let mut found = vec![self.directory.clone()];
        let mut next = 0;
        while let Some(directory) = found.get(next).cloned() {
            next += 1;
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            found.extend(
                entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
            );
        }
        found
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn kill_listed(list: &Path) -> io::Result<()> {
    for line in fs::read_to_string(list)?.lines() {
        if let Some(pid) = line.parse().ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    Ok(())
}
