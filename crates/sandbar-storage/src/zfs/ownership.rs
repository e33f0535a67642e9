//! One host at a time. A `zfs` command outlives the host that was killed while it ran, and would change the pool behind
//! the back of the next one. So each command carries the host's lock: it is free when the last of them has ended.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, Weak},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};

use super::store::lock;

/// How long commands of a killed host may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The locks of this process, by directory: two stores in one process know of each other.
static HELD: Mutex<Option<HashMap<PathBuf, Weak<OwnedFd>>>> = Mutex::new(None);

/// The lock on a pool's sessions, once it is taken.
#[derive(Default)]
pub(super) struct Ownership(Mutex<Option<Arc<OwnedFd>>>);

impl Ownership {
    /// Locks the directory the sessions dataset is mounted at: the lock goes where the pool goes.
    pub(super) fn take(&self, directory: &Path) -> Result<()> {
        let mut held = lock(&HELD);
        let held = held.get_or_insert_default();
        let shared = held.get(directory).and_then(Weak::upgrade);
        let taken = match shared {
            Some(taken) => taken,
            None => Arc::new(lock_directory(directory)?),
        };
        held.insert(directory.to_owned(), Arc::downgrade(&taken));
        *lock(&self.0) = Some(taken);
        Ok(())
    }

    pub(super) fn give_up(&self) {
        lock(&self.0).take();
    }

    /// Something to give a command for a standard stream it does not use, so that it carries the lock.
    pub(super) fn stream(&self) -> Stdio {
        let taken = lock(&self.0);
        let copy = taken.as_ref().and_then(|descriptor| descriptor.try_clone().ok());
        copy.map_or_else(Stdio::null, Stdio::from)
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ownership").field(&lock(&self.0).is_some()).finish()
    }
}

fn lock_directory(directory: &Path) -> Result<OwnedFd> {
    let complain = |error: io::Error| Error::io(format!("lock `{}`", directory.display()), error);
    let descriptor = OwnedFd::from(File::open(directory).map_err(complain)?);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(descriptor),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(Duration::from_millis(10)),
            Err(Errno::WOULDBLOCK) => {
                let message = format!("another process uses the sessions in `{}`", directory.display());
                return Err(Error::new(ErrorCode::Unavailable, message)
                    .with_hint("stop the other host, or give this one datasets of its own"));
            }
            Err(errno) => return Err(complain(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_lock_lasts_as_long_as_the_last_command_that_carries_it() {
        let directory = tempfile::tempdir().unwrap();
        let ownership = Ownership::default();
        ownership.take(directory.path()).unwrap();
        let mut command = Command::new("cat").stdin(Stdio::piped()).stdout(ownership.stream()).spawn().unwrap();
        ownership.give_up();
        let other = File::open(directory.path()).unwrap();
        assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        drop(command.stdin.take());
        command.wait().unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn two_stores_of_one_process_share_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (Ownership::default(), Ownership::default());
        first.take(directory.path()).unwrap();
        second.take(directory.path()).unwrap();
        first.give_up();
        let other = File::open(directory.path()).unwrap();
        assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        second.give_up();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
