//! The contract of runtimes and their sandboxes.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sandbar_core::{
    ByteCount, Capability, NetworkPolicy, OwnerMap, Resources, Result, RootRights, RuntimeKind,
    SessionId, UserAccount,
};
use sandbar_netns::{NetnsListeners, UdpListener};

use crate::{
    Dialed, ExecSpec, RunningCommand, Trust,
    admission::{cannot_checkpoint, no_network},
    cgroup::MemoryScope,
};

/// Back end that runs commands over a mounted session root. Calls block; the host makes them on
/// blocking threads inside its tokio runtime.
///
/// Implementations must guarantee, and the conformance suite checks:
/// - Opening a runtime kills what an earlier host of the same name left running.
/// - [`admit`](Self::admit) rejects what the runtime cannot provide; nothing requested is silently
///   ignored.
/// - [`isolation`](Self::isolation) describes the boundary that is in effect on this machine.
pub trait Runtime: fmt::Debug + Send + Sync {
    fn kind(&self) -> RuntimeKind;

    /// Describes the isolation boundary that is in effect, in words.
    fn isolation(&self) -> &str;

    /// Returns what this runtime can do on this machine, as probed when it was opened.
    fn facts(&self) -> &RuntimeFacts;

    /// Returns whether running processes can be written to disk. May be probed on the first call,
    /// which can take seconds.
    fn checkpoint(&self) -> &Capability;

    /// Returns whether sessions can have a network namespace with listeners for the host's egress
    /// gateway. May be probed on the first call, which can take seconds.
    fn network(&self) -> &Capability;

    /// Rejects requests this runtime cannot fulfil, with `InvalidArgument` naming the field.
    fn admit(&self, resources: &Resources, network: Option<&NetworkPolicy>) -> Result<()>;

    /// Leases a range of uids and gids to mount a session's tree with. The range is free again when
    /// the last handle is dropped. `None`: this runtime uses trees with their owners on disk.
    fn owners(&self) -> Result<Option<Arc<OwnerMap>>>;

    /// Opens a sandbox over a mounted tree. A session has at most one at a time.
    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>>;

    /// Opens a sandbox with the processes that [`checkpoint`](Sandbox::checkpoint) wrote to
    /// `directory`. The tree and the network of the spec must be as they were then; limits may
    /// differ. The restored commands have no reader, so their output is discarded.
    fn restore_sandbox(
        &self,
        spec: &SandboxSpec<'_>,
        directory: &Path,
    ) -> Result<Arc<dyn Sandbox>> {
        let _ = (spec, directory);
        Err(cannot_checkpoint())
    }

    /// Ends the helper processes of the runtime. All sandboxes must have been stopped.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Parameters of a sandbox.
#[derive(Clone, Debug)]
pub struct SandboxSpec<'a> {
    pub session: &'a SessionId,
    /// Path of the mounted tree, in the mount namespace of the calling thread.
    pub root: &'a Path,
    /// Id map the tree was mounted with. `None`: the tree has its owners on disk, because the
    /// runtime leased no range or the file system does not support idmapped mounts.
    pub owners: Option<Arc<OwnerMap>>,
    /// Limits of the sandbox as a whole: `cpus`, `memory`, `pids`. The other fields limit commands.
    pub resources: &'a Resources,
    /// Memory limit if `resources` sets none. It bounds the sandbox, but on v1 cgroups OOM kills
    /// are counted for the sandbox and not for each command, so that it costs commands no time.
    pub default_memory: Option<ByteCount>,
    pub network: BoxNetwork,
    /// CA certificates to trust, if the egress gateway inspects the session's TLS connections.
    pub trust: Option<&'a Trust>,
    /// Rights of root inside. Rights that are not available over this tree are rejected.
    pub rights: RootRights,
    /// Process ids up to this one are not assigned, if the runtime can skip them. A program that
    /// remembers a process id from an earlier box of the session then does not meet another process
    /// under that id. Wraps around at the kernel's limit.
    pub skip_pids: u64,
}

impl SandboxSpec<'_> {
    /// Returns the limits of the sandbox as a whole, with the default one for memory.
    pub(crate) fn limits(&self) -> Resources {
        Resources {
            memory: self.resources.memory.or(self.default_memory),
            ..self.resources.clone()
        }
    }

    /// Returns where the memory limit applies.
    pub(crate) const fn memory_scope(&self) -> MemoryScope {
        if self.resources.memory.is_some() {
            MemoryScope::Commands
        } else {
            MemoryScope::Session
        }
    }
}

/// Network configuration to create a box with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoxNetwork {
    /// Loopback only.
    #[default]
    Closed,
    /// Loopback, and listeners for the host's egress gateway: see [`Sandbox::open_listeners`].
    Egress,
}

/// Capabilities of a runtime, with reasons for those that are missing.
#[derive(Clone, Debug)]
pub struct RuntimeFacts {
    pub pause: Capability,
    /// CPU, memory and process counts can be limited.
    pub limits: Capability,
    /// Commands can run as other users than root.
    pub users: Capability,
    /// Root of a sandbox can have [`RootRights::Own`], over trees mounted with an id map.
    pub root_rights: Capability,
}

/// Environment that the commands of one session run in.
///
/// Implementations must guarantee:
/// - A command gets exactly the given environment on top of the defaults of the runtime, and three
///   descriptors.
/// - A command that cannot start is an error and leaves nothing behind: an unknown program is
///   `FileNotFound` naming `argv` (exit code 127 in a shell), one that is not executable
///   `InvalidArgument` naming `argv` (126), a missing working directory `InvalidArgument` naming
///   `cwd`.
/// - A timeout, or dropping the [`RunningCommand`], kills the command with all its descendants,
///   daemons included.
/// - Background processes of a finished command live until the sandbox is stopped.
/// - Connections end with the sandbox, and leave nothing in it when they are dropped.
pub trait Sandbox: fmt::Debug + Send + Sync {
    /// Starts a command as root of the sandbox. `spec.env` is everything beyond the defaults of the
    /// runtime, `spec.resources` is final.
    fn exec(&self, spec: ExecSpec) -> Result<RunningCommand> {
        self.exec_as(spec, None)
    }

    /// Starts a command as `user`, which is the account that `spec.user` names. `InvalidArgument`
    /// naming `user` if that is not possible. The default environment is that of the user. The
    /// command can control neither processes of other users nor the sandbox itself.
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand>;

    /// Connects to a TCP port on the loopback of the sandbox, over IPv4 or else IPv6. `Unavailable`
    /// if the port has no listener or the sandbox has died. `Timeout` if there is no answer within
    /// `timeout`, as from a frozen sandbox; the request is then cancelled, and the server does not
    /// see a connection later.
    fn dial(&self, port: u16, timeout: Duration) -> Result<Dialed>;

    /// Opens listeners in the network namespace of the box, which receive all its traffic except to
    /// its own loopback. They may be opened again; both sets then share the traffic until one is
    /// dropped. `InvalidState` if the box was created [closed](BoxNetwork::Closed) and the runtime
    /// cannot change that.
    fn open_listeners(&self, udp_ports: &[u16]) -> Result<NetnsListeners> {
        let _ = udp_ports;
        Err(no_network())
    }

    /// Opens listeners for other UDP ports, while the rest stays open. A port may be opened again
    /// before its older listener is dropped.
    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpListener>> {
        let _ = udp_ports;
        Err(no_network())
    }

    /// Returns the v2 cgroup of its processes on the host, for diagnostics. `None` without cgroups.
    fn cgroup(&self) -> Option<PathBuf>;

    /// Returns whether commands can be started. A sandbox that has died must be replaced.
    fn is_alive(&self) -> bool;

    /// Freezes all processes of the sandbox: they use no CPU time until [`thaw`](Self::thaw).
    /// Idempotent.
    fn freeze(&self) -> Result<()>;

    fn thaw(&self) -> Result<()>;

    fn stats(&self) -> Result<SandboxStats>;

    /// Writes all running processes to `directory`, which must not exist, and lets them continue.
    /// `meanwhile` is called in between, when all is written and nothing runs: a copy of the tree
    /// made then is the one [`restore_sandbox`](Runtime::restore_sandbox) needs.
    fn checkpoint(
        &self,
        directory: &Path,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let _ = (directory, meanwhile);
        Err(cannot_checkpoint())
    }

    /// Kills all processes of the sandbox and releases its root. `exec` fails afterwards.
    /// Idempotent.
    fn stop(&self) -> Result<()>;
}

/// Current resource usage of a sandbox. `None` for values the machine does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxStats {
    pub cpu_time: Option<Duration>,
    pub memory: Option<ByteCount>,
    pub memory_peak: Option<ByteCount>,
    pub processes: Option<u64>,
    /// Forks that failed because of the process limit.
    pub refused_forks: Option<u64>,
    /// Processes that the OOM killer killed because of the memory limit.
    pub oom_kills: Option<u64>,
}
