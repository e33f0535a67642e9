//! Event loop of init.

#![expect(unsafe_code, reason = "`_exit` and `waitpid` have no safe wrapper")]

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};

use super::{
    child_signals::{child_signals, consume},
    clone::ChildStack,
    connections::Connections,
    guest_groups::GuestGroups,
    launch::Prepared,
    pipes::open_connection,
    relay::Ends,
    terminal::Terminal,
};
use crate::{
    native::oom_score::OomScore,
    process_tree,
    protocol::{Ended, Event, Incoming, InitMode, Order, Request, send_frame},
};

/// Settings of an init.
#[derive(Debug)]
pub(crate) struct InitSettings {
    pub(crate) mode: InitMode,
    /// Directory that working directories are resolved in, if the box has the host's root.
    pub(crate) path_root: Option<OwnedFd>,
    /// `cgroup.kill` of the session, which also kills init. Not needed if init is pid 1.
    pub(crate) cgroup_kill: Option<OwnedFd>,
    /// `None` in a guest, whose kernel kills nothing for memory.
    pub(crate) oom_score: Option<OomScore>,
    /// Orders that were received during the setup.
    pub(crate) received: Incoming,
}

/// Sockets to the host.
#[derive(Debug)]
pub(crate) struct InitSockets {
    /// Orders and their answers, one at a time.
    pub(crate) orders: OwnedFd,
    /// Requests from the host, and events to it.
    pub(crate) events: OwnedFd,
}

pub(super) struct Init {
    pub(super) sockets: InitSockets,
    pub(super) settings: InitSettings,
    pub(super) commands: HashMap<u64, Command>,
    /// Command numbers by pid.
    pub(super) numbers: HashMap<i32, u64>,
    pub(super) groups: Option<GuestGroups>,
    /// Own groups that may still have processes.
    pub(super) old_groups: Vec<u64>,
    pub(super) prepared: HashMap<u64, Prepared>,
    connections: Connections,
    /// Probed for the first terminal.
    pub(super) kernel_sends_signals: Option<bool>,
    pub(super) stack: ChildStack,
}

pub(super) struct Command {
    pub(super) pid: i32,
    pub(super) terminal: Option<Terminal>,
    /// The command has ended, but output of its terminal is not sent yet.
    pub(super) ended: Option<Ended>,
}

/// Serves the host until it closes a socket, then kills everything and exits.
pub(crate) fn serve(sockets: InitSockets, settings: InitSettings) -> ! {
    let mut init = Init {
        sockets,
        settings,
        commands: HashMap::new(),
        numbers: HashMap::new(),
        groups: None,
        old_groups: Vec::new(),
        prepared: HashMap::new(),
        connections: Connections::new(),
        kernel_sends_signals: None,
        stack: ChildStack::new(),
    };
    let code = match init.run() {
        Ok(()) => 0,
        Err(error) => {
            let step = c"serve the host".to_owned();
            let _ = init.send(&Event::SetupFailed {
                step,
                errno: error.raw_os_error().unwrap_or_default(),
            });
            1
        }
    };
    init.kill_all();
    // SAFETY: exits without unwinding or running exit handlers of the forked process.
    unsafe { libc::_exit(code) }
}

impl Init {
    fn run(&mut self) -> io::Result<()> {
        let signals = child_signals()?;
        if self.settings.mode == InitMode::Guest {
            self.groups = Some(GuestGroups::mount_at("/proc")?);
        }
        self.send(&Event::Ready)?;
        let (mut orders, mut requests) = (
            std::mem::take(&mut self.settings.received),
            Incoming::default(),
        );
        self.handle_orders(&mut orders)?;
        loop {
            let ready = self.wait(&signals)?;
            // A request that was sent before terminal input, such as a resize, must take effect
            // before the input. So the input is read first and the requests after it, even if
            // `wait` reported only the input.
            let has_input = self
                .terminals()
                .fold(false, |any, terminal| terminal.read_input() | any);
            if ready.requests || (has_input && is_readable(&self.sockets.events)?) {
                if !receive(&self.sockets.events, &mut requests)? {
                    return Ok(());
                }
                while let Some(body) = requests.next_frame()? {
                    self.handle_request(&Request::decode(&body)?, &mut requests)?;
                }
            }
            if ready.orders {
                if !receive(&self.sockets.orders, &mut orders)? {
                    return Ok(());
                }
                self.handle_orders(&mut orders)?;
            }
            if ready.signals {
                consume(&signals);
            }
            self.terminals().for_each(Terminal::step);
            for (number, errno) in self.connections.step(&ready.connections) {
                self.send(&Event::Dialed { number, errno })?;
            }
            // Also without a signal: a child may have ended before its number was recorded.
            self.reap()?;
            self.report_drained()?;
        }
    }

    fn terminals(&mut self) -> impl Iterator<Item = &mut Terminal> {
        self.commands
            .values_mut()
            .filter_map(|command| command.terminal.as_mut())
    }

    /// Waits for the host, the end of a child, a terminal or a connection.
    fn wait(&self, signals: &OwnedFd) -> io::Result<Ready> {
        let sockets = &self.sockets;
        let mut waiting: Vec<PollFd<'_>> = [&sockets.orders, &sockets.events, signals]
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .into();
        waiting.extend(
            self.commands
                .values()
                .filter_map(|command| command.terminal.as_ref())
                .flat_map(Terminal::interests),
        );
        let connections = self.connections.add_interests(&mut waiting);
        match poll(&mut waiting, None) {
            Ok(_) => {
                let is = |index: usize| !waiting[index].revents().is_empty();
                let connections = connections
                    .into_iter()
                    .map(|mut indices| indices.any(is))
                    .collect();
                Ok(Ready {
                    orders: is(0),
                    requests: is(1),
                    signals: is(2),
                    connections,
                })
            }
            Err(Errno::INTR) => Ok(Ready::default()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn send(&self, event: &Event) -> io::Result<()> {
        send_frame(self.sockets.events.as_fd(), &event.encode(), &[])
    }

    fn handle_orders(&mut self, orders: &mut Incoming) -> io::Result<()> {
        while let Some(body) = orders.next_frame()? {
            match Order::decode(&body)? {
                Order::Exec(order) => self.exec(&order, orders)?,
                Order::Prepare(order) => self.prepare(&order),
            }
        }
        Ok(())
    }

    fn handle_request(&mut self, request: &Request, incoming: &mut Incoming) -> io::Result<()> {
        match *request {
            Request::Signal { number, signal } => {
                let target = self
                    .commands
                    .get(&number)
                    .filter(|command| command.ended.is_none());
                if let Some(pid) = target.and_then(|command| Pid::from_raw(command.pid))
                    && let Some(signal) = Signal::from_named_raw(signal)
                {
                    // Fails if the command has ended; its exit event follows.
                    let _ = kill_process_group(pid, signal);
                }
            }
            Request::Kill { number } => self.kill(number),
            Request::Resize { number, size } => {
                if let Some(terminal) = self
                    .commands
                    .get(&number)
                    .and_then(|command| command.terminal.as_ref())
                {
                    let _ = terminal.resize(size);
                }
            }
            Request::Report => self.send(&Event::Report {
                processes: count_processes(),
            })?,
            Request::Dial {
                number,
                port,
                ref pipes,
            } => {
                let ends = match pipes {
                    Some(directory) => open_connection(directory),
                    None => Ok(Ends::passed(incoming.descriptor()?, incoming.descriptor()?)),
                };
                self.connections.begin(number, port, ends);
            }
        }
        Ok(())
    }

    fn kill(&self, number: u64) {
        if let Some(groups) = &self.groups {
            groups.kill(number);
        } else if let Some(command) = self.commands.get(&number) {
            process_tree::kill(u32::try_from(command.pid).unwrap_or_default());
        }
    }

    /// Reaps all children that have ended, orphans included, and reports the exit of commands.
    fn reap(&mut self) -> io::Result<()> {
        loop {
            let mut status = 0;
            // SAFETY: waits for children of this process, into local memory.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if pid <= 0 {
                return Ok(());
            }
            let Some(number) = self.numbers.remove(&pid) else {
                continue;
            };
            let ended = if libc::WIFSIGNALED(status) {
                Ended::Signal(libc::WTERMSIG(status))
            } else {
                Ended::Code(libc::WEXITSTATUS(status))
            };
            match self.commands.get_mut(&number) {
                Some(command) if command.terminal.is_some() => command.ended = Some(ended),
                _ => {
                    self.commands.remove(&number);
                    self.send(&Event::Exited { number, ended })?;
                }
            }
        }
    }

    /// Reports the exit of commands whose terminal output has been sent.
    fn report_drained(&mut self) -> io::Result<()> {
        let mut drained = Vec::new();
        for (&number, command) in &mut self.commands {
            if let (Some(ended), Some(terminal)) = (command.ended, &mut command.terminal)
                && terminal.is_drained()
            {
                drained.push((number, ended));
            }
        }
        for (number, ended) in drained {
            self.commands.remove(&number);
            self.send(&Event::Exited { number, ended })?;
        }
        Ok(())
    }

    /// Kills everything in the box, after the host has gone.
    fn kill_all(&self) {
        if let Some(cgroup_kill) = &self.settings.cgroup_kill {
            let _ = rustix::io::write(cgroup_kill, b"1");
        }
        for command in self.commands.values() {
            process_tree::kill(u32::try_from(command.pid).unwrap_or_default());
        }
    }
}

/// Sources that are ready.
#[derive(Default)]
struct Ready {
    orders: bool,
    requests: bool,
    signals: bool,
    /// In the order of [`Connections::add_interests`].
    connections: Vec<bool>,
}

/// Returns whether a read would not block.
fn is_readable(socket: &OwnedFd) -> io::Result<bool> {
    match poll(
        &mut [PollFd::new(socket, PollFlags::IN)],
        Some(&Timespec::default()),
    ) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Receives once. Returns `false` if the host has closed the socket.
fn receive(socket: &OwnedFd, incoming: &mut Incoming) -> io::Result<bool> {
    match incoming.receive(socket.as_fd()) {
        Ok(more) => Ok(more),
        Err(Errno::INTR | Errno::AGAIN) => Ok(true),
        Err(Errno::CONNRESET) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Counts the processes in `/proc` without init. If init has a user of its own, also without that
/// user's other processes, such as the DNS relay.
fn count_processes() -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let (own, user) = (std::process::id(), rustix::process::geteuid());
    let is_ours = |pid: u32, entry: &std::fs::DirEntry| {
        pid == own
            || !user.is_root()
                && entry
                    .metadata()
                    .is_ok_and(|metadata| metadata.uid() == user.as_raw())
    };
    let pid_of = |name: &OsStr| name.to_str().and_then(|name| name.parse::<u32>().ok());
    let others =
        entries.filter(|entry| pid_of(&entry.file_name()).is_some_and(|pid| !is_ours(pid, entry)));
    u64::try_from(others.count()).unwrap_or(u64::MAX)
}
