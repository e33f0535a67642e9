//! The sandbox of one session, as commands and connections through the init of its box.

use std::{
    io,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sandbar_core::{
    Error, ErrorCode, MutexExt as _, OwnerMap, Result, RwLockExt as _, UserAccount,
};
use sandbar_netns::{NetnsListeners, UdpListener};
use tokio::net::unix::pipe::Receiver;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    BoxNetworkHandle, InitLink, dial::dial, named_pipes::AdoptedPipes, pipes::CommandStreams,
};
use crate::{
    Dialed, ExecEvent, ExecSpec, RunningCommand, Sandbox, SandboxStats,
    admission::no_network,
    cgroup::{SessionGroups, SessionLease},
    output::OutputStream,
};

/// Time for a stopped box to exit by itself before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits how long a killed box may take to end. Only a process stuck in the kernel takes this
/// long.
const KILLED_TIMEOUT: Duration = Duration::from_secs(20);

/// Number of commands between two removals of idle command groups.
const GROUP_CLEANUP_INTERVAL: u64 = 64;

/// Numbers of the commands in a box, for a checkpoint.
#[derive(Debug)]
pub(crate) struct RunningNumbers {
    /// Number of the next command.
    pub(crate) next: u64,
    /// Commands whose named pipes still exist.
    pub(crate) with_pipes: Vec<u64>,
}

/// Isolation boundary around a box, as far as the handling of its commands depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// Namespaces: when init exits, the kernel kills everything in its pid namespace.
    Namespaces,
    /// A guest kernel, whose processes the host cannot see. Init keeps a cgroup per command, and
    /// runs as a user of its own.
    GuestKernel { init_uid: u32 },
    /// No boundary.
    None,
}

impl Boundary {
    pub(super) fn is_guest(self) -> bool {
        matches!(self, Self::GuestKernel { .. })
    }
}

/// Parts a [`BoxSandbox`] is built from.
#[derive(Debug)]
pub(crate) struct BoxParts {
    pub(crate) link: InitLink,
    pub(crate) boundary: Boundary,
    pub(crate) groups: Option<Arc<SessionLease>>,
    pub(crate) streams: CommandStreams,
    /// Id map of the box. `None` if its users are the host's.
    pub(crate) owners: Option<Arc<OwnerMap>>,
    pub(crate) network: Option<Box<dyn BoxNetworkHandle>>,
}

/// Sandbox of one session.
#[derive(Debug)]
pub(crate) struct BoxSandbox {
    pub(super) link: Arc<InitLink>,
    pub(super) groups: Option<Arc<SessionLease>>,
    pub(super) boundary: Boundary,
    pub(super) streams: CommandStreams,
    next: AtomicU64,
    /// Every start holds it shared, so that a stop waits for starts in progress.
    is_stopped: RwLock<bool>,
    pub(super) stop: CancellationToken,
    pub(super) supervisors: TaskTracker,
    /// Held as long as the sandbox lives, so that the range is not leased to another box.
    pub(super) owners: Option<Arc<OwnerMap>>,
    /// `None` without a network namespace, and after a stop.
    network: Mutex<Option<Box<dyn BoxNetworkHandle>>>,
}

impl BoxSandbox {
    pub(crate) fn new(parts: BoxParts) -> Self {
        Self {
            link: Arc::new(parts.link),
            groups: parts.groups,
            boundary: parts.boundary,
            streams: parts.streams,
            next: AtomicU64::new(1),
            is_stopped: RwLock::new(false),
            stop: CancellationToken::new(),
            supervisors: TaskTracker::new(),
            owners: parts.owners,
            network: Mutex::new(parts.network),
        }
    }

    /// Replaces the box. `transfer` ends the old one and returns the sockets of the new one; see
    /// [`InitLink::relocate`].
    pub(crate) fn relocate(
        &self,
        transfer: impl FnOnce(&RunningNumbers) -> Result<[UnixStream; 2]>,
    ) -> Result<()> {
        self.link.relocate(|| {
            let held = self
                .streams
                .hold()
                .map_err(|error| Error::io("hold the pipes of a session", error))?;
            let numbers = RunningNumbers {
                next: self.next.load(Ordering::Relaxed),
                with_pipes: self.streams.named(),
            };
            let outcome = transfer(&numbers);
            drop(held);
            outcome
        })
    }

    /// Adopts the commands of a restored box. They have no reader, so their output is discarded.
    pub(crate) fn adopt_commands(&self, next: u64, pipes: Vec<AdoptedPipes>) -> io::Result<()> {
        self.next.fetch_max(next, Ordering::Relaxed);
        for AdoptedPipes {
            outputs: [stdout, stderr],
            holder,
            named,
        } in pipes
        {
            drop(holder);
            let mut stdout =
                OutputStream::new(Receiver::from_owned_fd(stdout)?, ExecEvent::Stdout, 0);
            let mut stderr =
                OutputStream::new(Receiver::from_owned_fd(stderr)?, ExecEvent::Stderr, 0);
            let stop = self.stop.clone();
            self.supervisors.spawn(async move {
                let _named = named;
                tokio::select! {
                    () = async { tokio::join!(stdout.discard(), stderr.discard()); } => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        Ok(())
    }

    /// Asks init for the number of processes in the box.
    pub(crate) fn count_processes(&self) -> Result<u64> {
        self.link.count_processes()
    }

    /// Fails after a stop. Until the guard is dropped, a stop blocks.
    pub(super) fn guard_not_stopped(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_stopped = self.is_stopped.read_unpoisoned();
        if *is_stopped {
            return Err(Error::new(
                ErrorCode::InvalidState,
                "sandbox has been stopped",
            ));
        }
        Ok(is_stopped)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Prepares the pipes of the next command. Errors are ignored: the command then creates its
    /// pipes itself and reports why that failed.
    pub(crate) fn prepare_next(&self) {
        let _ = self
            .link
            .prepare(|| self.streams.prepare(|| self.next_number()));
    }

    /// Removes idle command groups now and then, in the background.
    fn remove_idle_groups(&self) {
        let Some(groups) = self.groups.as_ref().filter(|_| !self.boundary.is_guest()) else {
            return;
        };
        if self
            .next
            .load(Ordering::Relaxed)
            .is_multiple_of(GROUP_CLEANUP_INTERVAL)
        {
            let groups = Arc::clone(groups);
            self.supervisors
                .spawn_blocking(move || groups.remove_idle_groups());
        }
    }

    /// Returns whether the exit of init would not end the whole box: only a pid namespace ends with
    /// its init, and a frozen init does not exit.
    fn must_be_killed(&self, groups: &SessionGroups) -> bool {
        self.boundary != Boundary::Namespaces || groups.is_frozen()
    }

    fn lock_network(&self) -> MutexGuard<'_, Option<Box<dyn BoxNetworkHandle>>> {
        self.network.lock_unpoisoned()
    }

    fn with_network<T>(
        &self,
        work: impl FnOnce(&dyn BoxNetworkHandle) -> io::Result<T>,
    ) -> Result<T> {
        let _not_stopped = self.guard_not_stopped()?;
        let network = self.lock_network();
        let network = network.as_deref().ok_or_else(no_network)?;
        work(network).map_err(|error| Error::io("open the netns listeners of the sandbox", error))
    }

    fn groups(&self) -> Result<&SessionGroups> {
        self.groups.as_ref().map(|lease| &***lease).ok_or_else(|| {
            Error::new(
                ErrorCode::InvalidState,
                "processes cannot be frozen: this host cannot use cgroups",
            )
            .with_hint("see the capability `pause`")
        })
    }
}

impl Sandbox for BoxSandbox {
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand> {
        let _not_stopped = self.guard_not_stopped()?;
        let running = self.start(&spec, user)?;
        self.prepare_next();
        self.remove_idle_groups();
        Ok(running)
    }

    fn dial(&self, port: u16, timeout: Duration) -> Result<Dialed> {
        dial(self, port, timeout)
    }

    fn open_listeners(&self, udp_ports: &[u16]) -> Result<NetnsListeners> {
        self.with_network(|network| network.open_listeners(udp_ports))
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpListener>> {
        self.with_network(|network| network.reopen_udp(udp_ports))
    }

    fn cgroup(&self) -> Option<PathBuf> {
        self.groups
            .as_ref()
            .map(|groups| groups.directory().to_owned())
    }

    fn is_alive(&self) -> bool {
        !self.link.is_gone()
    }

    fn freeze(&self) -> Result<()> {
        self.groups()?
            .freeze()
            .map_err(|error| Error::io("freeze a session", error))
    }

    fn thaw(&self) -> Result<()> {
        self.groups()?
            .thaw()
            .map_err(|error| Error::io("thaw a session", error))
    }

    fn stats(&self) -> Result<SandboxStats> {
        Ok(self
            .groups
            .as_ref()
            .map(|groups| groups.stats())
            .unwrap_or_default())
    }

    fn stop(&self) -> Result<()> {
        self.stop.cancel();
        let tokio = tokio::runtime::Handle::current();
        if let Some(groups) = &self.groups
            && self.must_be_killed(groups)
        {
            // Before taking `is_stopped`: a start that holds it may be waiting for a frozen init.
            let _ = groups.kill();
        }
        self.link.close();
        // Init may block in the start of a program, and then does not notice the closed socket.
        // That start holds `is_stopped`, which is taken below.
        let kill = self.groups.clone().map(|groups| {
            tokio.spawn(async move {
                tokio::time::sleep(STOP_TIMEOUT).await;
                let _ = tokio::task::spawn_blocking(move || groups.kill()).await;
            })
        });
        *self.is_stopped.write_unpoisoned() = true;
        drop(self.lock_network().take());
        self.supervisors.close();
        let ended = async {
            self.supervisors.wait().await;
            self.link.wait_gone().await;
        };
        let outcome = tokio
            .block_on(async { tokio::time::timeout(STOP_TIMEOUT + KILLED_TIMEOUT, ended).await });
        if let Some(kill) = kill {
            kill.abort();
        }
        if outcome.is_err() {
            return Err(Error::new(
                ErrorCode::Timeout,
                "sandbox did not end in time after it was killed",
            )
            .with_hint("a process of it may be stuck in the kernel; try again later"));
        }
        match &self.groups {
            Some(groups) => groups
                .wait_until_empty()
                .map_err(|error| Error::io("end the processes of a session", error)),
            None => Ok(()),
        }
    }
}

impl Drop for BoxSandbox {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(groups) = &self.groups
            && self.must_be_killed(groups)
        {
            let _ = groups.kill();
        }
        self.link.close();
    }
}
