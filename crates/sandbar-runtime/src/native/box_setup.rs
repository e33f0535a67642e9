//! Setup of a box, from the fork of the spawner to its init: the layers of isolation, in order.
//!
//! The setup of a native box has two parts. [`prepare`] does not depend on the session, [`assign`]
//! does. A box that is created for a session runs both; a prepared box waits for its order in
//! between.

#![expect(unsafe_code, reason = "`prctl` and `_exit` have no safe wrapper")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::fs::{Mode, OFlags, openat};
use sandbar_core::RootRights;

use super::{
    box_handles::{OrderHandles, StartHandles, close_all_but},
    capabilities, landlock,
    mounts::{self, Parts, Users},
    namespaces,
    oom_score::OomScore,
    prepared_mounts::{PreparedMounts, prepare_mounts},
    seccomp,
    template::{self, Nodes, Template},
};
use crate::{
    init::{InitSettings, InitSockets, serve},
    protocol::{BoxOrder, BoxRoot, BoxUsers, Connection, Event, Incoming, InitMode, send_frame},
};

/// Returns the clone flags of the namespaces a box is forked into.
pub(super) fn fork_flags(order: &BoxOrder) -> u64 {
    match (order.mode, order.root, order.user) {
        (InitMode::Native, _, BoxUsers::Caller) => {
            namespaces::NATIVE_BOX
                | libc::CLONE_NEWUSER as u64
                | libc::CLONE_NEWCGROUP as u64
                | libc::CLONE_NEWNET as u64
        }
        (InitMode::Native, ..) => namespaces::NATIVE_BOX,
        (_, BoxRoot::Mount, _) => libc::CLONE_NEWNS as u64,
        _ => 0,
    }
}

/// Sets up a box for a session and runs its init. Reports a failed step to the host.
pub(super) fn run(
    order: &BoxOrder,
    template: Option<&Template>,
    caller: (u32, u32),
    mut start: StartHandles,
    mut handles: OrderHandles,
) -> ! {
    close_all_but(start.numbers().chain(handles.numbers()));
    let outcome = raise_oom_score().and_then(|oom_score| {
        set_up(order, template, caller, &mut start, &mut handles)?;
        Ok(oom_score)
    });
    serve_or_report(order, outcome, start, handles, Incoming::default())
}

/// Sets up a native box before a session needs it, waits for its order and runs its init. Exits
/// when the host closes the socket instead.
pub(super) fn run_prepared(template: Option<&Template>, mut start: StartHandles) -> ! {
    close_all_but(start.numbers());
    let prepared = raise_oom_score().and_then(|oom_score| {
        let mounts = prepare(template, &mut start)?;
        send_frame(start.sockets.events.as_fd(), &Event::Ready.encode(), &[])
            .map_err(at(c"report readiness to the host"))?;
        Ok((mounts, oom_score))
    });
    let (mounts, oom_score) = match prepared {
        Ok(prepared) => prepared,
        Err(failed) => report_and_exit(&start.sockets, failed),
    };
    let mut orders = Connection::new(start.sockets.orders);
    let order = wait_for_order(&mut orders);
    let (socket, received) = orders.into_parts();
    start.sockets.orders = socket;
    match order {
        Ok(Some((order, mut handles))) => {
            let outcome = assign(&order, &mounts, &mut handles, None).map(|()| oom_score);
            drop(mounts);
            serve_or_report(&order, outcome, start, handles, received)
        }
        Ok(None) => exit(0),
        Err(error) => report_and_exit(&start.sockets, (c"decode the order", error)),
    }
}

/// Returns `None` if the host has closed the socket.
fn wait_for_order(orders: &mut Connection) -> io::Result<Option<(BoxOrder, OrderHandles)>> {
    let Some(body) = orders.wait()? else {
        return Ok(None);
    };
    let order = BoxOrder::decode(&body)?;
    let handles = OrderHandles::take(&order, orders)?;
    Ok(Some((order, handles)))
}

fn serve_or_report(
    order: &BoxOrder,
    outcome: Result<OomScore, FailedStep>,
    start: StartHandles,
    handles: OrderHandles,
    received: Incoming,
) -> ! {
    let oom_score = match outcome {
        Ok(oom_score) => Some(oom_score),
        Err(failed) => report_and_exit(&start.sockets, failed),
    };
    let StartHandles {
        sockets,
        cgroup,
        procs,
        network,
        start_gate,
    } = start;
    drop((procs, network, start_gate));
    let OrderHandles {
        root,
        owners,
        init_leaf,
        devices,
    } = handles;
    drop((owners, init_leaf, devices));
    let cgroup_kill = cgroup
        .filter(|_| order.mode != InitMode::Native)
        .and_then(|own| {
            openat(
                own,
                "cgroup.kill",
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .ok()
        });
    let path_root = root.filter(|_| order.root == BoxRoot::Host);
    serve(
        sockets,
        InitSettings {
            mode: order.mode,
            path_root,
            cgroup_kill,
            oom_score,
            received,
        },
    )
}

fn raise_oom_score() -> Result<OomScore, FailedStep> {
    OomScore::raise().map_err(at(c"raise the OOM score"))
}

fn report_and_exit(sockets: &InitSockets, (step, error): FailedStep) -> ! {
    report_setup_failure(sockets, step, &error);
    exit(1)
}

fn exit(code: i32) -> ! {
    // SAFETY: ends the forked copy without unwinding.
    unsafe { libc::_exit(code) }
}

/// Reports to the host that the box could not be created.
pub(super) fn report_setup_failure(sockets: &InitSockets, step: &CStr, error: &io::Error) {
    let event = Event::SetupFailed {
        step: step.to_owned(),
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    // Fails only if the host has closed the socket.
    let _ = send_frame(sockets.events.as_fd(), &event.encode(), &[]);
}

type FailedStep = (&'static CStr, io::Error);

fn at(step: &'static CStr) -> impl FnOnce(io::Error) -> FailedStep {
    move |error| (step, error)
}

fn set_up(
    order: &BoxOrder,
    template: Option<&Template>,
    caller: (u32, u32),
    start: &mut StartHandles,
    handles: &mut OrderHandles,
) -> Result<(), FailedStep> {
    match (order.mode, order.user) {
        (InitMode::Native, BoxUsers::Caller) => {
            let (own_template, limits) = set_up_caller_namespace(order, caller, start, handles)?;
            let mounts = prepare(Some(&own_template), start)?;
            assign(order, &mounts, handles, Some(&limits))
        }
        (InitMode::Native, _) => {
            let mounts = prepare(template, start)?;
            assign(order, &mounts, handles, None)
        }
        (InitMode::Guest | InitMode::Unisolated, _) => {
            enter_v1_groups(&mut start.procs)?;
            enter_init_leaf(handles)?;
            if let (BoxRoot::Mount, Some(root), Some(devices)) =
                (order.root, &handles.root, &handles.devices)
            {
                mounts::assemble_unisolated(root, devices).map_err(at(c"assemble the root"))?;
            }
            // Orphaned descendants are reparented to init, which reaps them.
            // SAFETY: sets a flag of this process.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            Ok(())
        }
    }
}

fn enter_v1_groups(groups: &mut Vec<OwnedFd>) -> Result<(), FailedStep> {
    for procs in groups.drain(..) {
        rustix::io::write(procs, b"0").map_err(|errno| (c"enter the v1 cgroups", errno.into()))?;
    }
    Ok(())
}

fn enter_init_leaf(handles: &mut OrderHandles) -> Result<(), FailedStep> {
    if let Some(procs) = handles.init_leaf.take() {
        rustix::io::write(procs, b"0")
            .map_err(|errno| (c"enter the cgroup of init", errno.into()))?;
    }
    Ok(())
}

/// Sets up the user namespace of an unprivileged host's box, which owns all its other namespaces.
/// Returns its template, and `/proc/sys/user` of that user namespace.
fn set_up_caller_namespace(
    order: &BoxOrder,
    (uid, gid): (u32, u32),
    start: &mut StartHandles,
    handles: &mut OrderHandles,
) -> Result<(Template, OwnedFd), FailedStep> {
    if let Some(start_gate) = start.start_gate.take() {
        rustix::io::read(start_gate, &mut [0])
            .map_err(|errno| (c"wait for the spawner", errno.into()))?;
    }
    namespaces::map_caller(uid, gid).map_err(at(c"map the user"))?;
    sandbar_netns::raise_loopback().map_err(at(c"bring up the loopback interface"))?;
    namespaces::allow_low_ports();
    let limits = namespaces::namespace_limits().map_err(at(c"open the namespace limits"))?;
    // Before the template covers the host's paths.
    handles.root = Some(mounts::clone_tree(&order.path).map_err(at(c"clone the session's tree"))?);
    let template = template::build_template(Nodes::Bound).map_err(at(c"build the template"))?;
    Ok((template, limits))
}

/// Runs the session-independent part of a native box's setup. Nothing of a session is in reach yet.
fn prepare<'a>(
    template: Option<&'a Template>,
    start: &mut StartHandles,
) -> Result<PreparedMounts<'a>, FailedStep> {
    enter_v1_groups(&mut start.procs)?;
    if let Some(network) = start.network.take() {
        namespaces::enter(network.as_fd(), libc::CLONE_NEWNET)
            .map_err(at(c"enter the network namespace"))?;
    }
    let template = template.ok_or_else(|| {
        (
            c"open the template",
            io::Error::from_raw_os_error(libc::EPERM),
        )
    })?;
    prepare_mounts(template).map_err(at(c"prepare the mounts"))
}

/// Turns a prepared native box into the box of a session. `limits` is `/proc/sys/user` of the box's
/// user namespace if that has the caller as its only user.
fn assign(
    order: &BoxOrder,
    mounts: &PreparedMounts<'_>,
    handles: &mut OrderHandles,
    limits: Option<&OwnedFd>,
) -> Result<(), FailedStep> {
    let is_unprivileged = order.user == BoxUsers::Caller;
    if !is_unprivileged {
        // While init is still in the session's group, which becomes the root of the cgroup
        // namespace: the leaf groups of commands are then below that root.
        namespaces::unshare(libc::CLONE_NEWCGROUP).map_err(at(c"create the cgroup namespace"))?;
    }
    enter_init_leaf(handles)?;
    rustix::system::sethostname(order.hostname.as_bytes())
        .map_err(|errno| (c"set the host name", errno.into()))?;
    if order.skip_pids > 0 {
        mounts
            .skip_pids(order.skip_pids)
            .map_err(at(c"skip process ids"))?;
    }
    mounts
        .show_limits(order.visible_memory, order.visible_cpus)
        .map_err(at(c"show the limits"))?;
    let root = handles
        .root
        .as_ref()
        .ok_or((c"open the session's tree", io::ErrorKind::NotFound.into()))?;
    let translated = handles.owners.as_ref().filter(|_| order.first_owner > 0);
    let owners = translated.map(|namespace| (namespace.as_fd(), order.first_owner));
    let users = if is_unprivileged {
        Users::OnlyCaller
    } else {
        Users::Range
    };
    let allow_set_user_id = order.rights == RootRights::Own;
    mounts::assemble(
        mounts,
        &Parts {
            root,
            owners,
            users,
            trust: order.trust.as_ref(),
            allow_set_user_id,
        },
    )
    .map_err(at(c"assemble the root"))?;

    if let Some(limits) = limits {
        // Only now: detached mounts are in anonymous mount namespaces, which count towards the
        // limit.
        namespaces::forbid_namespaces(limits).map_err(at(c"forbid further namespaces"))?;
    } else if let Some(namespace) = handles.owners.take() {
        // Last, so that all other namespaces are owned by the host's user namespace: capabilities
        // in the box's user namespace grant nothing over them.
        namespaces::enter(namespace.as_fd(), libc::CLONE_NEWUSER)
            .map_err(at(c"enter the user namespace"))?;
    }
    namespaces::become_root(!is_unprivileged).map_err(at(c"become the root of the box"))?;
    harden(users, order.rights).map_err(at(c"drop privileges"))
}

/// Drops the privileges of init and, through inheritance, of every command. If the box has several
/// users, init keeps the capabilities it needs to start commands as those users.
fn harden(users: Users, rights: RootRights) -> io::Result<()> {
    let none = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)?;
    match (rights, users) {
        (RootRights::Bare, _) => capabilities::drop_for_programs()?,
        (RootRights::Own, Users::Range) => capabilities::keep_for_root()?,
        // The box's root is a user of the host, so its capabilities would apply to host files.
        (RootRights::Own, Users::OnlyCaller) => {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    // Landlock and seccomp need either no_new_privs, which `keep_for_root` does not set, or
    // CAP_SYS_ADMIN in the user namespace. So both are installed before capabilities are cleared.
    landlock::restrict()?;
    // Commands may run as init's user. Without the dumpable flag, they can neither ptrace init nor
    // open its `/proc` files, and so cannot reach the host's sockets.
    // SAFETY: sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    // A frozen init cannot notice that its socket was closed. The spawner exits with the host, and
    // the kernel then kills init, even if it is frozen.
    // SAFETY: sets a flag of this process. A change of credentials would clear it; there is none
    // after this.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    seccomp::restrict()?;
    match users {
        Users::Range => capabilities::clear_except_init(),
        Users::OnlyCaller => capabilities::clear(),
    }
}
