//! Nested namespaces, and those of others.

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
        Attempt::new("unshare-user", "unshares a user namespace; escaped when it may", |_| unshare(CLONE_NEWUSER)),
        Attempt::new("unshare-mount", "unshares a mount namespace; escaped when it may", |_| unshare(CLONE_NEWNS)),
        Attempt::new("unshare-pid", "unshares a process namespace; escaped when it may", |_| unshare(CLONE_NEWPID)),
        Attempt::new("unshare-network", "unshares a network namespace; escaped when it may", |_| unshare(CLONE_NEWNET)),
        Attempt::new("unshare-ipc", "unshares an IPC namespace; escaped when it may", |_| unshare(CLONE_NEWIPC)),
        Attempt::new("unshare-names", "unshares a host name namespace; escaped when it may", |_| unshare(CLONE_NEWUTS)),
        Attempt::new("unshare-cgroup", "unshares a cgroup namespace; escaped when it may", |_| {
            unshare(CLONE_NEWCGROUP)
        }),
        Attempt::new("unshare-time", "unshares a time namespace; escaped when it may", |_| unshare(CLONE_NEWTIME)),
        Attempt::new("clone-user", "clones into a user namespace; escaped when it may", |_| clone(CLONE_NEWUSER)),
        Attempt::new("clone-mount", "clones into a mount namespace; escaped when it may", |_| clone(CLONE_NEWNS)),
        Attempt::new("clone-pid", "clones into a process namespace; escaped when it may", |_| clone(CLONE_NEWPID)),
        Attempt::new("clone-network", "clones into a network namespace; escaped when it may", |_| clone(CLONE_NEWNET)),
        Attempt::new("clone-ipc", "clones into an IPC namespace; escaped when it may", |_| clone(CLONE_NEWIPC)),
        Attempt::new("clone-names", "clones into a host name namespace; escaped when it may", |_| clone(CLONE_NEWUTS)),
        Attempt::new("clone-cgroup", "clones into a cgroup namespace; escaped when it may", |_| clone(CLONE_NEWCGROUP)),
        Attempt::new("clone3-user", "clones by `clone3` into a user namespace; escaped when it may", |_| {
            clone3(CLONE_NEWUSER)
        }),
        Attempt::new("clone3-mount", "clones by `clone3` into a mount namespace; escaped when it may", |_| {
            clone3(CLONE_NEWNS)
        }),
        Attempt::new("clone3-pid", "clones by `clone3` into a process namespace; escaped when it may", |_| {
            clone3(CLONE_NEWPID)
        }),
        Attempt::new("clone3-network", "clones by `clone3` into a network namespace; escaped when it may", |_| {
            clone3(CLONE_NEWNET)
        }),
        Attempt::new("clone3-ipc", "clones by `clone3` into an IPC namespace; escaped when it may", |_| {
            clone3(CLONE_NEWIPC)
        }),
        Attempt::new("clone3-names", "clones by `clone3` into a host name namespace; escaped when it may", |_| {
            clone3(CLONE_NEWUTS)
        }),
        Attempt::new("clone3-cgroup", "clones by `clone3` into a cgroup namespace; escaped when it may", |_| {
            clone3(CLONE_NEWCGROUP)
        }),
        Attempt::new("clone3-time", "clones by `clone3` into a time namespace; escaped when it may", |_| {
            clone3(CLONE_NEWTIME)
        }),
        Attempt::new(
            "user-namespace-map",
            "maps itself to root in a nested user namespace; escaped when it may",
            |_| {
                refused(
                    result_in_child(|| {
                        call!(SYS_unshare, CLONE_NEWUSER)?;
                        fs::write("/proc/self/uid_map", "0 0 1")
                    })?,
                    "is root of a namespace of its own",
                )
            },
        ),
        Attempt::new("enter-mount", "enters the mount namespace of process 1; escaped when it may", |_| enter("mnt")),
        Attempt::new("enter-user", "enters the user namespace of process 1; escaped when it may", |_| enter("user")),
        Attempt::new("enter-pid", "enters the process namespace of process 1; escaped when it may", |_| enter("pid")),
        Attempt::new("enter-network", "enters the network namespace of process 1; escaped when it may", |_| {
            enter("net")
        }),
        Attempt::new("enter-ipc", "enters the IPC namespace of process 1; escaped when it may", |_| enter("ipc")),
        Attempt::new("enter-names", "enters the host name namespace of process 1; escaped when it may", |_| {
            enter("uts")
        }),
        Attempt::new("enter-cgroup", "enters the cgroup namespace of process 1; escaped when it may", |_| {
            enter("cgroup")
        }),
        Attempt::new("enter-time", "enters the time namespace of process 1; escaped when it may", |_| enter("time")),
        Attempt::new("enter-host", "enters namespaces of a process of the host; escaped when it may", enter_host),
        Attempt::new(
            "namespace-parent",
            "asks for the parents of its namespaces; escaped when it gets a handle of one",
            parents,
        ),
        Attempt::new(
            "namespace-owner",
            "asks who owns its namespaces; escaped when it gets a handle of another user namespace than its own",
            owners,
        ),
    ],
};

use libc::{CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS};

/// `libc` has it for some targets only.
const CLONE_NEWTIME: i32 = 0x80;

/// Tries the namespace alone, and with a user namespace that would give the right to it.
fn alone_or_with_user(kind: i32, make: impl Fn(i32) -> io::Result<()>) -> Outcome {
    let alone = result_in_child(|| make(kind))?;
    let result = if alone.is_err() { result_in_child(|| make(kind | CLONE_NEWUSER))? } else { alone };
    refused(result, "the kernel made it")
}

fn unshare(kind: i32) -> Outcome {
    alone_or_with_user(kind, |flags| call!(SYS_unshare, flags).map(drop))
}

fn clone(kind: i32) -> Outcome {
    alone_or_with_user(kind, |flags| end_child(call!(SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0)?))
}

fn clone3(kind: i32) -> Outcome {
    alone_or_with_user(kind, |flags| {
        let mut arguments = [0_u64; 8];
        arguments[0] = u64::from(flags.cast_unsigned());
        arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
        end_child(call!(SYS_clone3, Argument::read(&arguments), size_of_val(&arguments))?)
    })
}

/// Ends at once as the new process; waits for it as its parent.
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
    refused(entered, "entered it")
}

fn enter_host(facts: &Facts) -> Outcome {
    let pid = facts.number("host-pid")?;
    let entered = result_in_child(|| {
        let process = descriptor(call!(SYS_pidfd_open, pid, 0))?;
        let mut last = Ok(0);
        for kind in [CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWUTS, CLONE_NEWIPC] {
            last = call!(SYS_setns, &process, kind);
            if last.is_ok() {
                break;
            }
        }
        last
    })?;
    refused(entered, "entered one")
}

const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_PARENT: u32 = 0xb702;

fn parents(_: &Facts) -> Outcome {
    let mut last = String::new();
    for kind in ["user", "pid"] {
        let namespace = open(Path::new(&format!("/proc/self/ns/{kind}")), libc::O_RDONLY)?;
        match descriptor(call!(SYS_ioctl, &namespace, NS_GET_PARENT)) {
            Ok(_) => return escaped(format!("holds the parent of its {kind} namespace")),
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
        let Ok(namespace) = open(Path::new(&format!("/proc/self/ns/{kind}")), libc::O_RDONLY) else { continue };
        asked += 1;
        if let Ok(owner) = descriptor(call!(SYS_ioctl, &namespace, NS_GET_USERNS))
            && fs::File::from(owner).metadata()?.ino() != own
        {
            return escaped(format!("holds the owner of its {kind} namespace"));
        }
    }
    if asked == 0 {
        return Err(Inconclusive("the kernel shows no namespaces".to_owned()));
    }
    held(format!("none of {asked} namespaces gives away another owner"))
}
