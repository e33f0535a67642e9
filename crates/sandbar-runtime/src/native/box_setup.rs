//! From a forked copy of the spawner to the init of a box: the lines of defence, in order.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

use rustix::fs::{Mode, OFlags, openat};

use super::{
    capabilities, landlock,
    mounts::{self, Nodes, Parts, Template, Users},
    namespaces, seccomp,
};
use crate::{
    init::{InitSettings, InitSockets, serve},
    protocol::{BoxOrder, Event, InitMode, RootPlace, UserPlace, send_frame},
};

/// The descriptors that came with an order.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) sockets: InitSockets,
    pub(super) root: Option<OwnedFd>,
    pub(super) owners: Option<OwnedFd>,
    pub(super) cgroup: Option<OwnedFd>,
    /// Init's own place in the cgroup, entered last.
    pub(super) room: Option<OwnedFd>,
    pub(super) attach: Vec<OwnedFd>,
    pub(super) devices: Option<OwnedFd>,
    /// A network made ahead.
    pub(super) network: Option<OwnedFd>,
    /// Who the host is.
    pub(super) caller: (u32, u32),
}

impl Handles {
    fn numbers(&self) -> Vec<RawFd> {
        let single = [&self.root, &self.owners, &self.cgroup, &self.room, &self.devices, &self.network];
        let all = single.into_iter().flatten().chain(&self.attach).chain([&self.sockets.orders, &self.sockets.events]);
        all.map(AsRawFd::as_raw_fd).collect()
    }
}

/// Closes everything a forked copy of the spawner must not keep, and leaves nothing of the host's behind 0, 1 and 2.
fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<u32> = kept.iter().filter_map(|&number| u32::try_from(number).ok()).collect();
    kept.sort_unstable();
    let mut from = 3;
    for number in kept.into_iter().chain([u32::MAX]) {
        if from < number {
            // SAFETY: closes what this process has no owner for any more: it never returns to the spawner's code.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
    // SAFETY: the spawner keeps `/dev/null` as 0.
    unsafe { libc::dup2(0, 2) };
}

/// Namespaces the box is forked into.
pub(super) fn fork_flags(order: &BoxOrder) -> u64 {
    match (order.mode, order.root, order.user) {
        (InitMode::Walled, _, UserPlace::Caller) => {
            namespaces::WALLED | libc::CLONE_NEWUSER as u64 | libc::CLONE_NEWCGROUP as u64 | libc::CLONE_NEWNET as u64
        }
        (InitMode::Walled, ..) => namespaces::WALLED,
        (_, RootPlace::Tree, _) => libc::CLONE_NEWNS as u64,
        _ => 0,
    }
}

/// Sets the box up and serves the host as its init. A step that fails is told to the host.
pub(super) fn run(order: &BoxOrder, template: Option<&Template>, mut handles: Handles) -> ! {
    close_all_but(&handles.numbers());
    let outcome = set_up(order, template, &mut handles);
    let Handles { sockets, root, cgroup, owners, room, attach, devices, network, .. } = handles;
    drop((owners, room, attach, devices, network));
    match outcome {
        Ok(()) => {
            let walled = order.mode == InitMode::Walled;
            let kill_switch = cgroup
                .filter(|_| !walled)
                .and_then(|own| openat(own, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).ok());
            let below = root.filter(|_| order.root == RootPlace::Host);
            serve(sockets, InitSettings { mode: order.mode, below, kill_switch })
        }
        Err((step, error)) => {
            tell_broken(&sockets, step, &error);
            // SAFETY: leaves the forked copy without unwinding.
            unsafe { libc::_exit(1) }
        }
    }
}

/// Tells the host that the box could not be made.
pub(super) fn tell_broken(sockets: &InitSockets, step: &CStr, error: &io::Error) {
    let event = Event::Broken { step: step.to_owned(), errno: error.raw_os_error().unwrap_or(libc::EIO) };
    // When the host is gone, nobody wants to know.
    let _ = send_frame(sockets.events.as_fd(), &event.encode(), &[]);
}

type Step = (&'static CStr, io::Error);

fn set_up(order: &BoxOrder, template: Option<&Template>, handles: &mut Handles) -> Result<(), Step> {
    let at = |step: &'static CStr| move |error: io::Error| (step, error);
    for procs in &handles.attach {
        rustix::io::write(procs, b"0").map_err(|errno| (c"enter the cgroups", errno.into()))?;
    }
    handles.attach.clear();
    if order.mode == InitMode::Walled && order.user != UserPlace::Caller {
        // With the whole session's group as its root, so that a command in a room beside init's sees itself below it.
        namespaces::unshare(libc::CLONE_NEWCGROUP).map_err(at(c"make the cgroup namespace"))?;
    }
    if let Some(room) = handles.room.take() {
        rustix::io::write(room, b"0").map_err(|errno| (c"enter the cgroup", errno.into()))?;
    }
    match order.mode {
        InitMode::Walled => wall(order, template, handles),
        InitMode::Guest | InitMode::Open => {
            if let (RootPlace::Tree, Some(root), Some(devices)) = (order.root, &handles.root, &handles.devices) {
                mounts::assemble_open(root, devices).map_err(at(c"put the tree together"))?;
            }
            // Daemons come to us, and end with us.
            // SAFETY: a flag of our own process.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            Ok(())
        }
    }
}

fn wall(order: &BoxOrder, template: Option<&Template>, handles: &mut Handles) -> Result<(), Step> {
    let at = |step: &'static CStr| move |error: io::Error| (step, error);
    let ordinary = order.user == UserPlace::Caller;
    let own_template;
    let mut template = template;
    let limits = if ordinary {
        let (uid, gid) = handles.caller;
        namespaces::map_caller(uid, gid).map_err(at(c"map the user"))?;
        namespaces::raise_loopback().map_err(at(c"raise the loopback"))?;
        let limits = namespaces::namespace_limits().map_err(at(c"find the limits of namespaces"))?;
        // Before the template covers anything.
        handles.root = Some(mounts::take(&order.path).map_err(at(c"find the tree"))?);
        own_template = mounts::build_template(Nodes::Bound).map_err(at(c"build the template"))?;
        template = Some(&own_template);
        Some(limits)
    } else {
        if let Some(network) = handles.network.take() {
            namespaces::enter(network.as_fd(), libc::CLONE_NEWNET).map_err(at(c"enter the network"))?;
        }
        None
    };
    rustix::system::sethostname(order.hostname.as_bytes()).map_err(|errno| (c"set the host name", errno.into()))?;
    let root = handles.root.as_ref().ok_or((c"find the tree", io::ErrorKind::NotFound.into()))?;
    let translated = handles.owners.as_ref().filter(|_| order.first_owner > 0);
    let owners = translated.map(|namespace| (namespace.as_fd(), order.first_owner));
    let template = template.ok_or_else(|| (c"find the template", io::Error::from_raw_os_error(libc::EPERM)))?;
    let users = if ordinary { Users::One } else { Users::Many };
    mounts::assemble(template, &Parts { root, owners, users }).map_err(at(c"put the file system together"))?;

    if let Some(limits) = limits {
        // Only now, since mounts are put together in a namespace too.
        namespaces::forbid_namespaces(&limits).map_err(at(c"forbid further namespaces"))?;
    } else if let Some(namespace) = handles.owners.take() {
        // The other namespaces belong to the host's own user namespace, in which the box has no say.
        namespaces::enter(namespace.as_fd(), libc::CLONE_NEWUSER).map_err(at(c"enter the user namespace"))?;
    }
    namespaces::become_root(!ordinary).map_err(at(c"become the root of the box"))?;
    harden().map_err(at(c"give up privileges"))
}

/// What init and every command give up, for good.
fn harden() -> io::Result<()> {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)?;
    capabilities::drop_all()?;
    landlock::restrict()?;
    // Commands run as the same user; they must not look into init, which holds the host's socket.
    // SAFETY: a flag of our own process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    seccomp::restrict()
}
