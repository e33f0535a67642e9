//! The spawner: a small process with one thread, from which boxes are forked.
//!
//! Forking a host with many threads and much memory is slow and leaves little that is safe to do; forking this is neither.
//! It is the same binary, started before anything else and left with nothing but its socket.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, OwnedFd},
};

use super::{
    box_setup::{self, OrderHandles, StartHandles},
    mounts::{self, Template},
    namespaces, seccomp,
};
use crate::protocol::{BoxOrder, Connection, InitMode, SpawnerAnswer, SpawnerRequest, StartOrder, UserPlace};

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
    let home = namespaces::current_network()?;
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
        }
    }
}

impl Spawner {
    fn make_owners(&self, first: u32) -> io::Result<()> {
        match namespaces::make_owners(first) {
            Ok(namespace) => self.connection.send(&SpawnerAnswer::Owners.encode(), &[namespace.as_fd()]),
            Err(error) => self.fail("make a user namespace", &error),
        }
    }

    fn make_box(&mut self, start: StartOrder, order: &BoxOrder) -> io::Result<()> {
        let start = StartHandles::take(start, &mut self.connection)?;
        let handles = OrderHandles::take(order, &mut self.connection)?;
        let has_network = order.mode == InitMode::Walled && order.user != UserPlace::Caller;
        if let Some(start) = self.fork(box_setup::fork_flags(order), has_network, start) {
            box_setup::run(order, self.template.as_ref(), self.caller, start, handles);
        }
        Ok(())
    }

    fn prepare_box(&mut self, start: StartOrder) -> io::Result<()> {
        let start = StartHandles::take(start, &mut self.connection)?;
        if let Some(start) = self.fork(namespaces::WALLED, true, start) {
            box_setup::run_ahead(self.template.as_ref(), start);
        }
        Ok(())
    }

    /// Returns what it was given in the forked box, which must not return to the spawner's loop.
    fn fork(&mut self, flags: u64, has_network: bool, mut start: StartHandles) -> Option<StartHandles> {
        if has_network {
            match self.networks.pop().map_or_else(|| namespaces::make_network(self.home.as_fd()), Ok) {
                Ok(network) => start.network = Some(network),
                Err(error) => {
                    box_setup::tell_broken(&start.sockets, c"make a network namespace", &error);
                    return None;
                }
            }
        }
        match namespaces::fork(flags, start.cgroup.as_ref().map(AsFd::as_fd)) {
            Ok(Some(_)) => None,
            Ok(None) => Some(start),
            Err(error) => {
                box_setup::tell_broken(&start.sockets, c"fork into new namespaces", &error);
                None
            }
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
