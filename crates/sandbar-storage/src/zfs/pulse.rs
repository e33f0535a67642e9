//! Keeping zfs-fuse awake.
//!
//! Its daemon serves all file systems of a pool by turns: it asks which of them has a request, and then reads it. A request
//! that is taken back in between leaves it reading from that one file system until the next request there, while nobody
//! else is served, `zfs` included. That happens when whoever waits gets a signal or is frozen in the wrong microsecond.
//! Any request to that file system sets the daemon free, so whenever it does not answer, all of them are asked something.

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

use super::{layout::Layout, mounts::MountTable, namespace, store::lock};

/// How long the daemon may be stuck before somebody looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Looks after the daemon until it is stopped.
#[derive(Debug)]
pub(super) struct Pulse(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Pulse {
    /// Does nothing where ZFS is in the kernel.
    pub(super) fn start(layout: &Layout) -> io::Result<Self> {
        if namespace::is_in_kernel() {
            return Ok(Self(Mutex::new(None)));
        }
        let (stop, stopped) = channel();
        let (pool, asked) = (layout.pool.clone(), layout.bases_directory.clone());
        let thread = Builder::new().name("sandbar-zfs-pulse".into()).spawn(move || watch(&pool, &asked, &stopped))?;
        Ok(Self(Mutex::new(Some((stop, thread)))))
    }

    pub(super) fn stop(&self) {
        let Some((stop, thread)) = lock(&self.0).take() else { return };
        drop(stop);
        if thread.join().is_err() {
            tracing::warn!("the thread that looks after zfs-fuse panicked");
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop();
    }
}

fn watch(pool: &str, directory: &Path, stopped: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
        let answered = ask(directory.to_owned());
        let mut asked = HashMap::new();
        while let Err(RecvTimeoutError::Timeout) = answered.recv_timeout(PATIENCE) {
            if !matches!(stopped.try_recv(), Err(TryRecvError::Empty)) {
                return;
            }
            tracing::warn!(pool, "zfs-fuse does not answer; every file system of the pool is asked something");
            ask_all(pool, &mut asked);
        }
    }
}

/// Asks every file system of the pool that was not asked before, or has answered.
fn ask_all(pool: &str, asked: &mut HashMap<PathBuf, Receiver<()>>) {
    asked.retain(|_, answered| matches!(answered.try_recv(), Err(TryRecvError::Empty)));
    // The table is the kernel's own: nobody is asked for it.
    let Ok(table) = namespace::beside_the_daemon(|| MountTable::read().map_err(io::Error::other)) else { return };
    for target in table.of_pool(pool) {
        asked.entry(target.to_owned()).or_insert_with(|| ask(target.to_owned()));
    }
}

/// Asks a file system how large it is, which only the daemon knows. The answer comes when it comes: the receiver hears of it,
/// or that nobody could be asked.
fn ask(directory: PathBuf) -> Receiver<()> {
    let (answer, answered) = channel();
    let question = move || {
        let _ = namespace::beside_the_daemon(|| Ok(statvfs(&directory)?));
        drop(answer);
    };
    if let Err(error) = Builder::new().name("sandbar-zfs-ask".into()).spawn(question) {
        tracing::warn!(%error, "could not ask zfs-fuse anything");
    }
    answered
}
