//! A root with this machine's programs and the caller's directory as `/workspace`, mounted in the
//! mount namespace of one thread.

use std::{
    fmt, fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, mpsc},
    thread::JoinHandle,
};

use rustix::{
    fs::CWD,
    mount::{
        MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_remount, move_mount,
        open_tree,
    },
};
use sandbar_core::{Error, ErrorCode, MutexExt as _, Result};
use sandbar_storage::{LayerDirectory, enter_private_mounts, fill_host_root};
use sandbar_tree::session_tree::WORKING_DIRECTORY;

type Job = Box<dyn FnOnce(&Path) + Send>;

/// The root and the thread in whose mount namespace it is mounted.
pub(super) struct PrivateRoot {
    thread: Mutex<Option<MountThread>>,
    /// Mount point; an empty directory outside of the thread's namespace.
    mount_point: PathBuf,
}

/// The thread and its job queue.
struct MountThread {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

impl PrivateRoot {
    /// Mounts the root. Blocks. `PermissionDenied` without the privilege to mount.
    pub(super) fn build(directory: &Path) -> Result<Self> {
        let failed = |error| Error::io("could not create the mount point of a root", error);
        let mount_point = tempfile::Builder::new()
            .prefix("sandbar-local-")
            .tempdir()
            .map_err(failed)?
            .keep();
        let (jobs, queue) = mpsc::channel::<Job>();
        let (ready, result) = mpsc::channel();
        let (directory, root) = (directory.to_owned(), mount_point.clone());
        let work = move || {
            let outcome = assemble(&directory, &root);
            let built = outcome.is_ok();
            // The receiver waits below.
            let _ = ready.send(outcome);
            if built {
                for job in queue {
                    job(&root);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("sandbar-root".into())
            .spawn(work)
            .map_err(failed)?;
        let root = Self {
            thread: Mutex::new(Some(MountThread { jobs, thread })),
            mount_point,
        };
        match result.recv() {
            Ok(outcome) => outcome.map(|()| root),
            Err(_) => Err(Error::internal("mount thread of a root died")),
        }
    }

    /// Runs `work` on the thread, in the context of the caller's tokio runtime. Blocks.
    pub(super) fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, result) = mpsc::channel();
        let tokio = tokio::runtime::Handle::current();
        let job: Job = Box::new(move |root| {
            let _inside = tokio.enter();
            // The receiver waits below.
            let _ = sender.send(work(root));
        });
        let gone = || Error::new(ErrorCode::InvalidState, "root of the session is closed");
        self.lock()
            .as_ref()
            .ok_or_else(gone)?
            .jobs
            .send(job)
            .map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }

    /// Ends the thread and with it all mounts of the root. Blocks.
    pub(super) fn close(&self) {
        let Some(MountThread { jobs, thread }) = self.lock().take() else {
            return;
        };
        drop(jobs);
        if thread.join().is_err() {
            tracing::error!("mount thread of a root panicked");
        }
        // `rmdir` only removes an empty directory, so a leaked mount loses no files.
        if let Err(error) = fs::remove_dir(&self.mount_point) {
            tracing::warn!(path = %self.mount_point.display(), %error, "could not remove the mount point of a root");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<MountThread>> {
        self.thread.lock_unpoisoned()
    }
}

impl Drop for PrivateRoot {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for PrivateRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateRoot")
            .field("mount_point", &self.mount_point)
            .finish_non_exhaustive()
    }
}

/// Moves the calling thread into a private mount namespace and mounts the root there.
fn assemble(directory: &Path, root: &Path) -> Result<()> {
    enter_private_mounts()?;
    let failed = |what: &str, errno: rustix::io::Errno| {
        Error::io(format!("could not {what} of a root"), errno.into())
    };
    // Cloned before any mount that could cover it.
    let workspace = clone_mounts(directory).map_err(|errno| failed("open the workspace", errno))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("sandbar", root, "tmpfs", flags, Some(c"mode=0755"))
        .map_err(|errno| failed("mount the tmpfs", errno))?;
    for layer in fill_host_root(root)? {
        if let LayerDirectory::Host(lent) = &layer.directory {
            let mount_point = below(root, &layer.mount_point);
            mount_bind(lent, &mount_point).map_err(|errno| failed("mount the programs", errno))?;
            let flags =
                MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
            mount_remount(&mount_point, flags, "")
                .map_err(|errno| failed("remount the programs read-only", errno))?;
        }
    }
    let mount_point = below(root, Path::new(WORKING_DIRECTORY));
    move_mount(
        &workspace,
        "",
        CWD,
        &mount_point,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(|errno| failed("mount the workspace", errno))
}

/// Clones a directory and its submounts as a detached mount.
fn clone_mounts(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, directory, flags)
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
