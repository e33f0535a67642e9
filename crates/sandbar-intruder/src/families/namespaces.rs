//! Creating namespaces, and entering those of other processes.

use std::{fs, io, path::Path};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor, open},
    child::{result_in_child, wait},
    facts::Facts,
    verdict::{Inconclusive, Outcome, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "namespaces",
    attempts: &[
        Attempt::new(
            "unshare-user",
            "creates a user namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWUSER),
        ),
        Attempt::new(
            "unshare-mount",
            "creates a mount namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWNS),
        ),
        Attempt::new(
            "unshare-pid",
            "creates a pid namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWPID),
        ),
        Attempt::new(
            "unshare-network",
            "creates a network namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWNET),
        ),
        Attempt::new(
            "unshare-ipc",
            "creates an IPC namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWIPC),
        ),
        Attempt::new(
            "unshare-names",
            "creates a UTS namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWUTS),
        ),
        Attempt::new(
            "unshare-cgroup",
            "creates a cgroup namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWCGROUP),
        ),
        Attempt::new(
            "unshare-time",
            "creates a time namespace with `unshare`; escaped when the call succeeds",
            |_| unshare(CLONE_NEWTIME),
        ),
        Attempt::new(
            "clone-user",
            "creates a user namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWUSER),
        ),
        Attempt::new(
            "clone-mount",
            "creates a mount namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWNS),
        ),
        Attempt::new(
            "clone-pid",
            "creates a pid namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWPID),
        ),
        Attempt::new(
            "clone-network",
            "creates a network namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWNET),
        ),
        Attempt::new(
            "clone-ipc",
            "creates an IPC namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWIPC),
        ),
        Attempt::new(
            "clone-names",
            "creates a UTS namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWUTS),
        ),
        Attempt::new(
            "clone-cgroup",
            "creates a cgroup namespace with `clone`; escaped when the call succeeds",
            |_| clone(CLONE_NEWCGROUP),
        ),
        Attempt::new(
            "clone3-user",
            "creates a user namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWUSER),
        ),
        Attempt::new(
            "clone3-mount",
            "creates a mount namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWNS),
        ),
        Attempt::new(
            "clone3-pid",
            "creates a pid namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWPID),
        ),
        Attempt::new(
            "clone3-network",
            "creates a network namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWNET),
        ),
        Attempt::new(
            "clone3-ipc",
            "creates an IPC namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWIPC),
        ),
        Attempt::new(
            "clone3-names",
            "creates a UTS namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWUTS),
        ),
        Attempt::new(
            "clone3-cgroup",
            "creates a cgroup namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWCGROUP),
        ),
        Attempt::new(
            "clone3-time",
            "creates a time namespace with `clone3`; escaped when the call succeeds",
            |_| clone3(CLONE_NEWTIME),
        ),
        Attempt::new(
            "user-namespace-map",
            "maps root into a nested user namespace; escaped when the uid map is written",
            |_| {
                refused(
                    result_in_child(|| {
                        call!(SYS_unshare, CLONE_NEWUSER)?;
                        fs::write("/proc/self/uid_map", "0 0 1")
                    })?,
                    "mapped root into a nested user namespace",
                )
            },
        ),
        Attempt::new(
            "enter-mount",
            "enters the mount namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("mnt"),
        ),
        Attempt::new(
            "enter-user",
            "enters the user namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("user"),
        ),
        Attempt::new(
            "enter-pid",
            "enters the pid namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("pid"),
        ),
        Attempt::new(
            "enter-network",
            "enters the network namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("net"),
        ),
        Attempt::new(
            "enter-ipc",
            "enters the IPC namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("ipc"),
        ),
        Attempt::new(
            "enter-names",
            "enters the UTS namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("uts"),
        ),
        Attempt::new(
            "enter-cgroup",
            "enters the cgroup namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("cgroup"),
        ),
        Attempt::new(
            "enter-time",
            "enters the time namespace of pid 1; escaped when `setns` succeeds",
            |_| enter("time"),
        ),
        Attempt::new(
            "enter-host",
            "enters the namespaces of a host process; escaped when one `setns` succeeds",
            enter_host,
        ),
        Attempt::new(
            "namespace-parent",
            "opens the parents of its user and pid namespaces; escaped when one opens",
            parents,
        ),
        Attempt::new(
            "namespace-owner",
            "opens the user namespaces that own its namespaces; escaped when one is not its own user namespace",
            owners,
        ),
    ],
};

use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS,
};

/// Defined by `libc` for some targets only.
const CLONE_NEWTIME: i32 = 0x80;

/// Creates the namespace alone, or else with a user namespace that grants the capability for it.
fn alone_or_with_user(kind: i32, make: impl Fn(i32) -> io::Result<()>) -> Outcome {
    let alone = result_in_child(|| make(kind))?;
    let result = if alone.is_err() {
        result_in_child(|| make(kind | CLONE_NEWUSER))?
    } else {
        alone
    };
    refused(result, "namespace created")
}

fn unshare(kind: i32) -> Outcome {
    alone_or_with_user(kind, |flags| call!(SYS_unshare, flags).map(drop))
}

fn clone(kind: i32) -> Outcome {
    alone_or_with_user(kind, |flags| {
        end_child(call!(SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0)?)
    })
}

fn clone3(kind: i32) -> Outcome {
    alone_or_with_user(kind, |flags| {
        let mut arguments = [0_u64; 8];
        arguments[0] = u64::from(flags.cast_unsigned());
        arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
        end_child(call!(
            SYS_clone3,
            Argument::read(&arguments),
            size_of_val(&arguments)
        )?)
    })
}

/// Exits at once in the new process; waits for it in the parent.
fn end_child(pid: usize) -> io::Result<()> {
    if pid == 0 {
        call!(SYS_exit_group, 0)?;
    }
    wait(i32::try_from(pid).map_err(io::Error::other)?).map(drop)
}

fn enter(kind: &'static str) -> Outcome {
    let entered = result_in_child(|| {
        let namespace = open(Path::new(&format!("/proc/1/ns/{kind}")), libc::O_RDONLY)?;
        call!(SYS_setns, &namespace, 0)
    })?;
    refused(entered, "namespace entered")
}

fn enter_host(facts: &Facts) -> Outcome {
    let pid = facts.number("host-pid")?;
    let entered = result_in_child(|| {
        let process = descriptor(call!(SYS_pidfd_open, pid, 0))?;
        let mut last = Ok(0);
        for kind in [
            CLONE_NEWNS,
            CLONE_NEWNET,
            CLONE_NEWPID,
            CLONE_NEWUTS,
            CLONE_NEWIPC,
        ] {
            last = call!(SYS_setns, &process, kind);
            if last.is_ok() {
                break;
            }
        }
        last
    })?;
    refused(entered, "entered a namespace of the host process")
}

const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_PARENT: u32 = 0xb702;

fn parents(_: &Facts) -> Outcome {
    let mut last = String::new();
    for kind in ["user", "pid"] {
        let namespace = open(Path::new(&format!("/proc/self/ns/{kind}")), libc::O_RDONLY)?;
        match descriptor(call!(SYS_ioctl, &namespace, NS_GET_PARENT)) {
            Ok(_) => return escaped(format!("opened the parent of its {kind} namespace")),
            Err(error) => last = error.to_string(),
        }
    }
    held(last)
}

fn owners(_: &Facts) -> Outcome {
    use std::os::unix::fs::MetadataExt;
    let own = fs::metadata("/proc/self/ns/user")?.ino();
    let mut asked = 0;
    for kind in ["mnt", "pid", "net", "ipc", "uts", "cgroup", "time"] {
        let Ok(namespace) = open(Path::new(&format!("/proc/self/ns/{kind}")), libc::O_RDONLY)
        else {
            continue;
        };
        asked += 1;
        if let Ok(owner) = descriptor(call!(SYS_ioctl, &namespace, NS_GET_USERNS))
            && fs::File::from(owner).metadata()?.ino() != own
        {
            return escaped(format!("opened the foreign owner of its {kind} namespace"));
        }
    }
    if asked == 0 {
        return Err(Inconclusive(
            "no namespace link in /proc/self/ns opens".to_owned(),
        ));
    }
    held(format!("no foreign owner of {asked} namespaces opens"))
}
