//! Subject of the benchmarks: native boxes over a tree with this machine's programs.

use std::{path::Path, sync::Arc, time::Instant};

use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};
use sandbar_core::{ByteCount, Resources, SessionId};
use sandbar_runtime::{
    BoxNetwork, ExecEvent, ExecSpec, NativeRuntime, Runtime, Sandbox, SandboxSpec,
};
use sandbar_testing::{measure::milliseconds, private_mounts};

pub(crate) struct Subject {
    tokio: tokio::runtime::Runtime,
    runtime: Arc<NativeRuntime>,
    live: Arc<dyn Sandbox>,
    root: Root,
}

/// A tmpfs with this machine's programs lent to it read-only, in a mount namespace that ends with
/// the benchmark.
struct Root {
    directory: tempfile::TempDir,
}

impl Root {
    fn new() -> Self {
        private_mounts();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        mount("tmpfs", path, "tmpfs", MountFlags::NOSUID, None).unwrap();
        for name in ["workspace", "tmp", "usr", "proc", "dev"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        let programs = path.join("usr");
        mount_bind("/usr", &programs).unwrap();
        mount_remount(&programs, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        for name in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(Path::new("usr").join(name), path.join(name)).unwrap();
        }
        Self { directory }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // Before the directory is removed: nothing may be deleted through a mount.
        rustix::mount::unmount(self.directory.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

impl Subject {
    pub(crate) fn open() -> Self {
        let root = Root::new();
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let name = format!("sandbar-bench-{}", std::process::id());
        let runtime = Arc::new(NativeRuntime::open(&name).unwrap());
        let live = tokio.block_on(open_box(&runtime, root.directory.path(), "live"));
        Self {
            tokio,
            runtime,
            live,
            root,
        }
    }

    pub(crate) fn tokio(&self) -> &tokio::runtime::Runtime {
        &self.tokio
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.directory.path()
    }

    /// Milliseconds a program takes from the call to the news of its end.
    pub(crate) fn exec(&self) -> f64 {
        self.tokio.block_on(async {
            let started = Instant::now();
            run(&self.live, ExecSpec::new(["/usr/bin/true"])).await;
            milliseconds(started)
        })
    }

    /// Milliseconds from nothing to the output and the end of a program in a new box.
    pub(crate) fn first_output(&self) -> f64 {
        self.tokio.block_on(async {
            let started = Instant::now();
            let sandbox = open_box(&self.runtime, self.root(), "new").await;
            let output = run(&sandbox, ExecSpec::new(["/usr/bin/echo", "hello"])).await;
            let took = milliseconds(started);
            assert_eq!(output, b"hello\n");
            stop(sandbox).await;
            // Refills the pool, so that it does not run during the next measurement.
            self.runtime.warm_up();
            took
        })
    }

    /// Returns the private memory, in KiB, of each of `count` idle boxes on average.
    #[expect(clippy::cast_precision_loss, reason = "kibibytes are few")]
    pub(crate) fn memory_of_boxes(&self, count: usize) -> f64 {
        self.tokio.block_on(async {
            let mut boxes = Vec::new();
            for number in 0..count {
                let sandbox = open_box(&self.runtime, self.root(), &format!("idle-{number}")).await;
                // A box is fully started when its first command has run.
                run(&sandbox, ExecSpec::new(["/usr/bin/true"])).await;
                boxes.push(sandbox);
            }
            let inits: Vec<u32> = boxes.iter().filter_map(init_of).collect();
            assert_eq!(inits.len(), count);
            let total: u64 = inits.iter().map(|pid| private_memory(*pid)).sum();
            for sandbox in boxes {
                stop(sandbox).await;
            }
            total as f64 / inits.len() as f64
        })
    }
}

async fn open_box(runtime: &Arc<NativeRuntime>, root: &Path, name: &str) -> Arc<dyn Sandbox> {
    let (runtime, root, session) = (
        Arc::clone(runtime),
        root.to_owned(),
        SessionId::new(name).unwrap(),
    );
    let resources = Resources {
        pids: Some(1024),
        memory: Some(ByteCount::gib(1)),
        ..Resources::default()
    };
    tokio::task::spawn_blocking(move || {
        runtime.open_sandbox(&SandboxSpec {
            skip_pids: 0,
            rights: sandbar_core::RootRights::Bare,
            session: &session,
            root: &root,
            owners: None,
            resources: &resources,
            default_memory: None,
            network: BoxNetwork::Closed,
            trust: None,
        })
    })
    .await
    .unwrap()
    .unwrap()
}

/// Runs a command to its end and returns what it wrote.
pub(crate) async fn run(sandbox: &Arc<dyn Sandbox>, spec: ExecSpec) -> Vec<u8> {
    let sandbox = Arc::clone(sandbox);
    let mut command = tokio::task::spawn_blocking(move || sandbox.exec(spec))
        .await
        .unwrap()
        .unwrap();
    let mut output = Vec::new();
    loop {
        match command.next_event().await {
            Some(ExecEvent::Stdout(bytes)) => output.extend_from_slice(&bytes),
            Some(ExecEvent::Stderr(bytes)) => panic!("{}", String::from_utf8_lossy(&bytes)),
            Some(ExecEvent::Exited(status)) => assert_eq!(status.code, Some(0)),
            None => return output,
        }
    }
}

async fn stop(sandbox: Arc<dyn Sandbox>) {
    tokio::task::spawn_blocking(move || sandbox.stop())
        .await
        .unwrap()
        .unwrap();
}

/// The init of a box: it is where commands have groups below.
fn init_of(sandbox: &Arc<dyn Sandbox>) -> Option<u32> {
    let group = sandbox.cgroup()?;
    let listed =
        ["cgroup.procs", "init/cgroup.procs"].map(|list| std::fs::read_to_string(group.join(list)));
    listed
        .into_iter()
        .flatten()
        .find_map(|pids| pids.lines().next()?.parse().ok())
}

/// Kibibytes no other process shares.
fn private_memory(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    rollup
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}
