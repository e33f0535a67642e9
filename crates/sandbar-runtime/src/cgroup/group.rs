//! One cgroup, in either hierarchy.

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

/// How long killed processes may take to be gone, and running ones to freeze; only one stuck in the kernel takes that
/// long.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long processes that are about to end may take before they are ended.
const GRACE: Duration = Duration::from_secs(1);

/// The time between two looks at a group, which doubles from the one to the other.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    handle: OwnedFd,
    /// A killed group stays deadly: kernels (6.14 to at least 6.18) compare the number of kills of the group a process
    /// is started in with that of its parent's group, and end it at birth when they differ.
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
        Ok(Self { directory, handle, was_killed: AtomicBool::new(false) })
    }

    pub(super) fn child(&self, name: &str) -> io::Result<Self> {
        Self::create(self.directory.join(name))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn write(&self, file: &str, value: impl AsRef<[u8]>) -> io::Result<()> {
        let file = openat(&self.handle, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(file, value.as_ref())?;
        Ok(())
    }

    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        let file = openat(&self.handle, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        io::read_to_string(fs::File::from(file))
    }

    /// The number in a file that holds one.
    pub(super) fn number(&self, file: &str) -> Option<u64> {
        self.read(file).ok()?.trim().parse().ok()
    }

    /// The number behind `key` in a file of keys and numbers.
    pub(super) fn keyed_number(&self, file: &str, key: &str) -> Option<u64> {
        keyed_number(&self.read(file).ok()?, key)
    }

    /// The file a process enters through. Whoever holds it open may enter, whoever they are.
    pub(super) fn door(&self) -> io::Result<OwnedFd> {
        Ok(openat(&self.handle, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Lets `owner` start processes in this group.
    pub(super) fn delegate(&self, owner: u32) -> io::Result<()> {
        chown(self.directory.join("cgroup.procs"), Some(owner), None)
    }

    /// Ends every process in the group and below it. They may take a moment to be gone.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.was_killed.store(true, Ordering::SeqCst);
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

    fn is(&self, state: &str) -> io::Result<bool> {
        match fs::read_to_string(self.directory.join("cgroup.events")) {
            Ok(events) => Ok(events.lines().any(|line| line == state)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether nothing runs in the group or below it.
    pub(super) fn is_empty(&self) -> bool {
        self.read("cgroup.events").is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
    }

    /// Repeats `act` until the group's events show `state`, or the group is gone.
    fn wait_for(&self, state: &str, act: impl Fn(&Self) -> io::Result<()>) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let events = match fs::File::open(self.directory.join("cgroup.events")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            events => events?,
        };
        // The kernel tells of a change at most every ten milliseconds; a box that lived shorter is looked after sooner.
        let mut pause = SHORTEST_PAUSE;
        loop {
            if shows(&events, state)? {
                return Ok(());
            }
            act(self)?;
            // The poll waits for a change since this read; a descriptor that was never read is always ready.
            if shows(&events, state)? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("it does not become `{state}`")));
            }
            let patience = Timespec { tv_sec: 0, tv_nsec: pause.as_nanos().try_into().unwrap_or(i64::MAX) };
            poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&patience))?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Stops the clock of everything in the group, and waits until it stands.
    pub(super) fn freeze(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "1")?;
        self.wait_for("frozen 1", |_| Ok(()))
    }

    pub(super) fn thaw(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "0")?;
        self.wait_for("frozen 0", |_| Ok(()))
    }

    /// Ends everything in the group, waits until it is gone, and removes the group.
    pub(super) fn end(&self) -> io::Result<()> {
        self.wait_for("populated 0", Self::kill)?;
        self.remove()
    }

    /// Waits until nothing runs in the group; what does not end by itself soon is ended.
    pub(super) fn empty(&self) -> io::Result<()> {
        let grace = Instant::now() + GRACE;
        self.wait_for(
            "populated 0",
            |group| {
                if group.was_killed() || Instant::now() >= grace { group.kill() } else { Ok(()) }
            },
        )
    }

    /// Whether it must not be used again.
    pub(super) fn was_killed(&self) -> bool {
        self.was_killed.load(Ordering::SeqCst)
    }

    /// Removes an empty group with the empty groups below it; an error when something still runs in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        if self.is("populated 1")? {
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

pub(super) fn keyed_number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Whether events of a group show this state. A group that was removed has every state that is waited for.
fn shows(events: &fs::File, state: &str) -> io::Result<bool> {
    let mut buffer = [0; 256];
    match events.read_at(&mut buffer, 0) {
        Ok(length) => Ok(String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == state)),
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
    use crate::cgroup::controllers::unified_parents;

    #[test]
    fn waiting_for_a_group_is_not_a_busy_loop() {
        let name = format!("sandbar-wait-{}", std::process::id());
        let Some(group) = unified_parents().into_iter().find_map(|parent| Group::create(parent.join(&name)).ok())
        else {
            sandbar_testing::report_skip(
                "waiting_for_a_group_is_not_a_busy_loop",
                "no cgroup v2 hierarchy can be used",
            );
            return;
        };
        let mut child = Command::new("sleep").arg("0.5").spawn().unwrap();
        group.write("cgroup.procs", child.id().to_string()).unwrap();
        let reaper = std::thread::spawn(move || child.wait());
        let looks = Cell::new(0);
        let waited = group.wait_for("populated 0", |_| {
            looks.set(looks.get() + 1);
            Ok(())
        });
        reaper.join().unwrap().unwrap();
        group.remove().unwrap();
        waited.unwrap();
        // They come at twice the distance each; as fast as it can, it would look many thousand times.
        assert!((1..100).contains(&looks.get()), "{}", looks.get());
    }
}
