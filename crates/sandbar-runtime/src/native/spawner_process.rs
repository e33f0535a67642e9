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
    box_setup::{self, Handles},
    mounts::{self, Template},
    namespaces, seccomp,
};
use crate::{
    init::InitSockets,
    protocol::{BoxOrder, Connection, InitMode, RootPlace, SpawnerAnswer, SpawnerRequest, UserPlace},
};

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
            SpawnerRequest::Box(order) => spawner.make_box(&order)?,
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

    fn make_box(&mut self, order: &BoxOrder) -> io::Result<()> {
        let mut handles = self.take_handles(order)?;
        if order.mode == InitMode::Walled && order.user != UserPlace::Caller {
            match self.networks.pop().map_or_else(|| namespaces::make_network(self.home.as_fd()), Ok) {
                Ok(network) => handles.network = Some(network),
                Err(error) => {
                    box_setup::tell_broken(&handles.sockets, c"make a network namespace", &error);
                    return Ok(());
                }
            }
        }
        match namespaces::fork(box_setup::fork_flags(order), handles.cgroup.as_ref().map(AsFd::as_fd)) {
            Ok(Some(_)) => {}
            Ok(None) => box_setup::run(order, self.template.as_ref(), handles),
            Err(error) => box_setup::tell_broken(&handles.sockets, c"fork into new namespaces", &error),
        }
        Ok(())
    }

    fn take_handles(&mut self, order: &BoxOrder) -> io::Result<Handles> {
        let connection = &mut self.connection;
        let mut next = |wanted: bool| if wanted { connection.descriptor().map(Some) } else { Ok(None) };
        let mut socket = || next(true)?.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
        let sockets = InitSockets { orders: socket()?, events: socket()? };
        let root = next(order.root != RootPlace::Directory)?;
        let owners = next(order.user == UserPlace::Passed)?;
        let cgroup = next(order.group)?;
        let room = next(order.room)?;
        let attach = (0..order.attach).map(|_| next(true)).filter_map(Result::transpose).collect::<io::Result<_>>()?;
        let devices = next(order.mode == InitMode::Open && order.root == RootPlace::Tree)?;
        Ok(Handles { sockets, root, owners, cgroup, room, attach, devices, network: None, caller: self.caller })
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
