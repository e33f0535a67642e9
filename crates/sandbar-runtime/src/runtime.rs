//! The contract every runtime keeps.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sandbar_core::{
    ByteCount, Capability, Error, ErrorCode, NetworkPolicy, OwnerMap, Resources, Result, RootRights, RuntimeKind,
    SessionId, UserAccount,
};

use sandbar_netns::{GateSockets, UdpGate};

use crate::{Dialed, ExecSpec, RunningCommand, environment::text, protocol::TrustOrder};

/// A way to run commands over a mounted session root. Calls block; the host makes them on threads of their own, inside
/// its tokio runtime.
///
/// What an implementation must keep, and the conformance suite checks:
/// - Opening a runtime ends whatever an earlier host of the same name left running.
/// - What a session or a call asks for and the runtime cannot keep is refused by [`admit`](Self::admit), never dropped.
/// - [`isolation`](Self::isolation) tells the boundary there really is on this machine.
pub trait Runtime: fmt::Debug + Send + Sync {
    fn kind(&self) -> RuntimeKind;

    /// The boundary sessions really have, in words.
    fn isolation(&self) -> &str;

    /// What this runtime can do on this machine, found out when it was opened.
    fn facts(&self) -> &RuntimeFacts;

    /// Whether everything that runs in a sandbox can be written to disk. It may be tried when somebody asks for the first
    /// time, which takes a while.
    fn checkpoint(&self) -> &Capability;

    /// Whether sessions can have a network of their own, with a gate the host serves. It may be tried when somebody asks
    /// for the first time, which takes a while.
    fn network(&self) -> &Capability;

    /// Refuses, with `InvalidArgument` naming the field, a wish this runtime cannot keep.
    fn admit(&self, resources: &Resources, network: Option<&NetworkPolicy>) -> Result<()>;

    /// A range of owners nobody else uses now, to mount a session's tree with; it is free again when the last handle is
    /// dropped. `None`: this runtime uses trees as they are on disk.
    fn owners(&self) -> Result<Option<Arc<OwnerMap>>>;

    /// A sandbox over a mounted tree. At most one lives for a session at a time.
    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>>;

    /// A sandbox in which everything runs that ran when [`checkpoint`](Sandbox::checkpoint) wrote `directory`. The tree
    /// must be as it was then, and so must the wishes about the network; limits may differ. Nobody waits for the commands
    /// that run in it: what they write is dropped.
    fn restore_sandbox(&self, spec: &SandboxSpec<'_>, directory: &Path) -> Result<Arc<dyn Sandbox>> {
        let _ = (spec, directory);
        Err(cannot_checkpoint())
    }

    /// Ends the helpers of the runtime. Sandboxes have been stopped before.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// What a sandbox is put over.
#[derive(Clone, Debug)]
pub struct SandboxSpec<'a> {
    pub session: &'a SessionId,
    /// The mounted tree, in the mount namespace of the calling thread.
    pub root: &'a Path,
    /// The owners the tree was mounted with. `None`: with those on disk, either because the runtime asked for none or
    /// because the file system cannot translate.
    pub owners: Option<Arc<OwnerMap>>,
    /// Limits of everything in the sandbox together: `cpus`, `memory`, `pids`. The other fields are limits of calls.
    pub resources: &'a Resources,
    pub network: BoxNetwork,
    /// Certificates the session is to trust beside its own, where its TLS is looked into.
    pub trust: Option<&'a Trust>,
    /// What root may do inside. Rights a runtime cannot give over this tree are refused.
    pub rights: RootRights,
    /// Process ids up to here are not given out, where the runtime can skip them: programs that know a process of an
    /// earlier box of the session by its id do not find another one. Begins anew at the largest id of the kernel.
    pub skip_pids: u64,
}

/// What a box is made with of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoxNetwork {
    /// Its loopback.
    #[default]
    Closed,
    /// A gate whose other side the host serves: see [`Sandbox::open_gate`].
    Gated,
}

/// Files in PEM that a box shows below [`TRUST_DIRECTORY`], outside the session's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The certificate of the session's own authority: `authority.crt`.
    pub authority: String,
    /// What the session's tree trusts by itself, and that: `ca-certificates.crt`. Shown in the place of the tree's own
    /// bundle as well.
    pub bundle: String,
}

/// Where a box shows its [`Trust`].
pub const TRUST_DIRECTORY: &str = "/dev/sandbar";

/// The names of its files.
pub(crate) const TRUST_AUTHORITY: &str = "authority.crt";
pub(crate) const TRUST_BUNDLE: &str = "ca-certificates.crt";

/// Where trees keep what they trust, from their root. Shown there is the bundle of a [`Trust`] where the tree has a file.
pub(crate) const TREE_BUNDLES: [&str; 4] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
];

impl Trust {
    pub(crate) fn order(&self) -> Result<TrustOrder> {
        Ok(TrustOrder { authority: text("trust", &self.authority)?, bundle: text("trust", &self.bundle)? })
    }
}

/// What a runtime can do, with the reasons for what it cannot.
#[derive(Clone, Debug)]
pub struct RuntimeFacts {
    pub pause: Capability,
    /// CPU, memory and process counts can be limited.
    pub limits: Capability,
    /// Commands can run as other users than root.
    pub users: Capability,
    /// The root of a sandbox can have rights of its own, over trees whose owners are translated.
    pub root_rights: Capability,
}

/// Where the commands of one session run.
///
/// What an implementation must keep:
/// - A command sees exactly the environment it was given, below the defaults of the runtime, and three descriptors.
/// - A command that cannot start is an error and leaves nothing: an unknown program is `FileNotFound` naming `argv`
///   (exit code 127 in a shell), one that is not executable `InvalidArgument` naming `argv` (126), a missing working
///   directory `InvalidArgument` naming `cwd`.
/// - A timeout, or dropping the [`RunningCommand`], ends the command with everything it started, daemons included.
/// - What a finished command left in the background lives until the sandbox is stopped.
/// - Connections end with the sandbox, and leave nothing in it when they are dropped.
pub trait Sandbox: fmt::Debug + Send + Sync {
    /// Starts a command as root of the sandbox. `spec.env` is everything beyond the defaults of the runtime,
    /// `spec.resources` is final.
    fn exec(&self, spec: ExecSpec) -> Result<RunningCommand> {
        self.exec_as(spec, None)
    }

    /// Starts a command as somebody in particular, who is the one `spec.user` names; `InvalidArgument` naming `user` where
    /// that cannot be. The defaults of its environment are those of the user. It has no say over others: neither over what
    /// runs as somebody else, nor over the sandbox itself.
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand>;

    /// Connects to a TCP port on the loopback of the sandbox, by IPv4 or else by IPv6. `Unavailable` when nobody listens
    /// there, or the sandbox has died; `Timeout` when there is no answer within `patience`, as from a frozen one: then the
    /// wish is forgotten, and nobody in there is bothered later.
    fn dial(&self, port: u16, patience: Duration) -> Result<Dialed>;

    /// Opens the gate of its network: whatever goes anywhere but to the box's own loopback arrives at these sockets. It may
    /// be opened again; then both gates share what arrives, until one of them is dropped. `InvalidState` for a box that was
    /// made [closed](BoxNetwork::Closed) where a box cannot be opened later.
    fn open_gate(&self, udp_ports: &[u16]) -> Result<GateSockets> {
        let _ = udp_ports;
        Err(no_network())
    }

    /// Sockets for other UDP ports of a gate that is open and stays so. A port in both lists may be taken over before the
    /// older socket is dropped.
    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpGate>> {
        let _ = udp_ports;
        Err(no_network())
    }

    /// The cgroup its processes are in on the host, for people who want to look; `None` without cgroups.
    fn cgroup(&self) -> Option<PathBuf>;

    /// Whether commands can be started. A sandbox that has died by itself is to be replaced.
    fn is_alive(&self) -> bool;

    /// Stops the clock of everything that runs here: afterwards nothing makes progress or uses CPU time, until
    /// [`thaw`](Self::thaw). Freezing twice is fine.
    fn freeze(&self) -> Result<()>;

    fn thaw(&self) -> Result<()>;

    fn stats(&self) -> Result<SandboxStats>;

    /// Writes everything that runs here into `directory`, which is new, so that a sandbox can be opened from there. It
    /// goes on running afterwards; `meanwhile` is called before, when everything is written and nothing runs: a copy of
    /// the tree made then is the one [`restore_sandbox`](Runtime::restore_sandbox) needs.
    fn checkpoint(&self, directory: &Path, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _ = (directory, meanwhile);
        Err(cannot_checkpoint())
    }

    /// Ends everything that runs here and lets go of the root. Afterwards `exec` is refused. Stopping twice is fine.
    fn stop(&self) -> Result<()>;
}

/// What a sandbox uses now. A figure the machine does not count is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxStats {
    pub cpu_time: Option<Duration>,
    pub memory: Option<ByteCount>,
    pub memory_peak: Option<ByteCount>,
    pub processes: Option<u64>,
    /// Forks the process limit refused.
    pub refused_forks: Option<u64>,
    /// Processes the kernel killed because the memory limit was reached.
    pub oom_kills: Option<u64>,
}

/// Why an ordinary user's sandboxes have no users but root.
pub(crate) const ONLY_ROOT: &str =
    "the host runs as an ordinary user, and so there is nobody in a sandbox but its root";

/// Whether commands can run as other users than root.
pub(crate) fn users() -> Capability {
    if rustix::process::geteuid().is_root() { Capability::Yes } else { Capability::no(ONLY_ROOT) }
}

/// Refuses rights of root that cannot be given.
pub(crate) fn admit_rights(rights: RootRights, given: &Capability) -> Result<()> {
    match (rights, given) {
        (RootRights::Own, Capability::No(reason)) => {
            Err(Error::invalid("root_rights", format!("root cannot have rights of its own: {reason}"))
                .with_hint("leave it out, or use `bare`"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn no_network() -> Error {
    Error::new(ErrorCode::InvalidState, "this sandbox has no network of its own")
}

fn cannot_checkpoint() -> Error {
    Error::new(ErrorCode::InvalidState, "this runtime cannot write running processes to disk")
        .with_hint("see the capability `checkpoint`")
}

/// Refuses a policy that a runtime with walls cannot keep here.
pub(crate) fn admit_network(runtime: RuntimeKind, network: &Capability, policy: Option<&NetworkPolicy>) -> Result<()> {
    match (network, policy) {
        (Capability::No(reason), Some(policy)) if !policy.is_closed() => Err(Error::invalid(
            "network",
            format!("runtime `{runtime}` keeps every session off the network here: {reason}"),
        )
        .with_hint("leave it out, or use `none`")),
        _ => Ok(()),
    }
}

/// Refuses limits that cannot be kept here.
pub(crate) fn admit_limits(runtime: RuntimeKind, limits: &Capability, wishes: &Resources) -> Result<()> {
    let Capability::No(reason) = limits else { return Ok(()) };
    let asked = [
        ("resources.cpus", "CPU time", wishes.cpus.is_some()),
        ("resources.memory", "memory", wishes.memory.is_some()),
        ("resources.pids", "the number of processes", wishes.pids.is_some()),
    ];
    match asked.into_iter().find(|(_, _, asked)| *asked) {
        Some((field, what, _)) => {
            Err(Error::invalid(field, format!("runtime `{runtime}` cannot limit {what} here: {reason}"))
                .with_hint("leave it out, or run the host as root on a machine with cgroups"))
        }
        None => Ok(()),
    }
}
