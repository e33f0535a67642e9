//! A session root made of this machine's programs, and a sandbox over it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

use std::{
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
        mount_change, mount_remount, move_mount, open_tree, unmount,
    },
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::{OwnerMap, Resources, Result, RuntimeKind, SessionId};
use sandbar_runtime::{ExecSpec, NativeRuntime, NoneRuntime, RunningCommand, Runtime, Sandbox, SandboxSpec};

use crate::ended::Ended;

pub(crate) fn shell(script: &str) -> ExecSpec {
    ExecSpec::new(["sh", "-c", script])
}

fn open_runtime(kind: RuntimeKind, name: &str) -> Arc<dyn Runtime> {
    match kind {
        RuntimeKind::None => Arc::new(NoneRuntime::open(name).unwrap()),
        RuntimeKind::Native => Arc::new(NativeRuntime::open(name).unwrap()),
        RuntimeKind::Gvisor => unimplemented!(),
    }
}

pub(crate) struct World {
    name: String,
    sandbox: Arc<dyn Sandbox>,
    kind: RuntimeKind,
    runtime: Arc<dyn Runtime>,
    root: TestRoot,
}

/// A tmpfs with this machine's programs lent to it read-only.
///
/// Nothing here is ever deleted recursively: deleting through a bind mount would delete what it shows. The tmpfs is
/// detached, and only its empty mount point is removed.
struct TestRoot {
    path: PathBuf,
    /// The tree with the owners it has on disk, for tests to put files into.
    plain: OwnedFd,
}

impl TestRoot {
    fn new() -> Self {
        // SAFETY: only this thread and those it starts leave the shared namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let path = PathBuf::from(format!("/var/tmp/sandbar-test-{}", SessionId::random()));
        std::fs::create_dir(&path).unwrap();
        mount("tmpfs", &path, "tmpfs", MountFlags::NOSUID, None).unwrap();
        let plain = openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let root = Self { path, plain };
        for name in ["workspace", "tmp", "var", "usr"] {
            std::fs::create_dir(root.path.join(name)).unwrap();
        }
        let programs = root.path.join("usr");
        mount_bind("/usr", &programs).unwrap();
        mount_remount(&programs, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        for name in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(Path::new("usr").join(name), root.path.join(name)).unwrap();
        }
        root
    }

    /// Shows the whole tree with its owners translated, as a volume mounted for a box does.
    fn translate(&self, owners: &OwnerMap) {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(CWD, &self.path, flags).unwrap();
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: owners.as_fd().as_raw_fd() as u64,
        };
        // SAFETY: an empty path with the flag for it, and a structure of the size given.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
        move_mount(&tree, "", CWD, &self.path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).unwrap();
    }
}

impl Drop for TestRoot {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        // Not recursive: on a directory that is not empty it does nothing.
        let _ = std::fs::remove_dir(&self.path);
    }
}

impl World {
    /// Runs a test in a mount namespace of its own; every mount goes away with the test's threads.
    pub(crate) fn run(kind: RuntimeKind, test: impl AsyncFnOnce(&World)) {
        let root = TestRoot::new();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        tokio.block_on(async {
            let name = root.path.file_name().unwrap().to_str().unwrap().to_owned();
            let runtime = open_runtime(kind, &name);
            let session = SessionId::new("one").unwrap();
            let owners = runtime.owners().unwrap();
            if let Some(owners) = &owners {
                root.translate(owners);
            }
            let sandbox = runtime
                .open_sandbox(&SandboxSpec {
                    session: &session,
                    root: &root.path,
                    owners,
                    resources: &Resources::default(),
                    network: None,
                })
                .unwrap();
            let world = World { name, kind, sandbox, runtime, root };
            test(&world).await;
            world.stop().await;
        });
        tokio.shutdown_background();
    }

    pub(crate) fn root(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.root.plain.as_raw_fd()).into()
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    pub(crate) async fn open_runtime_again(&self) -> Arc<dyn Runtime> {
        let (kind, name) = (self.kind, self.name.clone());
        tokio::task::spawn_blocking(move || open_runtime(kind, &name)).await.unwrap()
    }

    pub(crate) async fn start(&self, spec: ExecSpec) -> Result<RunningCommand> {
        let sandbox = Arc::clone(&self.sandbox);
        tokio::task::spawn_blocking(move || sandbox.exec(spec)).await.unwrap()
    }

    pub(crate) async fn finish(&self, spec: ExecSpec) -> Ended {
        Ended::of(self.start(spec).await.unwrap()).await
    }

    pub(crate) async fn stop(&self) {
        let sandbox = Arc::clone(&self.sandbox);
        tokio::task::spawn_blocking(move || sandbox.stop()).await.unwrap().unwrap();
    }

    /// Living processes of this world (told by their root, which no other test shares) with `text` in their command line.
    pub(crate) fn processes_with(&self, text: &str) -> Vec<u32> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let has_text = line.windows(text.len()).any(|window| window == text.as_bytes());
                has_text && self.is_ours(*pid)
            })
            .collect()
    }

    fn is_ours(&self, pid: u32) -> bool {
        let cgroup = std::fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let own = std::ffi::OsStr::new(&self.name).as_bytes();
        cgroup.windows(own.len()).any(|window| window == own)
    }

    pub(crate) async fn wait_until_gone(&self, text: &str) {
        Self::wait_for(text, || self.processes_with(text).is_empty()).await;
    }

    pub(crate) async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let waiting = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .unwrap_or_else(|_| panic!("waited in vain: {what}"));
    }
}
