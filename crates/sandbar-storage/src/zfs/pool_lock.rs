//! Lock that admits one host to the pool. A `zfs` command can outlive a killed host and change the
//! pool of the next one. So each command inherits the descriptor of the host's `flock`, and the
//! lock is free only when the last command has ended.

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

/// Time to wait for the commands of a killed host to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Locks of this process, by directory: stores in one process share them.
static HELD: Mutex<Option<HashMap<PathBuf, Weak<OwnedFd>>>> = Mutex::new(None);

/// Lock on a pool's sessions, once taken.
#[derive(Default)]
pub(super) struct PoolLock(Mutex<Option<Arc<OwnedFd>>>);

impl PoolLock {
    /// Locks the mount point of the sessions dataset.
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

    pub(super) fn release(&self) {
        lock(&self.0).take();
    }

    /// Returns a standard stream for a command that does not use it, so that the command inherits
    /// the lock.
    pub(super) fn stream(&self) -> Stdio {
        let taken = lock(&self.0);
        let copy = taken
            .as_ref()
            .and_then(|descriptor| descriptor.try_clone().ok());
        copy.map_or_else(Stdio::null, Stdio::from)
    }
}

impl fmt::Debug for PoolLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PoolLock")
            .field(&lock(&self.0).is_some())
            .finish()
    }
}

fn lock_directory(directory: &Path) -> Result<OwnedFd> {
    let complain = |error: io::Error| Error::io(format!("lock `{}`", directory.display()), error);
    let descriptor = OwnedFd::from(File::open(directory).map_err(complain)?);
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(descriptor),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(Duration::from_millis(10)),
            Err(Errno::WOULDBLOCK) => {
                let message = format!(
                    "sessions in `{}` are in use by another process",
                    directory.display()
                );
                return Err(Error::new(ErrorCode::Unavailable, message)
                    .with_hint("stop the other host, or set `bases_dataset` and `sessions_dataset` for this one"));
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
    fn pool_lock_is_held_until_the_last_command_ends() {
        let directory = tempfile::tempdir().unwrap();
        let pool_lock = PoolLock::default();
        pool_lock.take(directory.path()).unwrap();
        let mut command = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(pool_lock.stream())
            .spawn()
            .unwrap();
        pool_lock.release();
        let other = File::open(directory.path()).unwrap();
        assert_eq!(
            flock(&other, FlockOperation::NonBlockingLockExclusive),
            Err(Errno::WOULDBLOCK)
        );
        drop(command.stdin.take());
        command.wait().unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn pool_lock_is_shared_within_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (PoolLock::default(), PoolLock::default());
        first.take(directory.path()).unwrap();
        second.take(directory.path()).unwrap();
        first.release();
        let other = File::open(directory.path()).unwrap();
        assert_eq!(
            flock(&other, FlockOperation::NonBlockingLockExclusive),
            Err(Errno::WOULDBLOCK)
        );
        second.release();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
