//! A session root made of this machine's programs, and a sandbox over it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod ended;

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount},
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::{Resources, Result, SessionId};
use sandbar_runtime::{ExecSpec, NoneRuntime, RunningCommand, Runtime, Sandbox, SandboxSpec};

pub(crate) use ended::Ended;

pub(crate) fn shell(script: &str) -> ExecSpec {
    ExecSpec::new(["sh", "-c", script])
}

pub(crate) struct World {
    name: String,
    sandbox: Arc<dyn Sandbox>,
    runtime: Arc<NoneRuntime>,
    root: TestRoot,
}

/// A tmpfs with this machine's programs lent to it read-only.
///
/// Nothing here is ever deleted recursively: deleting through a bind mount would delete what it shows. The tmpfs is
/// detached, and only its empty mount point is removed.
struct TestRoot {
    path: PathBuf,
}

impl TestRoot {
    fn new() -> Self {
        // SAFETY: only this thread and those it starts leave the shared namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let path = PathBuf::from(format!("/var/tmp/sandbar-test-{}", SessionId::random()));
        std::fs::create_dir(&path).unwrap();
        let root = Self { path };
        mount("tmpfs", &root.path, "tmpfs", MountFlags::NOSUID, None).unwrap();
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
}

impl Drop for TestRoot {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        // Not recursive: on a directory that is not empty it does nothing.
        let _ = std::fs::remove_dir(&self.path);
    }
}

impl World {
    /// Runs a test in a mount namespace of its own; every mount goes away with the test's threads.
    pub(crate) fn run(test: impl AsyncFnOnce(&World)) {
        let root = TestRoot::new();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        tokio.block_on(async {
            let name = root.path.file_name().unwrap().to_str().unwrap().to_owned();
            let runtime = Arc::new(NoneRuntime::open(&name));
            let session = SessionId::new("one").unwrap();
            let sandbox = runtime
                .open_sandbox(&SandboxSpec {
                    session: &session,
                    root: &root.path,
                    owners: None,
                    resources: &Resources::default(),
                    network: None,
                })
                .unwrap();
            let world = World { name, sandbox, runtime, root };
            test(&world).await;
            world.stop().await;
        });
        tokio.shutdown_background();
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.root.path.clone()
    }

    pub(crate) fn runtime(&self) -> &NoneRuntime {
        &self.runtime
    }

    pub(crate) async fn open_runtime_again(&self) -> NoneRuntime {
        let name = self.name.clone();
        tokio::task::spawn_blocking(move || NoneRuntime::open(&name)).await.unwrap()
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
