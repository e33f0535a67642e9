//! Creation of namespaces and switching of credentials.

#![expect(
    unsafe_code,
    reason = "`clone3`, `unshare` and `setns` have no safe wrapper"
)]

use std::{
    ffi::c_int,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    ptr,
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};
use sandbar_core::OwnerMap;

use super::capabilities;
use crate::protocol::{Connection, send_frame};

/// `libc` declares it with a type that is too small.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
pub(super) const CLONE_NEWTIME: c_int = 0x80;

/// Namespaces that every native box is forked into. The network namespace is created before, the
/// cgroup namespace after the cgroups are entered, and the user namespace is entered last.
pub(super) const NATIVE_BOX: u64 = libc::CLONE_NEWNS as u64
    | libc::CLONE_NEWPID as u64
    | libc::CLONE_NEWIPC as u64
    | libc::CLONE_NEWUTS as u64
    | CLONE_NEWTIME as u64;

/// Kinds of namespaces that a box must not create, as named in `/proc/sys/user`.
const LIMITED: [&str; 8] = ["user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"];

/// Forks into new namespaces and, if given, into a cgroup. Returns `None` in the child. The caller
/// must be single-threaded, so that the child need not be async-signal-safe.
pub(super) fn fork(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<u32>> {
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: the arguments are valid for their size; without CLONE_VM the child has its own copy
    // of the memory.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            ptr::from_mut(&mut arguments),
            size_of::<libc::clone_args>(),
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => u32::try_from(pid)
            .map(Some)
            .map_err(|_| io::Error::other("clone3 returned a pid out of range")),
    }
}

pub(super) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: this process is single-threaded, and neither memory nor descriptors are unshared.
    if unsafe { libc::unshare(flags) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn enter(namespace: BorrowedFd<'_>, kind: c_int) -> io::Result<()> {
    // SAFETY: the call takes a descriptor and a number.
    if unsafe { libc::setns(namespace.as_raw_fd(), kind) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Creates a user namespace that maps uids and gids `0..COUNT` to those from `first`, and in which
/// no namespaces can be created.
///
/// The kernel charges what a user of the namespace holds (inotify instances, message queues,
/// pending signals, locked memory) to the creator of the namespace too. So it is created as
/// `creator`, a uid that no process of the machine has: otherwise one box could use up the limits
/// of the machine's root.
pub(super) fn make_owners(first: u32, creator: u32) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let Some(pid) = fork(0, None)? else {
        drop(ours);
        let made = create_as(creator);
        let errno = made
            .as_ref()
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        let namespace: Vec<_> = made.iter().map(AsFd::as_fd).collect();
        let _ = send_frame(theirs.as_fd(), &errno.to_le_bytes(), &namespace);
        // The parent writes the maps, which needs this process, and closes its socket.
        let _ = rustix::io::read(&theirs, &mut [0]);
        // SAFETY: ends the forked copy without unwinding.
        unsafe { libc::_exit(0) }
    };
    drop(theirs);
    let mut answers = Connection::new(ours.into());
    let made = (|| {
        let answer = answers.wait()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let errno = answer.try_into().map(i32::from_le_bytes);
        match errno.map_err(|_| io::ErrorKind::InvalidData)? {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let map = format!("0 {first} {}", OwnerMap::COUNT);
        fs::write(format!("/proc/{pid}/gid_map"), &map)?;
        fs::write(format!("/proc/{pid}/uid_map"), &map)?;
        answers.descriptor()
    })();
    drop(answers);
    wait_for(pid);
    made
}

/// Creates the time namespace of the process that is forked next. Its clocks begin now: a box does
/// not see how long the machine has been running. Without `CAP_SYS_TIME` it does.
pub(super) fn prepare_time() -> io::Result<()> {
    unshare(CLONE_NEWTIME)?;
    let offsets = format!(
        "monotonic -{} 0\nboottime -{} 0\n",
        seconds(libc::CLOCK_MONOTONIC),
        uptime()
    );
    let _ = fs::write("/proc/self/timens_offsets", offsets);
    Ok(())
}

/// Returns the age of the caller's time namespace in seconds.
pub(super) fn uptime() -> u64 {
    seconds(libc::CLOCK_BOOTTIME)
}

fn seconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to local memory.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or_default()
}

/// Moves the calling process into a new user namespace, created as `creator`.
fn create_as(creator: u32) -> io::Result<OwnedFd> {
    capabilities::switch_user_keeping(creator)?;
    unshare(libc::CLONE_NEWUSER)?;
    forbid_namespaces(&namespace_limits()?)?;
    // SAFETY: sets a flag of this process. The change of user has cleared it, and with it the
    // access to the process's own `/proc` files.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    Ok(fs::File::open("/proc/self/ns/user")?.into())
}

/// Opens `/proc/sys/user`, the namespace limits of the caller's user namespace.
pub(super) fn namespace_limits() -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        "/proc/sys/user",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Sets all namespace limits to zero. Unlike seccomp this also covers clone3, whose flags a filter
/// cannot read.
pub(super) fn forbid_namespaces(limits: &OwnedFd) -> io::Result<()> {
    for kind in LIMITED {
        let name = format!("max_{kind}_namespaces");
        match openat(
            limits,
            name,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            // This kernel does not have this kind.
            Err(Errno::NOENT) => {}
            limit => drop(rustix::io::write(limit?, b"0")?),
        }
    }
    Ok(())
}

/// Maps root of the user namespace the caller has just created to the caller. An unprivileged
/// process may map no other user.
pub(super) fn map_caller(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))
}

/// Creates a network namespace that has only a loopback interface, which is up. The calling process
/// enters it and returns to `home`.
pub(super) fn make_network(home: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    unshare(libc::CLONE_NEWNET)?;
    allow_low_ports();
    let made = sandbar_netns::raise_loopback().and_then(|()| sandbar_netns::current());
    enter(home, libc::CLONE_NEWNET)?;
    made
}

/// Lets every user of the caller's network namespace, which must belong to a box, bind ports below
/// 1024. If the kernel refuses, these ports stay unusable in the box.
pub(super) fn allow_low_ports() {
    let _ = fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

/// Becomes root of the user namespace. `drop_groups` must be `false` in a namespace created without
/// privileges, where the kernel denies `setgroups`.
pub(super) fn become_root(drop_groups: bool) -> io::Result<()> {
    // SAFETY: changes the credentials of this single-threaded process.
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
    // SAFETY: waits for a child of this process.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}
