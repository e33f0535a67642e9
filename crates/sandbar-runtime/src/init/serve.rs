//! The loop of init.

use std::{
    collections::HashMap,
    ffi::{CStr, OsStr},
    io,
    os::{
        fd::{AsFd, FromRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    ptr,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};

use super::{
    clone::ChildStack,
    connections::Connections,
    groups::OwnGroups,
    relay::Ends,
    start::{Launch, NotStarted, start},
    terminal::{Terminal, TerminalKeeper},
    terminal_signals::kernel_sends_them,
};
use crate::{
    process_tree,
    protocol::{
        Ended, Event, ExecAnswer, ExecOrder, GroupPlace, Incoming, InitMode, Order, PrepareOrder, Request, Stage,
        Streams, send_frame,
    },
};

/// What init is told before it starts.
#[derive(Debug)]
pub(crate) struct InitSettings {
    pub(crate) mode: InitMode,
    /// Working directories lie below this one, where the box has the host's root.
    pub(crate) below: Option<OwnedFd>,
    /// Writing `1` ends everything in the box, init too. Not needed where init is pid 1.
    pub(crate) kill_switch: Option<OwnedFd>,
    /// What of the orders has arrived already.
    pub(crate) arrived: Incoming,
}

/// The host's ends of two conversations.
#[derive(Debug)]
pub(crate) struct InitSockets {
    /// Orders come and are answered, one at a time.
    pub(crate) orders: OwnedFd,
    /// Everything else: what the host wants done to commands, and what happened to them.
    pub(crate) events: OwnedFd,
}

struct Init {
    sockets: InitSockets,
    settings: InitSettings,
    commands: HashMap<u64, Command>,
    numbers: HashMap<i32, u64>,
    groups: Option<OwnGroups>,
    /// Groups of ours that may still have somebody in them.
    left: Vec<u64>,
    prepared: HashMap<u64, Prepared>,
    connections: Connections,
    /// Found out when the first terminal is made.
    kernel_knows_terminals: Option<bool>,
    stack: ChildStack,
}

struct Command {
    pid: i32,
    terminal: Option<Terminal>,
    /// It has ended, and what it showed is still on its way.
    ended: Option<Ended>,
}

/// Serves the host until its socket closes, then ends everything and exits.
pub(crate) fn serve(sockets: InitSockets, settings: InitSettings) -> ! {
    let mut init = Init {
        sockets,
        settings,
        commands: HashMap::new(),
        numbers: HashMap::new(),
        groups: None,
        left: Vec::new(),
        prepared: HashMap::new(),
        connections: Connections::new(),
        kernel_knows_terminals: None,
        stack: ChildStack::new(),
    };
    let code = match init.run() {
        Ok(()) => 0,
        Err(error) => {
            let step = c"serve the host".to_owned();
            let _ = init.tell(&Event::Broken { step, errno: error.raw_os_error().unwrap_or_default() });
            1
        }
    };
    init.end();
    // SAFETY: leaves without unwinding into a runtime that was never set up here.
    unsafe { libc::_exit(code) }
}

impl Init {
    fn run(&mut self) -> io::Result<()> {
        let signals = child_signals()?;
        if self.settings.mode == InitMode::Guest {
            self.groups = Some(OwnGroups::mount_at("/proc")?);
        }
        self.tell(&Event::Ready)?;
        let (mut orders, mut requests) = (std::mem::take(&mut self.settings.arrived), Incoming::default());
        self.follow(&mut orders)?;
        loop {
            let ready = self.wait(&signals)?;
            // What was asked for before something was typed, a new size, is done before it is typed: read in this order,
            // since both may have come after `wait`.
            let has_input = self.terminals().fold(false, |any, terminal| terminal.take_input() | any);
            if ready.requests || (has_input && is_readable(&self.sockets.events)?) {
                if !receive(&self.sockets.events, &mut requests)? {
                    return Ok(());
                }
                while let Some(body) = requests.next_frame()? {
                    self.act(&Request::decode(&body)?, &mut requests)?;
                }
            }
            if ready.orders {
                if !receive(&self.sockets.orders, &mut orders)? {
                    return Ok(());
                }
                self.follow(&mut orders)?;
            }
            if ready.signals {
                clear(&signals);
            }
            self.terminals().for_each(Terminal::step);
            for (number, errno) in self.connections.step(&ready.connections) {
                self.tell(&Event::Dialed { number, errno })?;
            }
            // Also without a signal: a child may have ended before its number was known.
            self.reap()?;
            self.tell_drained()?;
        }
    }

    fn terminals(&mut self) -> impl Iterator<Item = &mut Terminal> {
        self.commands.values_mut().filter_map(|command| command.terminal.as_mut())
    }

    /// Waits until the host talks, a child ends, or a terminal or a connection has something to move.
    fn wait(&self, signals: &OwnedFd) -> io::Result<Ready> {
        let sockets = &self.sockets;
        let mut waiting: Vec<PollFd<'_>> =
            [&sockets.orders, &sockets.events, signals].map(|fd| PollFd::new(fd, PollFlags::IN)).into();
        waiting.extend(
            self.commands.values().filter_map(|command| command.terminal.as_ref()).flat_map(Terminal::interests),
        );
        let connections = self.connections.join(&mut waiting);
        match poll(&mut waiting, None) {
            Ok(_) => {
                let is = |index: usize| !waiting[index].revents().is_empty();
                let connections = connections.into_iter().map(|mut places| places.any(is)).collect();
                Ok(Ready { orders: is(0), requests: is(1), signals: is(2), connections })
            }
            Err(Errno::INTR) => Ok(Ready::default()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn tell(&self, event: &Event) -> io::Result<()> {
        send_frame(self.sockets.events.as_fd(), &event.encode(), &[])
    }

    /// Does what has been ordered.
    fn follow(&mut self, orders: &mut Incoming) -> io::Result<()> {
        while let Some(body) = orders.next_frame()? {
            match Order::decode(&body)? {
                Order::Exec(order) => self.obey(&order, orders)?,
                Order::Prepare(order) => self.prepare(&order),
            }
        }
        Ok(())
    }

    fn obey(&mut self, order: &ExecOrder, incoming: &mut Incoming) -> io::Result<()> {
        let passed = Passed::take(order, incoming)?;
        let answer = match self.launch(order, passed) {
            Ok(pid) => ExecAnswer::Started { pid: u32::try_from(pid).unwrap_or_default() },
            Err(NotStarted { stage, cause }) => {
                ExecAnswer::NotStarted { stage, errno: cause.raw_os_error().unwrap_or(libc::EIO) }
            }
        };
        send_frame(self.sockets.orders.as_fd(), &answer.encode(), &[])
    }

    fn act(&mut self, request: &Request, incoming: &mut Incoming) -> io::Result<()> {
        match *request {
            Request::Signal { number, signal } => {
                let target = self.commands.get(&number).filter(|command| command.ended.is_none());
                if let Some(pid) = target.and_then(|command| Pid::from_raw(command.pid))
                    && let Some(signal) = Signal::from_named_raw(signal)
                {
                    // It may have just ended; then its end is on the way.
                    let _ = kill_process_group(pid, signal);
                }
            }
            Request::Kill { number } => self.kill(number),
            Request::Resize { number, size } => {
                if let Some(terminal) = self.commands.get(&number).and_then(|command| command.terminal.as_ref()) {
                    let _ = terminal.resize(size);
                }
            }
            Request::Report => self.tell(&Event::Report { processes: count_processes() })?,
            Request::Dial { number, port, ref pipes } => {
                let ends = match pipes {
                    Some(directory) => open_ends(directory),
                    None => Ok(Ends::passed(incoming.descriptor()?, incoming.descriptor()?)),
                };
                self.connections.begin(number, port, ends);
            }
        }
        Ok(())
    }

    fn prepare(&mut self, order: &PrepareOrder) {
        // When it cannot be done now, the command tells why.
        if let Ok(prepared) = Prepared::make(order.number, &order.pipes, self.groups.as_ref()) {
            self.prepared.insert(order.number, prepared);
        }
    }

    fn kill(&self, number: u64) {
        if let Some(groups) = &self.groups {
            groups.kill(number);
        } else if let Some(command) = self.commands.get(&number) {
            process_tree::kill(u32::try_from(command.pid).unwrap_or_default());
        }
    }

    fn launch(&mut self, order: &ExecOrder, passed: Passed) -> Result<i32, NotStarted> {
        let preparing = |cause: io::Error| NotStarted { stage: Stage::Prepare, cause };
        let Passed { streams, group, mut attach } = passed;
        let [stdin, stdout, stderr] = match (&order.streams, streams) {
            (Streams::Passed, Some(streams)) => streams,
            (Streams::Passed, None) => return Err(preparing(Errno::BADF.into())),
            (Streams::Named { pipes, reads }, _) => {
                let prepared = match self.prepared.remove(&order.number) {
                    Some(prepared) => prepared,
                    None => Prepared::make(order.number, pipes, self.groups.as_ref()).map_err(preparing)?,
                };
                attach.extend(prepared.door);
                let [stdin, stdout, stderr] = prepared.streams;
                [if *reads { stdin } else { nothing_to_read().map_err(preparing)? }, stdout, stderr]
            }
        };
        if let (GroupPlace::Own, Some(groups)) = (order.group, &self.groups) {
            self.left.retain(|&number| !groups.forget(number));
            self.left.push(order.number);
        }
        let directory = match &self.settings.below {
            Some(below) => {
                Some(open_below(below, &order.cwd).map_err(|cause| NotStarted { stage: Stage::Directory, cause })?)
            }
            None => None,
        };
        let mut listener = None;
        let (terminal, streams) = match order.terminal {
            Some(size) => {
                let keeper = self.terminal_keeper();
                let made = Terminal::open(size, stdin, stdout, keeper).map_err(preparing)?;
                listener = made.listener;
                if let Some(user) = &order.user {
                    // It may open its terminal again by name. The group is that of terminals.
                    let owner = Some(rustix::fs::Uid::from_raw(user.uid));
                    rustix::fs::fchown(&made.slave, owner, None).map_err(|errno| preparing(errno.into()))?;
                }
                // A kernel that does not know terminals does not know the end of what is typed either.
                let nothing_typed = !order.reads() && keeper == TerminalKeeper::Init;
                let first = if nothing_typed { Some(nothing_to_read().map_err(preparing)?) } else { None };
                (Some(made.terminal), first.into_iter().chain([made.slave]).collect())
            }
            None => (None, vec![stdin, stdout, stderr]),
        };
        let stream = |number: usize| streams.get(number).unwrap_or(&streams[streams.len() - 1]).as_fd();
        let launch = Launch {
            order,
            streams: [stream(0), stream(1), stream(2)],
            has_terminal: terminal.is_some(),
            signal_listener: listener.as_ref().map(AsFd::as_fd),
            cgroup: group.as_ref().map(AsFd::as_fd),
            attach: &attach,
            directory,
            become_root: self.settings.mode == InitMode::Guest,
        };
        let pid = start(&mut self.stack, &launch)?;
        self.numbers.insert(pid, order.number);
        self.commands.insert(order.number, Command { pid, terminal, ended: None });
        Ok(pid)
    }

    fn terminal_keeper(&mut self) -> TerminalKeeper {
        if self.settings.mode != InitMode::Guest {
            return TerminalKeeper::Linux;
        }
        let kernel_knows = *self.kernel_knows_terminals.get_or_insert_with(|| kernel_sends_them().unwrap_or(true));
        if kernel_knows { TerminalKeeper::Guest } else { TerminalKeeper::Init }
    }

    /// Waits for everyone who has ended, orphans too.
    fn reap(&mut self) -> io::Result<()> {
        loop {
            let mut status = 0;
            // SAFETY: waits for our own children, into local memory.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if pid <= 0 {
                return Ok(());
            }
            let Some(number) = self.numbers.remove(&pid) else { continue };
            let ended = if libc::WIFSIGNALED(status) {
                Ended::Signal(libc::WTERMSIG(status))
            } else {
                Ended::Code(libc::WEXITSTATUS(status))
            };
            match self.commands.get_mut(&number) {
                Some(command) if command.terminal.is_some() => command.ended = Some(ended),
                _ => {
                    self.commands.remove(&number);
                    self.tell(&Event::Exited { number, ended })?;
                }
            }
        }
    }

    /// Tells the end of commands whose terminal has been emptied.
    fn tell_drained(&mut self) -> io::Result<()> {
        let mut told = Vec::new();
        for (&number, command) in &mut self.commands {
            if let (Some(ended), Some(terminal)) = (command.ended, &mut command.terminal)
                && terminal.is_drained()
            {
                told.push((number, ended));
            }
        }
        for (number, ended) in told {
            self.commands.remove(&number);
            self.tell(&Event::Exited { number, ended })?;
        }
        Ok(())
    }

    /// The host is gone.
    fn end(&self) {
        if let Some(switch) = &self.settings.kill_switch {
            let _ = rustix::io::write(switch, b"1");
        }
        for command in self.commands.values() {
            process_tree::kill(u32::try_from(command.pid).unwrap_or_default());
        }
    }
}

/// What can be read.
#[derive(Default)]
struct Ready {
    orders: bool,
    requests: bool,
    signals: bool,
    /// In the order they joined.
    connections: Vec<bool>,
}

/// Whether a read would not block.
fn is_readable(socket: &OwnedFd) -> io::Result<bool> {
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads what is there; `false` when the host is gone.
fn receive(socket: &OwnedFd, incoming: &mut Incoming) -> io::Result<bool> {
    match incoming.receive(socket.as_fd()) {
        Ok(more) => Ok(more),
        Err(Errno::INTR | Errno::AGAIN) => Ok(true),
        Err(Errno::CONNRESET) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The descriptors that came with an order.
struct Passed {
    streams: Option<[OwnedFd; 3]>,
    group: Option<OwnedFd>,
    attach: Vec<OwnedFd>,
}

impl Passed {
    fn take(order: &ExecOrder, incoming: &mut Incoming) -> io::Result<Self> {
        let streams = match order.streams {
            Streams::Passed => Some([incoming.descriptor()?, incoming.descriptor()?, incoming.descriptor()?]),
            Streams::Named { .. } => None,
        };
        let group = if order.group == GroupPlace::Passed { Some(incoming.descriptor()?) } else { None };
        let attach = (0..order.attach).map(|_| incoming.descriptor()).collect::<io::Result<_>>()?;
        Ok(Self { streams, group, attach })
    }
}

/// What a command needs and could be had before it came.
struct Prepared {
    streams: [OwnedFd; 3],
    /// The file it enters its group through, where init keeps the groups.
    door: Option<OwnedFd>,
}

impl Prepared {
    fn make(number: u64, pipes: &CStr, groups: Option<&OwnGroups>) -> io::Result<Self> {
        let streams = open_named(pipes)?;
        let door = groups.map(|groups| groups.make(number)).transpose()?;
        Ok(Self { streams, door })
    }
}

/// What `/proc` shows, but for ourselves, and others of ours where we are a user no command is.
fn count_processes() -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let (own, user) = (std::process::id(), rustix::process::geteuid());
    let is_ours = |number: u32, entry: &std::fs::DirEntry| {
        number == own || !user.is_root() && entry.metadata().is_ok_and(|about| about.uid() == user.as_raw())
    };
    let number_of = |name: &OsStr| name.to_str().and_then(|name| name.parse::<u32>().ok());
    let others = entries.filter(|entry| number_of(&entry.file_name()).is_some_and(|number| !is_ours(number, entry)));
    u64::try_from(others.count()).unwrap_or(u64::MAX)
}

fn nothing_to_read() -> io::Result<OwnedFd> {
    Ok(openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The pipes `in`, `out` and `err`. The host has the other ends open already, so that nothing waits here.
fn open_named(directory: &CStr) -> io::Result<[OwnedFd; 3]> {
    let directory = openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let open = |name: &str, flags| openat(&directory, name, flags | OFlags::CLOEXEC, Mode::empty());
    Ok([open("in", OFlags::RDONLY)?, open("out", OFlags::WRONLY)?, open("err", OFlags::WRONLY)?])
}

/// The pipes of a connection. Nothing waits here when the host has given up meanwhile.
fn open_ends(directory: &CStr) -> io::Result<Ends> {
    let directory = openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |name: &str, access: OFlags| openat(&directory, name, access | flags, Mode::empty());
    Ok(Ends {
        input: open("in", OFlags::RDONLY)?,
        output: open("out", OFlags::WRONLY)?,
        taking: Some(open("err", OFlags::WRONLY)?),
        live: Some(open("live", OFlags::RDONLY)?),
    })
}

fn open_below(root: &OwnedFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    loop {
        match openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS) {
            // Something was renamed somewhere while the kernel went through `..`; asked again, it can tell.
            Err(Errno::AGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// Blocks every signal and returns a descriptor that is readable when a child has ended. Actions go back to their
/// defaults here, once, so that commands inherit none of ours.
fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: system calls on local memory; init has one thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let signals = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if signals < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(signals)) }
    }
}

fn clear(signals: &OwnedFd) {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    let _ = rustix::io::read(signals, &mut info);
}
