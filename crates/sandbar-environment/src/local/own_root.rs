//! A root of this machine's programs with the caller's directory as its `/workspace`, seen by one thread alone.

use std::{
    fmt, fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
};

use rustix::{
    fs::CWD,
    mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_remount, move_mount, open_tree},
};
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_storage::{LayerDirectory, enter_private_mounts, fill_host_root, session_tree::WORKING_DIRECTORY};

type Job = Box<dyn FnOnce(&Path) + Send>;

/// The root, and the thread that is the only one to see it mounted.
pub(super) struct OwnRoot {
    keeper: Mutex<Option<Keeper>>,
    /// An empty directory everywhere but in the thread.
    place: PathBuf,
}

/// The thread, and what it is asked to do.
struct Keeper {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

impl OwnRoot {
    /// Puts the root together. Blocks. `PermissionDenied` for somebody who may not mount.
    pub(super) fn build(directory: &Path) -> Result<Self> {
        let failed = |error| Error::io("make a place for the root", error);
        let place = tempfile::Builder::new().prefix("sandbar-local-").tempdir().map_err(failed)?.keep();
        let (jobs, queue) = mpsc::channel::<Job>();
        let (ready, told) = mpsc::channel();
        let (directory, root) = (directory.to_owned(), place.clone());
        let work = move || {
            let outcome = assemble(&directory, &root);
            let built = outcome.is_ok();
            // Whoever waits is there until it was told.
            let _ = ready.send(outcome);
            if built {
                for job in queue {
                    job(&root);
                }
            }
        };
        let thread = std::thread::Builder::new().name("sandbar-root".into()).spawn(work).map_err(failed)?;
        let root = Self { keeper: Mutex::new(Some(Keeper { jobs, thread })), place };
        match told.recv() {
            Ok(outcome) => outcome.map(|()| root),
            Err(_) => Err(Error::internal("the thread of a root has died")),
        }
    }

    /// Does something where the root is mounted, with the tokio runtime of the caller around it. Blocks.
    pub(super) fn with<T: Send + 'static>(&self, work: impl FnOnce(&Path) -> Result<T> + Send + 'static) -> Result<T> {
        let (answer, told) = mpsc::channel();
        let tokio = tokio::runtime::Handle::current();
        let job: Job = Box::new(move |root| {
            let _inside = tokio.enter();
            // The caller waits below.
            let _ = answer.send(work(root));
        });
        let gone = || Error::new(ErrorCode::InvalidState, "the root of the session is gone");
        self.keeper().as_ref().ok_or_else(gone)?.jobs.send(job).map_err(|_| gone())?;
        told.recv().map_err(|_| gone())?
    }

    /// Ends the thread, and with it every mount of the root. Blocks.
    pub(super) fn close(&self) {
        let Some(Keeper { jobs, thread }) = self.keeper().take() else { return };
        drop(jobs);
        if thread.join().is_err() {
            tracing::error!("the thread of a root has panicked");
        }
        // Only an empty directory can be removed this way, whatever went wrong before.
        if let Err(error) = fs::remove_dir(&self.place) {
            tracing::warn!(place = %self.place.display(), %error, "could not remove the place of a root");
        }
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnRoot {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for OwnRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnRoot").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Mounts everything at `root`, in a mount namespace of the calling thread's own.
fn assemble(directory: &Path, root: &Path) -> Result<()> {
    enter_private_mounts()?;
    let failed = |what: &str, errno: rustix::io::Errno| Error::io(format!("{what} of a root"), errno.into());
    // Taken hold of before anything is mounted that could hide it.
    let workspace = hold(directory).map_err(|errno| failed("find the workspace", errno))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("sandbar", root, "tmpfs", flags, Some(c"mode=0755")).map_err(|errno| failed("mount the bottom", errno))?;
    for layer in fill_host_root(root)? {
        if let LayerDirectory::Host(lent) = &layer.directory {
            let place = below(root, &layer.mount_point);
            mount_bind(lent, &place).map_err(|errno| failed("mount the programs", errno))?;
            let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
            mount_remount(&place, flags, "").map_err(|errno| failed("protect the programs", errno))?;
        }
    }
    let place = below(root, Path::new(WORKING_DIRECTORY));
    move_mount(&workspace, "", CWD, &place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|errno| failed("mount the workspace", errno))
}

/// A directory with what is mounted in it, as a mount of its own that is nowhere yet.
fn hold(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, directory, flags)
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
