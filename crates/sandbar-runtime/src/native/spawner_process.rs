//! The spawner: a small single-threaded process that boxes are forked from.
//!
//! Forking the host would be slow, because of its memory, and after the fork of a multi-threaded
//! process only async-signal-safe functions may be called. The spawner avoids both. It is the same
//! binary, started first, and holds nothing but its socket.

#![expect(
    unsafe_code,
    reason = "`signal`, `setsid` and `_exit` have no safe wrapper"
)]

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd, OwnedFd},
};

use super::{
    box_handles::{OrderHandles, StartHandles},
    box_setup, caller_listeners, namespaces, seccomp,
    template::{self, Template},
};
use crate::protocol::{BoxOrder, BoxUsers, Connection, SpawnerAnswer, SpawnerRequest, StartOrder};

/// Number of network namespaces kept in reserve. Creating one takes as long as the rest of a box.
const SPARE_NETWORKS: usize = 4;

struct Spawner {
    connection: Connection,
    networks: Vec<OwnedFd>,
    /// Network namespace of the host.
    home: OwnedFd,
    caller: (u32, u32),
    /// `None` if mount namespaces cannot be created.
    template: Option<Template>,
}

/// Serves the host until it closes the socket. Boxes end when their own sockets are closed.
pub(crate) fn serve(socket: OwnedFd) -> io::Result<()> {
    // SAFETY: sets a signal disposition. The kernel reaps children from here on; their exit status
    // is not needed.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // In a session of its own, the spawner does not get the signals of the host's terminal.
    // SAFETY: starts a new session. Fails only for a process group leader, which this is not.
    unsafe { libc::setsid() };
    let caller = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let entered = if caller.0 == 0 {
        template::enter_template()
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    };
    let errno = entered
        .as_ref()
        .err()
        .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    seccomp::prepare();
    let home = sandbar_netns::current()?;
    let mut spawner = Spawner {
        connection: Connection::new(socket),
        networks: Vec::new(),
        home,
        caller,
        template: entered.ok(),
    };
    spawner
        .connection
        .send(&SpawnerAnswer::Hello { errno }.encode(), &[])?;
    loop {
        spawner.prepare_networks();
        let Some(body) = spawner.connection.wait()? else {
            return Ok(());
        };
        match SpawnerRequest::decode(&body)? {
            SpawnerRequest::Owners { first, creator } => spawner.make_owners(first, creator)?,
            SpawnerRequest::Box(start, order) => spawner.make_box(start, &order)?,
            SpawnerRequest::Prepare(start) => spawner.prepare_box(start)?,
            SpawnerRequest::Network => spawner.make_network()?,
            SpawnerRequest::ProbeListeners => {
                spawner.answer_in_fork(|spawner| {
                    caller_listeners::probe(&spawner.connection, spawner.caller)
                })?;
            }
            SpawnerRequest::OpenListeners(order) => {
                let namespaces = [
                    spawner.connection.descriptor()?,
                    spawner.connection.descriptor()?,
                ];
                spawner.answer_in_fork(|spawner| {
                    caller_listeners::open(&spawner.connection, &order, &namespaces)
                })?;
            }
        }
    }
}

/// Result of forking a box.
enum Fork {
    Parent(u32),
    Child(StartHandles),
    /// The failure was reported on the sockets of the box.
    Failed(io::Error),
}

/// Opens the user and network namespace of a box that still waits at its start gate. Once it is not
/// dumpable any more, the kernel denies that.
fn open_namespaces(pid: u32) -> io::Result<[OwnedFd; 2]> {
    let open =
        |kind: &str| Ok::<_, io::Error>(fs::File::open(format!("/proc/{pid}/ns/{kind}"))?.into());
    Ok([open("user")?, open("net")?])
}

impl Spawner {
    fn make_owners(&self, first: u32, creator: u32) -> io::Result<()> {
        match namespaces::make_owners(first, creator) {
            Ok(namespace) => self
                .connection
                .send(&SpawnerAnswer::Owners.encode(), &[namespace.as_fd()]),
            Err(error) => self.fail("create a user namespace", &error),
        }
    }

    fn make_network(&mut self) -> io::Result<()> {
        match self
            .networks
            .pop()
            .map_or_else(|| namespaces::make_network(self.home.as_fd()), Ok)
        {
            Ok(network) => self
                .connection
                .send(&SpawnerAnswer::Network.encode(), &[network.as_fd()]),
            Err(error) => self.fail("create a network namespace", &error),
        }
    }

    fn make_box(&mut self, start: StartOrder, order: &BoxOrder) -> io::Result<()> {
        let mut start = StartHandles::take(start, &mut self.connection)?;
        let handles = OrderHandles::take(order, &mut self.connection)?;
        if order.user != BoxUsers::Caller {
            if let Fork::Child(start) = Self::fork(box_setup::fork_flags(order), start) {
                box_setup::run(order, self.template.as_ref(), self.caller, start, handles);
            }
            return Ok(());
        }
        let (reader, writer) = namespaces::pipe()?;
        start.start_gate = Some(reader);
        match Self::fork(box_setup::fork_flags(order), start) {
            Fork::Child(start) => {
                box_setup::run(order, self.template.as_ref(), self.caller, start, handles)
            }
            Fork::Parent(pid) => {
                let namespaces = open_namespaces(pid);
                drop(writer);
                match namespaces {
                    Ok([user, network]) => self.connection.send(
                        &SpawnerAnswer::Namespaces.encode(),
                        &[user.as_fd(), network.as_fd()],
                    ),
                    Err(error) => self.fail("open the namespaces of a box", &error),
                }
            }
            Fork::Failed(error) => self.fail("fork into new namespaces", &error),
        }
    }

    fn prepare_box(&mut self, start: StartOrder) -> io::Result<()> {
        let start = StartHandles::take(start, &mut self.connection)?;
        if let Fork::Child(start) = Self::fork(namespaces::NATIVE_BOX, start) {
            box_setup::run_prepared(self.template.as_ref(), start);
        }
        Ok(())
    }

    /// Forks a box. The child must not return to the spawner's loop.
    fn fork(flags: u64, start: StartHandles) -> Fork {
        let cgroup = start.cgroup.as_ref().map(AsFd::as_fd);
        let time = namespaces::CLONE_NEWTIME as u64;
        // The time namespace of an unprivileged host's box belongs to its user namespace, which is
        // created by the fork.
        let sets_clocks = flags & time != 0 && flags & libc::CLONE_NEWUSER as u64 == 0;
        let forked = if sets_clocks {
            namespaces::prepare_time().and_then(|()| namespaces::fork(flags & !time, cgroup))
        } else {
            namespaces::fork(flags, cgroup)
        };
        match forked {
            Ok(Some(pid)) => Fork::Parent(pid),
            Ok(None) => Fork::Child(start),
            Err(error) => {
                box_setup::report_setup_failure(
                    &start.sockets,
                    c"fork into new namespaces",
                    &error,
                );
                Fork::Failed(error)
            }
        }
    }

    /// Answers a request in a fork, which may enter namespaces that it cannot leave.
    fn answer_in_fork(&self, answer: impl FnOnce(&Self) -> io::Result<()>) -> io::Result<()> {
        match namespaces::fork(0, None) {
            Ok(Some(pid)) => {
                namespaces::wait_for(pid);
                Ok(())
            }
            Ok(None) => {
                let answered =
                    answer(self).or_else(|error| self.fail("open netns listeners", &error));
                // SAFETY: ends the forked copy without unwinding.
                unsafe { libc::_exit(i32::from(answered.is_err())) }
            }
            Err(error) => self.fail("fork", &error),
        }
    }

    /// Fills the reserve of network namespaces while no request is pending.
    fn prepare_networks(&mut self) {
        while self.template.is_some() && self.networks.len() < SPARE_NETWORKS && !self.has_request()
        {
            match namespaces::make_network(self.home.as_fd()) {
                Ok(network) => self.networks.push(network),
                // Reported when a box needs one.
                Err(_) => return,
            }
        }
    }

    fn has_request(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut waiting = [PollFd::new(&self.connection, PollFlags::IN)];
        poll(
            &mut waiting,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        )
        .is_ok_and(|count| count > 0)
    }

    fn fail(&self, step: &str, error: &io::Error) -> io::Result<()> {
        let step = CString::new(step).unwrap_or_default();
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.connection
            .send(&SpawnerAnswer::Failed { step, errno }.encode(), &[])
    }
}
