//! A box under test.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sandbar_core::{Result, RuntimeKind, UserAccount};
use sandbar_netns::{NetnsListeners, UdpListener};
use sandbar_runtime::{Dialed, ExecSpec, RunningCommand, Sandbox, SandboxStats};

pub(crate) use crate::ended::Ended;
use crate::{trees::Tree, world::World};

/// Handle on a box under test. Clones share the box.
#[derive(Clone, Debug)]
pub(crate) struct TestBox {
    sandbox: Arc<dyn Sandbox>,
    kind: RuntimeKind,
    /// Part of the path of its cgroups on the host: `/HOST/BOX/`.
    group: String,
    tree: Arc<Tree>,
}

impl TestBox {
    pub(crate) fn new(kind: RuntimeKind, sandbox: Arc<dyn Sandbox>, tree: Tree) -> Self {
        // An ordinary user's boxes have none; nothing is found there.
        let place = sandbox
            .cgroup()
            .unwrap_or_else(|| PathBuf::from("/no/such/group"));
        let mut names = place.iter().rev().map(|name| name.to_str().unwrap());
        let (own, host) = (names.next().unwrap(), names.next().unwrap());
        Self {
            sandbox,
            kind,
            group: format!("/{host}/{own}/"),
            tree: Arc::new(tree),
        }
    }

    /// Part of the path of its cgroups on the host: `/HOST/BOX/`.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Its files, with the owners they have on disk.
    pub(crate) fn root(&self) -> PathBuf {
        self.tree.on_disk()
    }

    /// Mount point of its tree.
    pub(crate) fn mounted(&self) -> &Path {
        &self.tree.path
    }

    pub(crate) fn path_inside(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) async fn start(&self, spec: ExecSpec) -> Result<RunningCommand> {
        self.ask(move |sandbox| sandbox.exec(spec)).await
    }

    pub(crate) async fn start_as(
        &self,
        spec: ExecSpec,
        user: UserAccount,
    ) -> Result<RunningCommand> {
        self.ask(move |sandbox| sandbox.exec_as(spec, Some(&user)))
            .await
    }

    pub(crate) async fn finish(&self, spec: ExecSpec) -> Ended {
        Ended::of(self.start(spec).await.unwrap()).await
    }

    pub(crate) async fn dial(&self, port: u16, timeout: Duration) -> Result<Dialed> {
        self.ask(move |sandbox| sandbox.dial(port, timeout)).await
    }

    pub(crate) async fn open_listeners(&self, udp_ports: &'static [u16]) -> Result<NetnsListeners> {
        self.ask(|sandbox| sandbox.open_listeners(udp_ports)).await
    }

    pub(crate) async fn reopen_udp(&self, udp_ports: &'static [u16]) -> Result<Vec<UdpListener>> {
        self.ask(|sandbox| sandbox.reopen_udp(udp_ports)).await
    }

    pub(crate) async fn freeze(&self) {
        self.ask(|sandbox| sandbox.freeze()).await.unwrap();
    }

    pub(crate) async fn thaw(&self) {
        self.ask(|sandbox| sandbox.thaw()).await.unwrap();
    }

    pub(crate) async fn stats(&self) -> SandboxStats {
        self.ask(|sandbox| sandbox.stats()).await.unwrap()
    }

    pub(crate) async fn stop(&self) {
        self.ask(|sandbox| sandbox.stop()).await.unwrap();
    }

    pub(crate) async fn checkpoint(
        &self,
        directory: &Path,
        mut meanwhile: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let directory = directory.to_owned();
        self.ask(move |sandbox| sandbox.checkpoint(&directory, &mut meanwhile))
            .await
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.sandbox.is_alive()
    }

    /// Runs a blocking call of the sandbox.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sandbox) -> T + Send + 'static,
    ) -> T {
        let sandbox = Arc::clone(&self.sandbox);
        tokio::task::spawn_blocking(move || question(&*sandbox))
            .await
            .unwrap()
    }

    /// Counts the live processes of this box with `text` in their command line, whose arguments are
    /// separated by NUL.
    pub(crate) async fn count(&self, text: &str) -> usize {
        if self.kind == RuntimeKind::Gvisor && self.is_alive() {
            // Processes of the gVisor kernel are visible inside only.
            let ended = self
                .finish(ExecSpec::new(["sh", "-c", "cat /proc/[0-9]*/cmdline"]))
                .await;
            return ended.stdout.matches(text).count();
        }
        let has_text = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        self.on_host().into_iter().filter(has_text).count()
    }

    pub(crate) async fn wait_until_runs(&self, text: &str) {
        World::wait_for(text, async || self.count(text).await > 0).await;
    }

    pub(crate) async fn wait_until_gone(&self, text: &str) {
        World::wait_for(text, async || self.count(text).await == 0).await;
    }

    /// The processes of this box as the host sees them, its init too.
    pub(crate) fn on_host(&self) -> Vec<u32> {
        processes_in(&self.group)
    }

    /// Its init, or the sandbox process of its container on the host.
    pub(crate) fn init_on_host(&self) -> Vec<u32> {
        let is_init = |pid: &u32| {
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            groups
                .lines()
                .any(|line| line.starts_with("0::") && !line.contains("/exec-"))
        };
        self.on_host().into_iter().filter(is_init).collect()
    }
}

/// Live processes of this machine in cgroups whose path contains `group`.
pub(crate) fn processes_in(group: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            groups
                .lines()
                .any(|line| format!("{line}/").contains(group))
                && !is_gone_or_exiting(*pid)
        })
        .collect()
}

/// Returns whether a process is gone or exiting. `cgroup.procs` may list it until the kernel has
/// released it.
fn is_gone_or_exiting(pid: u32) -> bool {
    const EXITING: u32 = 4;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // State, parent, group, session, terminal, its foreground group, flags.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let flags = fields.get(6).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}
