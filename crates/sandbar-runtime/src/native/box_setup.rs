//! From a forked copy of the spawner to the init of a box: the lines of defence, in order.
//!
//! They come in two parts. [`prepare`] is what needs not be known whose the box is, and [`furnish`] the rest. A box that is
//! made for a session does one after the other; one that is made ahead waits for its order in between.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

use rustix::fs::{Mode, OFlags, openat};
use sandbar_core::RootRights;

use super::{
    capabilities, landlock,
    mounts::{self, Groundwork, Nodes, Parts, Template, Users},
    namespaces, seccomp,
};
use crate::{
    init::{InitSettings, InitSockets, serve},
    protocol::{BoxOrder, Connection, Event, Incoming, InitMode, RootPlace, StartOrder, UserPlace, send_frame},
};

/// The descriptors a box begins with.
#[derive(Debug)]
pub(super) struct StartHandles {
    pub(super) sockets: InitSockets,
    pub(super) cgroup: Option<OwnedFd>,
    attach: Vec<OwnedFd>,
    /// A network made ahead.
    network: Option<OwnedFd>,
    /// The box does nothing before this is at its end: the spawner looks at what it was forked into.
    pub(super) held: Option<OwnedFd>,
}

impl StartHandles {
    pub(super) fn take(order: StartOrder, connection: &mut Connection) -> io::Result<Self> {
        let mut next = || connection.descriptor();
        Ok(Self {
            sockets: InitSockets { orders: next()?, events: next()? },
            cgroup: order.group.then(&mut next).transpose()?,
            attach: (0..order.attach).map(|_| next()).collect::<io::Result<_>>()?,
            network: order.network.then(&mut next).transpose()?,
            held: None,
        })
    }

    fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let sockets = [&self.sockets.orders, &self.sockets.events];
        let others = [&self.cgroup, &self.network, &self.held].into_iter().flatten().chain(&self.attach);
        others.chain(sockets).map(AsRawFd::as_raw_fd)
    }
}

/// The descriptors that came with what it is to become.
#[derive(Debug)]
pub(super) struct OrderHandles {
    root: Option<OwnedFd>,
    owners: Option<OwnedFd>,
    /// Init's own place in the cgroup, entered last.
    room: Option<OwnedFd>,
    attach: Vec<OwnedFd>,
    devices: Option<OwnedFd>,
}

impl OrderHandles {
    pub(super) fn take(order: &BoxOrder, connection: &mut Connection) -> io::Result<Self> {
        let mut next = |wanted: bool| if wanted { connection.descriptor().map(Some) } else { Ok(None) };
        Ok(Self {
            root: next(order.root != RootPlace::Directory)?,
            owners: next(order.user == UserPlace::Passed)?,
            room: next(order.room)?,
            attach: (0..order.attach).map(|_| next(true)).filter_map(Result::transpose).collect::<io::Result<_>>()?,
            devices: next(order.mode == InitMode::Open && order.root == RootPlace::Tree)?,
        })
    }

    fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let single = [&self.root, &self.owners, &self.room, &self.devices];
        single.into_iter().flatten().chain(&self.attach).map(AsRawFd::as_raw_fd)
    }
}

/// Closes everything a forked copy of the spawner must not keep, and leaves nothing of the host's behind 0, 1 and 2.
fn close_all_but(kept: impl Iterator<Item = RawFd>) {
    let mut kept: Vec<u32> = kept.filter_map(|number| u32::try_from(number).ok()).collect();
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

/// The life of a box for a session: sets itself up and serves the host as its init. A step that fails is told to the
/// host.
pub(super) fn run(
    order: &BoxOrder,
    template: Option<&Template>,
    caller: (u32, u32),
    mut start: StartHandles,
    mut handles: OrderHandles,
) -> ! {
    close_all_but(start.numbers().chain(handles.numbers()));
    let outcome = set_up(order, template, caller, &mut start, &mut handles);
    serve_or_tell(order, outcome, start, handles, Incoming::default())
}

/// The life of a walled box for a session to come, which ends when the host wants it no more.
pub(super) fn run_ahead(template: Option<&Template>, mut start: StartHandles) -> ! {
    close_all_but(start.numbers());
    let prepared = prepare(template, &mut start).and_then(|groundwork| {
        send_frame(start.sockets.events.as_fd(), &Event::Ready.encode(), &[]).map_err(at(c"tell the host"))?;
        Ok(groundwork)
    });
    let groundwork = match prepared {
        Ok(groundwork) => groundwork,
        Err(failed) => give_up(&start.sockets, failed),
    };
    let mut orders = Connection::new(start.sockets.orders);
    let order = wait_for_order(&mut orders);
    let (socket, arrived) = orders.into_parts();
    start.sockets.orders = socket;
    match order {
        Ok(Some((order, mut handles))) => {
            let outcome = furnish(&order, &groundwork, &mut handles, None);
            drop(groundwork);
            serve_or_tell(&order, outcome, start, handles, arrived)
        }
        Ok(None) => leave(0),
        Err(error) => give_up(&start.sockets, (c"understand the order", error)),
    }
}

/// `None` when the host is gone.
fn wait_for_order(orders: &mut Connection) -> io::Result<Option<(BoxOrder, OrderHandles)>> {
    let Some(body) = orders.wait()? else { return Ok(None) };
    let order = BoxOrder::decode(&body)?;
    let handles = OrderHandles::take(&order, orders)?;
    Ok(Some((order, handles)))
}

fn serve_or_tell(
    order: &BoxOrder,
    outcome: Result<(), Step>,
    start: StartHandles,
    handles: OrderHandles,
    arrived: Incoming,
) -> ! {
    if let Err(failed) = outcome {
        give_up(&start.sockets, failed);
    }
    let StartHandles { sockets, cgroup, attach, network, held } = start;
    drop((attach, network, held));
    let OrderHandles { root, owners, room, attach, devices } = handles;
    drop((owners, room, attach, devices));
    let kill_switch = cgroup
        .filter(|_| order.mode != InitMode::Walled)
        .and_then(|own| openat(own, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).ok());
    let below = root.filter(|_| order.root == RootPlace::Host);
    serve(sockets, InitSettings { mode: order.mode, below, kill_switch, arrived })
}

fn give_up(sockets: &InitSockets, (step, error): Step) -> ! {
    tell_broken(sockets, step, &error);
    leave(1)
}

fn leave(code: i32) -> ! {
    // SAFETY: leaves the forked copy without unwinding.
    unsafe { libc::_exit(code) }
}

/// Tells the host that the box could not be made.
pub(super) fn tell_broken(sockets: &InitSockets, step: &CStr, error: &io::Error) {
    let event = Event::Broken { step: step.to_owned(), errno: error.raw_os_error().unwrap_or(libc::EIO) };
    // When the host is gone, nobody wants to know.
    let _ = send_frame(sockets.events.as_fd(), &event.encode(), &[]);
}

type Step = (&'static CStr, io::Error);

fn at(step: &'static CStr) -> impl FnOnce(io::Error) -> Step {
    move |error| (step, error)
}

fn set_up(
    order: &BoxOrder,
    template: Option<&Template>,
    caller: (u32, u32),
    start: &mut StartHandles,
    handles: &mut OrderHandles,
) -> Result<(), Step> {
    match (order.mode, order.user) {
        (InitMode::Walled, UserPlace::Caller) => {
            let (own_template, limits) = begin_as_caller(order, caller, start, handles)?;
            let groundwork = prepare(Some(&own_template), start)?;
            furnish(order, &groundwork, handles, Some(&limits))
        }
        (InitMode::Walled, _) => {
            let groundwork = prepare(template, start)?;
            furnish(order, &groundwork, handles, None)
        }
        (InitMode::Guest | InitMode::Open, _) => {
            enter_cgroups(&mut start.attach)?;
            enter_cgroups(&mut handles.attach)?;
            enter_room(handles)?;
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

fn enter_cgroups(attach: &mut Vec<OwnedFd>) -> Result<(), Step> {
    for procs in attach.drain(..) {
        rustix::io::write(procs, b"0").map_err(|errno| (c"enter the cgroups", errno.into()))?;
    }
    Ok(())
}

fn enter_room(handles: &mut OrderHandles) -> Result<(), Step> {
    if let Some(room) = handles.room.take() {
        rustix::io::write(room, b"0").map_err(|errno| (c"enter the cgroup", errno.into()))?;
    }
    Ok(())
}

/// An ordinary user has a user namespace first, and all else in it. Returns the limits of namespaces in there.
fn begin_as_caller(
    order: &BoxOrder,
    (uid, gid): (u32, u32),
    start: &mut StartHandles,
    handles: &mut OrderHandles,
) -> Result<(Template, OwnedFd), Step> {
    if let Some(held) = start.held.take() {
        rustix::io::read(held, &mut [0]).map_err(|errno| (c"wait for the spawner", errno.into()))?;
    }
    namespaces::map_caller(uid, gid).map_err(at(c"map the user"))?;
    sandbar_netns::raise_loopback().map_err(at(c"raise the loopback"))?;
    namespaces::open_low_ports();
    let limits = namespaces::namespace_limits().map_err(at(c"find the limits of namespaces"))?;
    // Before the template covers anything.
    handles.root = Some(mounts::take(&order.path).map_err(at(c"find the tree"))?);
    let template = mounts::build_template(Nodes::Bound).map_err(at(c"build the template"))?;
    Ok((template, limits))
}

/// What a walled box does whoever gets it. Nothing of a session is in it yet.
fn prepare<'a>(template: Option<&'a Template>, start: &mut StartHandles) -> Result<Groundwork<'a>, Step> {
    enter_cgroups(&mut start.attach)?;
    if let Some(network) = start.network.take() {
        namespaces::enter(network.as_fd(), libc::CLONE_NEWNET).map_err(at(c"enter the network"))?;
    }
    let template = template.ok_or_else(|| (c"find the template", io::Error::from_raw_os_error(libc::EPERM)))?;
    mounts::lay_groundwork(template).map_err(at(c"prepare the file system"))
}

/// Makes a walled box that of a session. `limits` are those of namespaces, where the box has the caller as its only user.
fn furnish(
    order: &BoxOrder,
    groundwork: &Groundwork<'_>,
    handles: &mut OrderHandles,
    limits: Option<&OwnedFd>,
) -> Result<(), Step> {
    let ordinary = order.user == UserPlace::Caller;
    enter_cgroups(&mut handles.attach)?;
    if !ordinary {
        // With the whole session's group as its root, so that a command in a room beside init's sees itself below it.
        namespaces::unshare(libc::CLONE_NEWCGROUP).map_err(at(c"make the cgroup namespace"))?;
    }
    enter_room(handles)?;
    rustix::system::sethostname(order.hostname.as_bytes()).map_err(|errno| (c"set the host name", errno.into()))?;
    if order.skip_pids > 0 {
        groundwork.skip_pids(order.skip_pids).map_err(at(c"skip process ids"))?;
    }
    let root = handles.root.as_ref().ok_or((c"find the tree", io::ErrorKind::NotFound.into()))?;
    let translated = handles.owners.as_ref().filter(|_| order.first_owner > 0);
    let owners = translated.map(|namespace| (namespace.as_fd(), order.first_owner));
    let users = if ordinary { Users::One } else { Users::Many };
    let set_user_id = order.rights == RootRights::Own;
    mounts::assemble(groundwork, &Parts { root, owners, users, trust: order.trust.as_ref(), set_user_id })
        .map_err(at(c"put the file system together"))?;

    if let Some(limits) = limits {
        // Only now, since mounts are put together in a namespace too.
        namespaces::forbid_namespaces(limits).map_err(at(c"forbid further namespaces"))?;
    } else if let Some(namespace) = handles.owners.take() {
        // The other namespaces belong to the host's own user namespace, in which the box has no say.
        namespaces::enter(namespace.as_fd(), libc::CLONE_NEWUSER).map_err(at(c"enter the user namespace"))?;
    }
    namespaces::become_root(!ordinary).map_err(at(c"become the root of the box"))?;
    harden(users, order.rights).map_err(at(c"give up privileges"))
}

/// What init and every command give up, for good. Only init keeps what it takes to start commands as other users, where
/// there are others.
fn harden(users: Users, rights: RootRights) -> io::Result<()> {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)?;
    match (rights, users) {
        (RootRights::Bare, _) => capabilities::drop_for_programs()?,
        (RootRights::Own, Users::Many) => capabilities::keep_for_root()?,
        // Without a range of its own, root is somebody of the host's.
        (RootRights::Own, Users::One) => return Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
    // While we may: where programs can gain something, only who has rights over the namespace may restrict itself.
    landlock::restrict()?;
    // Commands run as the same user; they must not look into init, which holds the host's socket.
    // SAFETY: a flag of our own process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    // Who is frozen does not see its socket close. The spawner ends with the host, and takes frozen boxes along.
    // SAFETY: a flag of our own process, set when its users change no more, since that would take it away.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    seccomp::restrict()?;
    match users {
        Users::Many => capabilities::clear_all_but_inits(),
        Users::One => capabilities::clear(),
    }
}
