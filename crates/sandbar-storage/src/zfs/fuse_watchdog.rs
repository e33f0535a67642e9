//! Watchdog of the zfs-fuse daemon.
//!
//! The daemon serves all file systems of a pool on one thread: it polls for a file system with a
//! request, then reads it. If the request is aborted in between (the waiting process gets a signal
//! or is frozen), the read blocks until the next request to that file system. Until then nothing
//! else is served, `zfs` commands included. Any request to that file system unblocks the daemon, so
//! when it does not answer, the watchdog sends one to each.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rustix::fs::statvfs;

use super::{layout::Layout, mount_table::MountTable, namespace, store::lock};

/// Time between two checks of the daemon.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one check.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Watchdog thread, until it is stopped.
#[derive(Debug)]
pub(super) struct FuseWatchdog(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl FuseWatchdog {
    /// Starts the thread; a no-op where ZFS is in the kernel.
    pub(super) fn start(layout: &Layout) -> io::Result<Self> {
        if namespace::is_in_kernel() {
            return Ok(Self(Mutex::new(None)));
        }
        let (stop, stopped) = channel();
        let (pool, asked) = (layout.pool.clone(), layout.bases_directory.clone());
        let thread = Builder::new()
            .name("sandbar-zfs-watchdog".into())
            .spawn(move || watch(&pool, &asked, &stopped))?;
        Ok(Self(Mutex::new(Some((stop, thread)))))
    }

    pub(super) fn stop(&self) {
        let Some((stop, thread)) = lock(&self.0).take() else {
            return;
        };
        drop(stop);
        if thread.join().is_err() {
            tracing::warn!("the zfs-fuse watchdog panicked");
        }
    }
}

impl Drop for FuseWatchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

fn watch(pool: &str, directory: &Path, stopped: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(CHECK_INTERVAL) {
        let answered = query(directory.to_owned());
        let mut asked = HashMap::new();
        while let Err(RecvTimeoutError::Timeout) = answered.recv_timeout(ANSWER_TIMEOUT) {
            if !matches!(stopped.try_recv(), Err(TryRecvError::Empty)) {
                return;
            }
            tracing::warn!(
                pool,
                "zfs-fuse does not answer; sending a request to every file system of the pool"
            );
            query_all(pool, &mut asked);
        }
    }
}

/// Queries every file system of the pool that has no query pending.
fn query_all(pool: &str, asked: &mut HashMap<PathBuf, Receiver<()>>) {
    asked.retain(|_, answered| matches!(answered.try_recv(), Err(TryRecvError::Empty)));
    // Reading the mount table needs no reply of the daemon.
    let Ok(table) = namespace::in_daemon_namespace(|| MountTable::read().map_err(io::Error::other))
    else {
        return;
    };
    for target in table.of_pool(pool) {
        asked
            .entry(target.to_owned())
            .or_insert_with(|| query(target.to_owned()));
    }
}

/// Queries the size of a file system, which only the daemon knows, on a new thread. The receiver
/// disconnects when the reply arrives or the query could not be sent.
fn query(directory: PathBuf) -> Receiver<()> {
    let (answer, answered) = channel();
    let question = move || {
        let _ = namespace::in_daemon_namespace(|| Ok(statvfs(&directory)?));
        drop(answer);
    };
    if let Err(error) = Builder::new()
        .name("sandbar-zfs-query".into())
        .spawn(question)
    {
        tracing::warn!(%error, "could not query zfs-fuse");
    }
    answered
}
