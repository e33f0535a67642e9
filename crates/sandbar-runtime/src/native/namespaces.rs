//! The namespaces of a box, and who it is in them.

use std::{
    ffi::c_int,
    fs, io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    ptr,
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};
use sandbar_core::OwnerMap;

/// `libc` has it in a type too small for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const CLONE_NEWTIME: u64 = 0x80;

/// What every walled box has for itself beside its mounts. Networks are made ahead, cgroup namespaces are entered after
/// the cgroups, and the user namespace last.
pub(super) const WALLED: u64 = libc::CLONE_NEWNS as u64
    | libc::CLONE_NEWPID as u64
    | libc::CLONE_NEWIPC as u64
    | libc::CLONE_NEWUTS as u64
    | CLONE_NEWTIME;

/// Kinds of namespaces a box must not make more of, as `/proc/sys/user` names their limits.
const LIMITED: [&str; 8] = ["user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"];

/// Forks into new namespaces and, if given, a cgroup. `None` in the child. The caller has one thread, so that the child
/// may do anything.
pub(super) fn fork(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<u32>> {
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: the arguments are valid for their size; without CLONE_VM the child has memory of its own.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, ptr::from_mut(&mut arguments), size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => u32::try_from(pid).map(Some).map_err(|_| io::Error::other("the kernel returned an impossible pid")),
    }
}

pub(super) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: this process has one thread, and no descriptor table or memory is unshared.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(super) fn enter(namespace: BorrowedFd<'_>, kind: c_int) -> io::Result<()> {
    // SAFETY: a descriptor and a number.
    if unsafe { libc::setns(namespace.as_raw_fd(), kind) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a user namespace that maps owners `0..COUNT` to those from `first`, and allows no further namespaces in it.
pub(super) fn make_owners(first: u32) -> io::Result<OwnedFd> {
    let (wait_reader, wait_writer) = pipe()?;
    let (done_reader, done_writer) = pipe()?;
    let Some(pid) = fork(libc::CLONE_NEWUSER as u64, None)? else {
        drop(wait_writer);
        drop(done_reader);
        let mut byte = [0];
        let ready = rustix::io::read(&wait_reader, &mut byte).is_ok_and(|count| count == 1);
        let outcome = if ready {
            namespace_limits().and_then(|limits| forbid_namespaces(&limits))
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        };
        let errno = outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        let _ = rustix::io::write(&done_writer, &errno.to_le_bytes());
        // The parent opens our namespace and then ends us.
        let _ = rustix::io::read(&wait_reader, &mut byte);
        // SAFETY: leaves the forked copy without unwinding.
        unsafe { libc::_exit(0) }
    };
    drop(wait_reader);
    drop(done_writer);
    let made = (|| {
        let map = format!("0 {first} {}", OwnerMap::COUNT);
        fs::write(format!("/proc/{pid}/gid_map"), &map)?;
        fs::write(format!("/proc/{pid}/uid_map"), &map)?;
        rustix::io::write(&wait_writer, b"g")?;
        let mut errno = [0; 4];
        if rustix::io::read(&done_reader, &mut errno)? != errno.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match i32::from_le_bytes(errno) {
            0 => Ok(OwnedFd::from(fs::File::open(format!("/proc/{pid}/ns/user"))?)),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    })();
    drop(wait_writer);
    wait_for(pid);
    made
}

/// Where the limits of user namespaces are set. Each sees its own.
pub(super) fn namespace_limits() -> io::Result<OwnedFd> {
    Ok(openat(CWD, "/proc/sys/user", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// No namespaces in this user namespace, whatever flags a system call carries.
pub(super) fn forbid_namespaces(limits: &OwnedFd) -> io::Result<()> {
    for kind in LIMITED {
        let name = format!("max_{kind}_namespaces");
        match openat(limits, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            // A kernel without this kind.
            Err(Errno::NOENT) => {}
            limit => drop(rustix::io::write(limit?, b"0")?),
        }
    }
    Ok(())
}

/// Maps the caller to root in the user namespace it has just made: all an ordinary user may do.
pub(super) fn map_caller(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))
}

/// A network namespace with nothing but its loopback, which is up. The calling process goes there and comes back `home`.
pub(super) fn make_network(home: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    unshare(libc::CLONE_NEWNET)?;
    open_low_ports();
    let made = sandbar_netns::raise_loopback().and_then(|()| sandbar_netns::current());
    enter(home, libc::CLONE_NEWNET)?;
    made
}

/// Everybody in the calling process's network, which must be a box's own, may listen on every port: there is nobody else to
/// keep the low ones for. Where it cannot be, they are for nobody.
pub(super) fn open_low_ports() {
    let _ = fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

/// Becomes root of the user namespace. An ordinary user's namespace has no say in supplementary groups.
pub(super) fn become_root(drop_groups: bool) -> io::Result<()> {
    // SAFETY: changes this process's own credentials; it has one thread.
    unsafe {
        if drop_groups && libc::setgroups(0, ptr::null()) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::setresgid(0, 0, 0) != 0 || libc::setresuid(0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

pub(super) fn wait_for(pid: u32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    // SAFETY: waits for our own child.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}
