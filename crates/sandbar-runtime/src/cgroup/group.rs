//! One cgroup directory, in a v1 or v2 hierarchy.

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{FileExt as _, chown},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, openat},
};

/// Limits how long killed processes may take to disappear, and running ones to freeze. Only a
/// process stuck in the kernel takes this long.
const STATE_CHANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Time for processes to exit by themselves before they are killed.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// First and longest interval between two reads of `cgroup.events`. It doubles in between.
const MIN_POLL_INTERVAL: Duration = Duration::from_micros(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    handle: OwnedFd,
    /// Set by `cgroup.kill`. Such a group must not be reused: kernels from 6.14 to at least 6.18
    /// keep a kill counter per group, and a process cloned into a group whose counter differs from
    /// that of its parent's group is killed at once.
    was_killed: AtomicBool,
}

impl Group {
    pub(super) fn create(directory: PathBuf) -> io::Result<Self> {
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::at(directory),
        }
    }

    pub(super) fn at(directory: PathBuf) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(CWD, &directory, flags, Mode::empty())?;
        Ok(Self {
            directory,
            handle,
            was_killed: AtomicBool::new(false),
        })
    }

    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        Self::create(self.directory.join(name))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn write(&self, file: &str, value: impl AsRef<[u8]>) -> io::Result<()> {
        let file = openat(
            &self.handle,
            file,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, value.as_ref())?;
        Ok(())
    }

    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        io::read_to_string(self.open_to_read(file)?)
    }

    pub(super) fn open_to_read(&self, file: &str) -> io::Result<fs::File> {
        let file = openat(
            &self.handle,
            file,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(file.into())
    }

    /// Reads a file that holds a single number.
    pub(super) fn number(&self, file: &str) -> Option<u64> {
        self.read(file).ok()?.trim().parse().ok()
    }

    /// Reads the value of `key` from a flat-keyed file.
    pub(super) fn keyed_number(&self, file: &str, key: &str) -> Option<u64> {
        keyed_number(&self.read(file).ok()?, key)
    }

    /// Opens `cgroup.procs` for writing. The kernel checks permission at open: a process that holds
    /// this descriptor may move itself into the group, whatever its credentials.
    pub(super) fn open_procs(&self) -> io::Result<OwnedFd> {
        Ok(openat(
            &self.handle,
            "cgroup.procs",
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// Gives `cgroup.procs` to `owner`, so that `owner` may clone processes into this group.
    pub(super) fn delegate(&self, owner: u32) -> io::Result<()> {
        chown(self.directory.join("cgroup.procs"), Some(owner), None)
    }

    /// Sends SIGKILL to every process in the group and below it, without waiting for their exit.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.was_killed.store(true, Ordering::SeqCst);
        match fs::write(self.directory.join("cgroup.kill"), "1") {
            // Kernels before 5.14 have no `cgroup.kill`. Callers repeat this until the group is
            // empty, which also catches processes forked meanwhile.
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

    fn has_state(&self, state: &str) -> io::Result<bool> {
        match fs::read_to_string(self.directory.join("cgroup.events")) {
            Ok(events) => Ok(events.lines().any(|line| line == state)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the group and all below it have no processes.
    pub(super) fn is_empty(&self) -> bool {
        self.read("cgroup.events")
            .is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
    }

    /// Repeats `act` until `cgroup.events` contains the line `state`, or the group was removed.
    fn wait_for(&self, state: &str, act: impl Fn(&Self) -> io::Result<()>) -> io::Result<()> {
        let deadline = Instant::now() + STATE_CHANGE_TIMEOUT;
        let events = match fs::File::open(self.directory.join("cgroup.events")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            events => events?,
        };
        // The kernel reports changes at most every ten milliseconds. Reading the file more often
        // at first detects the end of a short-lived box sooner.
        let mut interval = MIN_POLL_INTERVAL;
        loop {
            if shows(&events, state)? {
                return Ok(());
            }
            act(self)?;
            // `poll` waits for a change since this read. It returns at once for a descriptor that
            // was never read.
            if shows(&events, state)? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("cgroup did not reach state `{state}` in time"),
                ));
            }
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: interval.as_nanos().try_into().unwrap_or(i64::MAX),
            };
            poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&timeout))?;
            interval = (interval * 2).min(MAX_POLL_INTERVAL);
        }
    }

    /// Freezes all processes in the group and waits until they are frozen.
    pub(super) fn freeze(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "1")?;
        self.wait_for("frozen 1", |_| Ok(()))
    }

    pub(super) fn thaw(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "0")?;
        self.wait_for("frozen 0", |_| Ok(()))
    }

    /// Kills all processes in the group, waits until they are gone, and removes the group.
    pub(super) fn kill_and_remove(&self) -> io::Result<()> {
        self.wait_for("populated 0", Self::kill)?;
        self.remove()
    }

    /// Waits until the group has no processes. Kills those left after [`EXIT_GRACE_PERIOD`].
    pub(super) fn wait_until_empty(&self) -> io::Result<()> {
        let grace = Instant::now() + EXIT_GRACE_PERIOD;
        self.wait_for("populated 0", |group| {
            if group.was_killed() || Instant::now() >= grace {
                group.kill()
            } else {
                Ok(())
            }
        })
    }

    /// Returns whether the group was killed and must not be reused.
    pub(super) fn was_killed(&self) -> bool {
        self.was_killed.load(Ordering::SeqCst)
    }

    /// Removes the group and all below it. `ResourceBusy` while it has processes.
    pub(super) fn remove(&self) -> io::Result<()> {
        if self.has_state("populated 1")? {
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

    /// Returns this directory and all below it, parents first.
    fn subtree(&self) -> Vec<PathBuf> {
        let mut found = vec![self.directory.clone()];
        let mut next = 0;
        while let Some(directory) = found.get(next).cloned() {
            next += 1;
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            found.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
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

pub(super) fn keyed_number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// Returns whether `cgroup.events` contains the line `state`. Also `true` if the group was removed,
/// since there is nothing left to wait for.
fn shows(events: &fs::File, state: &str) -> io::Result<bool> {
    let mut buffer = [0; 256];
    match events.read_at(&mut buffer, 0) {
        Ok(length) => Ok(String::from_utf8_lossy(&buffer[..length])
            .lines()
            .any(|line| line == state)),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(true),
        Err(error) => Err(error),
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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, process::Command};

    use super::*;
    use crate::cgroup::controllers::v2_parents;

    #[test]
    fn wait_for_group_polls_with_growing_intervals() {
        let name = format!("sandbar-wait-{}", std::process::id());
        let Some(group) = v2_parents()
            .into_iter()
            .find_map(|parent| Group::create(parent.join(&name)).ok())
        else {
            sandbar_testing::report_skip(
                "wait_for_group_polls_with_growing_intervals",
                "no cgroup v2 hierarchy can be used",
            );
            return;
        };
        let mut child = Command::new("sleep").arg("0.5").spawn().unwrap();
        group.write("cgroup.procs", child.id().to_string()).unwrap();
        let reaper = std::thread::spawn(move || child.wait());
        let polls = Cell::new(0);
        let waited = group.wait_for("populated 0", |_| {
            polls.set(polls.get() + 1);
            Ok(())
        });
        reaper.join().unwrap().unwrap();
        group.remove().unwrap();
        waited.unwrap();
        // The intervals double; a busy loop would poll many thousand times.
        assert!((1..100).contains(&polls.get()), "{}", polls.get());
    }
}
