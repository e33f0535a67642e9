//! Commands in a box, through its init.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sandbar_core::{ByteCount, Error, ErrorCode, OwnerMap, Result, UserAccount};
use sandbar_netns::{GateSockets, UdpGate};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, oneshot},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    BoxNetworkHandle, InitLink,
    command_control::CommandControl,
    dialing::dial,
    link::{Refusal, StartedCommand},
    pipes::{AdoptedPipes, CommandStreams, OurEnds},
};
use crate::{
    Dialed, ExecEvent, ExecSpec, RunningCommand, Sandbox, SandboxStats, StdinHandle,
    cgroup::{CommandGroup, SessionGroups, SessionLease},
    environment::{Invocation, text},
    gvisor::INIT_USER as GUEST_INIT,
    output::OutputStream,
    protocol::{ExecOrder, GroupPlace, Stage, UserOrder},
    runtime::{ONLY_ROOT, no_network},
    supervise::Supervisor,
};

/// How long a box that is stopped may take to end by itself before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);

const DEFAULT_DIRECTORY: &str = "/workspace";
const DEFAULT_OUTPUT: ByteCount = ByteCount::mib(10);

/// Which commands a box has.
#[derive(Debug)]
pub(crate) struct RunningNumbers {
    /// What the next one is called.
    pub(crate) next: u64,
    /// Those that still have their pipes.
    pub(crate) with_pipes: Vec<u64>,
}

/// What is around a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walls {
    /// A process namespace of its own: the kernel ends everything with its init.
    Namespaces,
    /// Another kernel: init keeps the processes of a command together, since the host cannot see them.
    Guest,
    /// Nothing.
    None,
}

/// Commands of one session.
#[derive(Debug)]
pub(crate) struct BoxSandbox {
    pub(super) link: Arc<InitLink>,
    groups: Option<Arc<SessionLease>>,
    walls: Walls,
    pub(super) streams: CommandStreams,
    next: AtomicU64,
    /// Taken shared by every start, so that none slips through a stop.
    is_stopped: RwLock<bool>,
    stop: CancellationToken,
    supervisors: TaskTracker,
    /// Whose users the commands are, where they are not the host's. Kept as long as the sandbox lives.
    owners: Option<Arc<OwnerMap>>,
    /// `None` without a network of its own, and once it has been stopped.
    network: Mutex<Option<BoxNetworkHandle>>,
}

impl BoxSandbox {
    pub(crate) fn new(
        link: InitLink,
        walls: Walls,
        groups: Option<Arc<SessionLease>>,
        streams: CommandStreams,
        owners: Option<Arc<OwnerMap>>,
        network: Option<BoxNetworkHandle>,
    ) -> Self {
        Self {
            link: Arc::new(link),
            groups,
            walls,
            streams,
            next: AtomicU64::new(1),
            is_stopped: RwLock::new(false),
            stop: CancellationToken::new(),
            supervisors: TaskTracker::new(),
            owners,
            network: Mutex::new(network),
        }
    }

    /// Has the box move. `transfer` ends it where it is and returns the sockets it is reached through from then on; see
    /// [`InitLink::relocate`].
    pub(crate) fn relocate(&self, transfer: impl FnOnce(&RunningNumbers) -> Result<[UnixStream; 2]>) -> Result<()> {
        self.link.relocate(|| {
            let held = self.streams.hold().map_err(|error| Error::io("hold the pipes of a session", error))?;
            let numbers = RunningNumbers { next: self.next.load(Ordering::Relaxed), with_pipes: self.streams.named() };
            let outcome = transfer(&numbers);
            drop(held);
            outcome
        })
    }

    /// Goes on where another sandbox was: commands that ran there run here, with nobody who waits for them.
    pub(crate) fn take_over(&self, next: u64, pipes: Vec<AdoptedPipes>) -> io::Result<()> {
        self.next.fetch_max(next, Ordering::Relaxed);
        for AdoptedPipes { outputs: [stdout, stderr], holder, named } in pipes {
            drop(holder);
            let mut stdout = OutputStream::new(Receiver::from_owned_fd(stdout)?, ExecEvent::Stdout, 0);
            let mut stderr = OutputStream::new(Receiver::from_owned_fd(stderr)?, ExecEvent::Stderr, 0);
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

    /// How many processes there are, where only init can count them.
    pub(crate) fn count_processes(&self) -> Result<u64> {
        self.link.count_processes()
    }

    /// Refuses what comes after a stop, and keeps a stop from coming between.
    pub(super) fn not_stopped(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_stopped = self.is_stopped.read().unwrap_or_else(PoisonError::into_inner);
        if *is_stopped {
            return Err(Error::new(ErrorCode::InvalidState, "the sandbox has been stopped"));
        }
        Ok(is_stopped)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Does ahead what can be done for the next command. When it cannot, that command does it, and tells why.
    pub(crate) fn prepare(&self) {
        let _ = self.link.prepare(|| self.streams.prepare(|| self.next_number()));
    }

    /// Removes the groups of commands that have ended, when they have become many; after the caller has its answer.
    fn tidy(&self) {
        const MANY: u64 = 64;
        let Some(groups) = self.groups.as_ref().filter(|_| self.walls != Walls::Guest) else { return };
        if self.next.load(Ordering::Relaxed).is_multiple_of(MANY) {
            let groups = Arc::clone(groups);
            self.supervisors.spawn_blocking(move || groups.thin_out());
        }
    }

    fn command_group(&self, spec: &ExecSpec) -> io::Result<Option<Arc<CommandGroup>>> {
        match &self.groups {
            Some(groups) if self.walls != Walls::Guest => groups.command(&spec.resources).map(Some),
            _ => Ok(None),
        }
    }

    /// Who init is to make of a command. Nobody in particular for the root of a box that has no other users.
    fn user_order(&self, user: &UserAccount) -> Result<Option<UserOrder>> {
        let is_free = match self.walls {
            Walls::Namespaces => self.owners.is_some(),
            Walls::Guest if user.uid == GUEST_INIT => {
                let what = format!("`{}` is the user of the sandbox's own init, and nobody else", user.name);
                return Err(Error::invalid("user", what).with_hint("use another one"));
            }
            Walls::Guest | Walls::None => rustix::process::geteuid().is_root(),
        };
        match (is_free, user.uid, user.gid) {
            (true, uid, gid) => Ok(Some(UserOrder { uid, gid, groups: user.groups.clone() })),
            (false, 0, 0) => Ok(None),
            (false, ..) => {
                let what = format!("commands cannot run as `{}` here: {ONLY_ROOT}", user.name);
                Err(Error::invalid("user", what).with_hint("leave it out, or run the host as root"))
            }
        }
    }

    /// Who the streams of a command belong to on the host: whoever it runs as, who may open them again by name, as in
    /// `> /dev/stderr`.
    fn stream_owner(&self, user: Option<&UserOrder>) -> Option<(u32, u32)> {
        match (&self.owners, user) {
            (None, user) => user.map(|user| (user.uid, user.gid)),
            (Some(owners), None) => Some((owners.first(), owners.first())),
            (Some(owners), Some(user)) => Some((owners.on_host(user.uid), owners.on_host(user.gid))),
        }
    }

    fn start(
        &self,
        spec: &ExecSpec,
        user: Option<UserOrder>,
        invocation: Invocation,
        cwd: &str,
    ) -> Result<RunningCommand> {
        let io_failed = |error: io::Error| Error::io(format!("start `{}`", spec.argv[0].escape_debug()), error);
        let group = self.command_group(spec).map_err(io_failed)?;
        let directory = text("cwd", cwd)?;
        let owner = self.stream_owner(user.as_ref());
        let (number, pipes) = self.streams.make(spec.stdin, owner, || self.next_number()).map_err(io_failed)?;
        let doors: Vec<BorrowedFd<'_>> = group.iter().flat_map(|group| group.doors()).collect();
        let order = ExecOrder {
            number,
            argv: invocation.argv,
            envp: invocation.envp,
            candidates: invocation.candidates,
            cwd: directory,
            open_files: spec.resources.open_files,
            terminal: spec.terminal,
            streams: pipes.place(),
            group: match &group {
                Some(_) => GroupPlace::Passed,
                None if self.walls == Walls::Guest => GroupPlace::Own,
                None => GroupPlace::Nowhere,
            },
            attach: u8::try_from(doors.len()).unwrap_or_default(),
            user,
        };
        let descriptors: Vec<BorrowedFd<'_>> =
            pipes.theirs().chain(group.as_ref().map(|group| group.as_fd())).chain(doors).collect();
        let outcome = self.link.exec(&order, &descriptors);
        drop(descriptors);
        let ours = pipes.into_ours();
        let started = match outcome {
            Ok(Ok(started)) => started,
            Ok(Err(refusal)) => return Err(explain(refusal, &spec.argv[0], cwd)),
            Err(error) => {
                if error.code() == ErrorCode::Timeout
                    && let Some(groups) = &self.groups
                {
                    // Init is held up by what it was asked to start. The next command gets another box.
                    let _ = groups.kill();
                }
                return Err(error);
            }
        };
        let control = Arc::new(CommandControl {
            link: Arc::clone(&self.link),
            number,
            pid: started.pid,
            has_terminal: spec.terminal.is_some(),
            group: group.clone(),
            killed: CancellationToken::new(),
        });
        let watched = self.watch(spec, started, Arc::clone(&control), group, ours);
        watched.inspect_err(|_| crate::command::Control::kill(&*control)).map_err(io_failed)
    }

    /// Puts a supervisor beside a command.
    fn watch(
        &self,
        spec: &ExecSpec,
        started: StartedCommand,
        control: Arc<CommandControl>,
        group: Option<Arc<CommandGroup>>,
        ours: OurEnds,
    ) -> io::Result<RunningCommand> {
        let limit = spec.resources.output.unwrap_or(DEFAULT_OUTPUT).get();
        let (event_sender, events) = mpsc::channel(16);
        let (exit_sender, exit) = oneshot::channel();
        let (stdin_handle, stdin) = match ours.stdin {
            Some(pipe) => {
                let (handle, chunks) = StdinHandle::channel();
                (Some(handle), Some((Sender::from_owned_fd(pipe)?, chunks)))
            }
            None => (None, None),
        };
        let supervisor = Supervisor {
            ended: started.ended,
            control: Arc::clone(&control) as Arc<dyn crate::command::Control>,
            group,
            whole_box: self.groups.clone().filter(|_| self.walls == Walls::Guest),
            stdout: OutputStream::new(Receiver::from_owned_fd(ours.stdout)?, ExecEvent::Stdout, limit),
            stderr: OutputStream::new(Receiver::from_owned_fd(ours.stderr)?, ExecEvent::Stderr, limit),
            stdin,
            events: event_sender,
            exit: exit_sender,
            named_pipes: ours.named,
            wall_time: spec.resources.wall_time,
            end: spec.end,
            killed: control.killed.clone(),
            stop: self.stop.clone(),
        };
        self.supervisors.spawn(supervisor.run());
        Ok(RunningCommand {
            pid: started.pid,
            events,
            exit: Some(exit),
            stdin: stdin_handle,
            process: control,
            held: None,
        })
    }

    /// Whether it would not end, or not with all it started, because its init ends.
    fn must_be_killed(&self, groups: &SessionGroups) -> bool {
        self.walls != Walls::Namespaces || groups.is_frozen()
    }

    fn lock_network(&self) -> MutexGuard<'_, Option<BoxNetworkHandle>> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_network<T>(&self, work: impl FnOnce(&BoxNetworkHandle) -> io::Result<T>) -> Result<T> {
        let _not_stopped = self.not_stopped()?;
        let network = self.lock_network();
        let network = network.as_ref().ok_or_else(no_network)?;
        work(network).map_err(|error| Error::io("open the gate of the sandbox", error))
    }

    fn groups(&self) -> Result<&SessionGroups> {
        self.groups.as_ref().map(|lease| &***lease).ok_or_else(|| {
            Error::new(ErrorCode::InvalidState, "processes cannot be frozen here, since cgroups cannot be used")
                .with_hint("see the capability `pause`")
        })
    }
}

impl Sandbox for BoxSandbox {
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand> {
        let _not_stopped = self.not_stopped()?;
        if spec.user.is_some() && user.is_none() {
            // Never as root instead.
            return Err(Error::internal("the user of a command was not looked up"));
        }
        let invocation = Invocation::prepare(&spec.argv, &spec.env, user)?;
        let cwd = absolute(spec.cwd.as_deref().unwrap_or(DEFAULT_DIRECTORY));
        let user = user.map(|user| self.user_order(user)).transpose()?.flatten();
        let running = self.start(&spec, user, invocation, &cwd)?;
        self.prepare();
        self.tidy();
        Ok(running)
    }

    fn dial(&self, port: u16, patience: Duration) -> Result<Dialed> {
        dial(self, port, patience)
    }

    fn open_gate(&self, udp_ports: &[u16]) -> Result<GateSockets> {
        self.with_network(|network| network.open_gate(udp_ports))
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpGate>> {
        self.with_network(|network| network.reopen_udp(udp_ports))
    }

    fn cgroup(&self) -> Option<PathBuf> {
        self.groups.as_ref().map(|groups| groups.directory().to_owned())
    }

    fn is_alive(&self) -> bool {
        !self.link.is_gone()
    }

    fn freeze(&self) -> Result<()> {
        self.groups()?.freeze().map_err(|error| Error::io("freeze a session", error))
    }

    fn thaw(&self) -> Result<()> {
        self.groups()?.thaw().map_err(|error| Error::io("thaw a session", error))
    }

    fn stats(&self) -> Result<SandboxStats> {
        Ok(self.groups.as_ref().map(|groups| groups.stats()).unwrap_or_default())
    }

    fn stop(&self) -> Result<()> {
        self.stop.cancel();
        let tokio = tokio::runtime::Handle::current();
        if let Some(groups) = &self.groups
            && self.must_be_killed(groups)
        {
            // First, since a start may be waiting for an init that is frozen, and we for the start.
            let _ = groups.kill();
        }
        self.link.hang_up();
        // Init may be held up by a program it starts, and then hears of nothing. A start waits for it, and we for the start.
        let kill = self.groups.clone().map(|groups| {
            tokio.spawn(async move {
                tokio::time::sleep(END_TIMEOUT).await;
                let _ = tokio::task::spawn_blocking(move || groups.kill()).await;
            })
        });
        *self.is_stopped.write().unwrap_or_else(PoisonError::into_inner) = true;
        drop(self.lock_network().take());
        self.supervisors.close();
        tokio.block_on(async {
            self.supervisors.wait().await;
            self.link.ended().await;
        });
        if let Some(kill) = kill {
            kill.abort();
        }
        match &self.groups {
            Some(groups) => groups.empty().map_err(|error| Error::io("end the processes of a session", error)),
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
        self.link.hang_up();
    }
}

/// The path as seen from the root of the session.
fn absolute(cwd: &str) -> String {
    if cwd.starts_with('/') { cwd.to_owned() } else { format!("{DEFAULT_DIRECTORY}/{cwd}") }
}

fn explain((stage, cause): Refusal, program: &str, cwd: &str) -> Error {
    let program = program.escape_debug();
    match (stage, cause.raw_os_error()) {
        (Stage::Directory, _) => {
            Error::invalid("cwd", format!("working directory `{}` cannot be entered: {cause}", cwd.escape_debug()))
                .with_hint("give a directory that exists in the session, and that its user may enter")
        }
        (Stage::User, _) => Error::invalid("user", format!("`{program}` cannot run as this user: {cause}"))
            .with_hint("leave it out to run as root of the sandbox"),
        (Stage::Exec, Some(libc::ENOENT | libc::ENOTDIR)) => {
            Error::new(ErrorCode::FileNotFound, format!("command `{program}` was not found in the session"))
                .with_field("argv")
                .with_hint("check the name, and `PATH`; a script may also lack its interpreter")
        }
        (Stage::Exec, Some(libc::EACCES | libc::ENOEXEC | libc::EPERM)) => {
            Error::invalid("argv", format!("command `{program}` is not executable"))
                .with_hint("give it execute permission, and make sure it is a program for this machine")
        }
        // Some kernels complain about the name of an argument instead.
        (Stage::Exec, Some(libc::E2BIG | libc::ENAMETOOLONG)) => {
            Error::invalid("argv", format!("arguments and environment of `{program}` are too long"))
                .with_hint("pass the data through stdin or a file")
        }
        (Stage::Fork, Some(libc::EAGAIN)) => Error::new(
            ErrorCode::Unavailable,
            format!("`{program}` cannot start: the session's process limit is reached"),
        )
        .with_field("resources.pids")
        .with_hint("end some of its processes, or raise the limit"),
        _ => Error::io(format!("start `{program}`"), cause),
    }
}
