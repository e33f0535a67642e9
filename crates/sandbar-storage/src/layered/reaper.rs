//! Emptying the trash in the background.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use sandbar_core::{Error, Result};
use sandbar_tree::remove_tree;
use tracing::warn;

use super::{
    Primitives,
    layout::{Layout, names},
};

/// Thread that empties the trash. Joined when the store closes.
#[derive(Debug)]
pub(crate) struct Reaper {
    requests: Mutex<Option<Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Request {
    Sweep,
    /// Sweep, then reply.
    Settle(Sender<Result<()>>),
}

impl Reaper {
    pub(crate) fn start<P: Primitives>(primitives: Arc<P>, layout: Layout) -> Result<Self> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("sandbar-reaper".into())
            .spawn(move || run(&*primitives, &layout, &receiver))
            .map_err(|error| Error::io("start the reaper thread", error))?;
        Ok(Self {
            requests: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Wakes the thread, because something was moved to the trash.
    pub(crate) fn wake(&self) {
        self.send(Request::Sweep);
    }

    /// Waits until the current content of the trash is removed.
    pub(crate) fn settle(&self) -> Result<()> {
        let (sender, receiver) = channel();
        self.send(Request::Settle(sender));
        receiver.recv().unwrap_or(Ok(()))
    }

    pub(crate) fn stop(&self) {
        if let Ok(mut requests) = self.requests.lock() {
            requests.take();
        }
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            warn!("the reaper thread panicked");
        }
    }

    fn send(&self, request: Request) {
        if let Ok(requests) = self.requests.lock()
            && let Some(sender) = &*requests
        {
            // The receiver lives as long as the sender.
            let _ = sender.send(request);
        }
    }
}

fn run<P: Primitives>(primitives: &P, layout: &Layout, requests: &Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        let outcome = empty(primitives, &layout.trash());
        match request {
            Request::Settle(answer) => {
                let _ = answer.send(outcome.and_then(|()| primitives.settle()));
            }
            Request::Sweep => {
                if let Err(error) = outcome.and_then(|()| settle_when_tight(primitives)) {
                    // The next sweep or the next start tries again.
                    warn!(error = error.chain(), "could not empty the trash");
                }
            }
        }
    }
}

/// Commits freed space at once on a nearly full pool, where it is needed immediately.
fn settle_when_tight<P: Primitives>(primitives: &P) -> Result<()> {
    const TIGHT: f64 = 0.9;
    if primitives.space()?.used_share() > TIGHT {
        primitives.settle()
    } else {
        Ok(())
    }
}

/// Removes everything in `directory`: trees first, because a plain removal cannot enter a read-only
/// tree.
pub(crate) fn empty<P: Primitives>(primitives: &P, directory: &Path) -> Result<()> {
    let mut outcome = Ok(());
    for name in names(directory)? {
        let path = directory.join(name);
        let removed = remove_volume_trees(primitives, &path).and_then(|()| remove_tree(&path));
        outcome = outcome.and(removed);
    }
    outcome
}

/// Removes the trees of a discarded path, which is a tree itself, or a volume with `live` and
/// `snapshots`.
pub(super) fn remove_volume_trees<P: Primitives>(primitives: &P, path: &Path) -> Result<()> {
    let snapshots = path.join("snapshots");
    if snapshots.is_dir() && path.join("volume.json").exists() {
        for name in names(&snapshots)? {
            primitives.remove_tree(&snapshots.join(name))?;
        }
        primitives.remove_tree(&path.join("live"))?;
        return Ok(());
    }
    primitives.remove_tree(path)
}
