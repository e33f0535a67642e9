//! The spawner: a small process with one thread, from which boxes are forked.
//!
//! Forking a host with many threads and much memory is slow and leaves little that is safe to do; forking this is neither.
//! It is the same binary, started before anything else and left with nothing but its socket.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd, OwnedFd},
};

use super::{
    box_setup::{self, OrderHandles, StartHandles},
    callers_gate,
    mounts::{self, Template},
    namespaces, seccomp,
};
use crate::protocol::{BoxOrder, Connection, SpawnerAnswer, SpawnerRequest, StartOrder, UserPlace};

/// Networks kept ready: making one takes as long as the rest of a box.
const NETWORKS: usize = 4;

struct Spawner {
    connection: Connection,
    networks: Vec<OwnedFd>,
    /// The host's own network.
    home: OwnedFd,
    caller: (u32, u32),
    /// `None` when boxes cannot have mounts of their own.
    template: Option<Template>,
}

/// Serves the host until its socket closes. Boxes end with their own sockets.
pub(crate) fn serve(socket: OwnedFd) -> io::Result<()> {
    // SAFETY: children are reaped by the kernel from here on; nobody asks how they ended.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // What the terminal of a host in the foreground sends is for the host, which decides what ends.
    // SAFETY: a session of our own; it fails only for a group leader, which we are not.
    unsafe { libc::setsid() };
    let caller = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let entered = if caller.0 == 0 { mounts::enter_template() } else { Err(io::Error::from_raw_os_error(libc::EPERM)) };
    let errno = entered.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    seccomp::prepare();
    let home = sandbar_netns::current()?;
    let mut spawner =
        Spawner { connection: Connection::new(socket), networks: Vec::new(), home, caller, template: entered.ok() };
    spawner.connection.send(&SpawnerAnswer::Hello { errno }.encode(), &[])?;
    loop {
        spawner.prepare_networks();
        let Some(body) = spawner.connection.wait()? else { return Ok(()) };
        match SpawnerRequest::decode(&body)? {
            SpawnerRequest::Owners { first } => spawner.make_owners(first)?,
            SpawnerRequest::Box(start, order) => spawner.make_box(start, &order)?,
            SpawnerRequest::Prepare(start) => spawner.prepare_box(start)?,
            SpawnerRequest::Network => spawner.make_network()?,
            SpawnerRequest::TryGate => {
                spawner.answer_in_a_fork(|spawner| callers_gate::try_out(&spawner.connection, spawner.caller))?
            }
            SpawnerRequest::OpenGate(order) => {
                let namespaces = [spawner.connection.descriptor()?, spawner.connection.descriptor()?];
                spawner.answer_in_a_fork(|spawner| callers_gate::open(&spawner.connection, &order, &namespaces))?;
            }
        }
    }
}

/// Who we are after a fork.
enum Fork {
    Parent(u32),
    Child(StartHandles),
    /// The host was told over the sockets of the box.
    Failed(io::Error),
}

/// The user namespace and the network of a box that waits. Later they could not be looked at.
fn open_namespaces(pid: u32) -> io::Result<[OwnedFd; 2]> {
    let open = |kind: &str| Ok::<_, io::Error>(fs::File::open(format!("/proc/{pid}/ns/{kind}"))?.into());
    Ok([open("user")?, open("net")?])
}

impl Spawner {
    fn make_owners(&self, first: u32) -> io::Result<()> {
        match namespaces::make_owners(first) {
            Ok(namespace) => self.connection.send(&SpawnerAnswer::Owners.encode(), &[namespace.as_fd()]),
            Err(error) => self.fail("make a user namespace", &error),
        }
    }

    fn make_network(&mut self) -> io::Result<()> {
        match self.networks.pop().map_or_else(|| namespaces::make_network(self.home.as_fd()), Ok) {
            Ok(network) => self.connection.send(&SpawnerAnswer::Network.encode(), &[network.as_fd()]),
            Err(error) => self.fail("make a network namespace", &error),
        }
    }

    fn make_box(&mut self, start: StartOrder, order: &BoxOrder) -> io::Result<()> {
        let mut start = StartHandles::take(start, &mut self.connection)?;
        let handles = OrderHandles::take(order, &mut self.connection)?;
        if order.user != UserPlace::Caller {
            if let Fork::Child(start) = Self::fork(box_setup::fork_flags(order), start) {
                box_setup::run(order, self.template.as_ref(), self.caller, start, handles);
            }
            return Ok(());
        }
        let (reader, writer) = namespaces::pipe()?;
        start.held = Some(reader);
        match Self::fork(box_setup::fork_flags(order), start) {
            Fork::Child(start) => box_setup::run(order, self.template.as_ref(), self.caller, start, handles),
            Fork::Parent(pid) => {
                let namespaces = open_namespaces(pid);
                drop(writer);
                match namespaces {
                    Ok([user, network]) => {
                        self.connection.send(&SpawnerAnswer::Namespaces.encode(), &[user.as_fd(), network.as_fd()])
                    }
                    Err(error) => self.fail("find the namespaces of a box", &error),
                }
            }
            Fork::Failed(error) => self.fail("fork into new namespaces", &error),
        }
    }

    fn prepare_box(&mut self, start: StartOrder) -> io::Result<()> {
        let start = StartHandles::take(start, &mut self.connection)?;
        if let Fork::Child(start) = Self::fork(namespaces::WALLED, start) {
            box_setup::run_ahead(self.template.as_ref(), start);
        }
        Ok(())
    }

    /// The forked box must not return to the spawner's loop.
    fn fork(flags: u64, start: StartHandles) -> Fork {
        match namespaces::fork(flags, start.cgroup.as_ref().map(AsFd::as_fd)) {
            Ok(Some(pid)) => Fork::Parent(pid),
            Ok(None) => Fork::Child(start),
            Err(error) => {
                box_setup::tell_broken(&start.sockets, c"fork into new namespaces", &error);
                Fork::Failed(error)
            }
        }
    }

    /// Has a copy of this process answer, which may go where it cannot come back from.
    fn answer_in_a_fork(&self, answer: impl FnOnce(&Self) -> io::Result<()>) -> io::Result<()> {
        match namespaces::fork(0, None) {
            Ok(Some(pid)) => {
                namespaces::wait_for(pid);
                Ok(())
            }
            Ok(None) => {
                let answered = answer(self).or_else(|error| self.fail("open a gate", &error));
                // SAFETY: leaves the forked copy without unwinding.
                unsafe { libc::_exit(i32::from(answered.is_err())) }
            }
            Err(error) => self.fail("fork", &error),
        }
    }

    /// While nobody waits.
    fn prepare_networks(&mut self) {
        while self.template.is_some() && self.networks.len() < NETWORKS && !self.has_request() {
            match namespaces::make_network(self.home.as_fd()) {
                Ok(network) => self.networks.push(network),
                // Told when a box needs one.
                Err(_) => return,
            }
        }
    }

    fn has_request(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut waiting = [PollFd::new(&self.connection, PollFlags::IN)];
        poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    fn fail(&self, step: &str, error: &io::Error) -> io::Result<()> {
        let step = CString::new(step).unwrap_or_default();
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.connection.send(&SpawnerAnswer::Failed { step, errno }.encode(), &[])
    }
}
