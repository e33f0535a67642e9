//! Starting a process: fork straight into a cgroup and a mount namespace, then exec.
//!
//! The standard library cannot do this: it has no `CLONE_INTO_CGROUP`, and its `pre_exec` comes after the working
//! directory is set. Between fork and exec only async-signal-safe calls are made, on memory prepared before.

use std::{
    ffi::{CString, c_char, c_int},
    io::{self, Read},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::environment::Invocation;

/// Where the command starts.
#[derive(Debug)]
pub(crate) enum StartDirectory<'a> {
    /// A path, looked up after entering the mount namespace.
    Path(&'a CString),
    Handle(BorrowedFd<'a>),
}

/// A process about to be started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) invocation: &'a Invocation,
    pub(crate) directory: StartDirectory<'a>,
    /// Entered before anything else, which also makes its root the root.
    pub(crate) mount_namespace: Option<BorrowedFd<'a>>,
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// stdin, stdout, stderr.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    pub(crate) open_files: Option<u64>,
}

/// A process that runs its program.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: u32,
    pub(crate) handle: OwnedFd,
}

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Fork,
    Prepare,
    Directory,
    Exec,
}

#[derive(Debug)]
pub(crate) struct SpawnFailure {
    pub(crate) stage: Stage,
    pub(crate) cause: io::Error,
}

impl SpawnFailure {
    fn fork(cause: impl Into<io::Error>) -> Self {
        Self { stage: Stage::Fork, cause: cause.into() }
    }
}

/// The launch in the form the child needs it: numbers and pointers only.
struct Plan {
    mount_namespace: RawFd,
    directory: Option<*const c_char>,
    directory_handle: RawFd,
    streams: [RawFd; 3],
    open_files: Option<u64>,
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// `/bin/sh candidate arguments…` for a script without an interpreter line; the second entry is filled in last.
    shell_argv: Vec<*const c_char>,
    report: RawFd,
}

/// `libc` has it in a type too small for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

const SHELL: &std::ffi::CStr = c"/bin/sh";

/// Starts the program and returns once it runs, or once it is known why it does not.
pub(crate) fn spawn(launch: &Launch<'_>) -> Result<Spawned, SpawnFailure> {
    let (report_reader, report_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(SpawnFailure::fork)?;
    let invocation = launch.invocation;
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let argv = pointers(&invocation.argv);
    let mut plan = Plan {
        mount_namespace: launch.mount_namespace.map_or(-1, |handle| handle.as_raw_fd()),
        directory: match &launch.directory {
            StartDirectory::Path(path) => Some(path.as_ptr()),
            StartDirectory::Handle(_) => None,
        },
        directory_handle: match &launch.directory {
            StartDirectory::Path(_) => -1,
            StartDirectory::Handle(handle) => handle.as_raw_fd(),
        },
        streams: launch.streams.map(|stream| stream.as_raw_fd()),
        open_files: launch.open_files,
        candidates: invocation.candidates.iter().map(|text| text.as_ptr()).collect(),
        shell_argv: [SHELL.as_ptr(), ptr::null()].into_iter().chain(argv.iter().skip(1).copied()).collect(),
        argv,
        envp: pointers(&invocation.envp),
        report: report_writer.as_raw_fd(),
    };
    // SAFETY: the child calls nothing but `run`, which never returns.
    let Some(spawned) = unsafe { fork(launch.cgroup) }.map_err(SpawnFailure::fork)? else {
        // SAFETY: this is the child, single-threaded, and `plan` points into memory `launch` keeps alive.
        unsafe { run(&mut plan) }
    };
    drop(report_writer);
    let mut report = Vec::new();
    std::fs::File::from(report_reader).read_to_end(&mut report).map_err(SpawnFailure::fork)?;
    let Ok([stage, errno]) = <[u8; 8]>::try_from(report.as_slice()).map(|bytes| {
        let (stage, errno) = (bytes[..4].try_into(), bytes[4..].try_into());
        [stage.map_or(0, i32::from_ne_bytes), errno.map_or(0, i32::from_ne_bytes)]
    }) else {
        return Ok(spawned);
    };
    let _ = reap(&spawned);
    let stage = match stage {
        1 => Stage::Prepare,
        2 => Stage::Directory,
        _ => Stage::Exec,
    };
    Err(SpawnFailure { stage, cause: io::Error::from_raw_os_error(errno) })
}

/// Whether a process can be started in this cgroup, by starting one that does nothing.
pub(crate) fn probe_cgroup(cgroup: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the child does nothing but exit.
    match unsafe { fork(Some(cgroup)) }? {
        Some(spawned) => reap(&spawned),
        // SAFETY: ends the child at once.
        None => unsafe { libc::_exit(0) },
    }
}

fn reap(spawned: &Spawned) -> io::Result<()> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::os::fd::AsFd;
    loop {
        match waitid(WaitId::PidFd(spawned.handle.as_fd()), WaitIdOptions::EXITED) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map(drop).map_err(Into::into),
        }
    }
}

/// `None` in the child.
///
/// # Safety
/// The child is a copy of one thread of many: it may only make async-signal-safe calls and must not return.
unsafe fn fork(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<Spawned>> {
    let mut pid_handle: c_int = -1;
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = libc::CLONE_PIDFD as u64;
    arguments.pidfd = ptr::from_mut(&mut pid_handle) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: the arguments are valid for their size, and without CLONE_VM the child has memory of its own.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, ptr::from_mut(&mut arguments), size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => {
            // SAFETY: the kernel has just made this descriptor for us, close-on-exec.
            let handle = unsafe { OwnedFd::from_raw_fd(pid_handle) };
            let pid = u32::try_from(pid).map_err(|_| io::Error::other("the kernel returned an impossible pid"))?;
            Ok(Some(Spawned { pid, handle }))
        }
    }
}

/// The child, from fork to exec.
///
/// # Safety
/// Only for the child of [`fork`]; every pointer in `plan` is valid and its lists end with null.
unsafe fn run(plan: &mut Plan) -> ! {
    // SAFETY: raw system calls on prepared memory; see the contract of this function.
    unsafe {
        let fail = |stage: i32| -> ! {
            let errno = *libc::__errno_location();
            let message = [stage, errno];
            libc::write(plan.report, message.as_ptr().cast(), size_of_val(&message));
            libc::_exit(127);
        };
        if plan.mount_namespace >= 0 && libc::setns(plan.mount_namespace, libc::CLONE_NEWNS) != 0 {
            fail(1);
        }
        libc::setsid();
        for (number, stream) in (0..).zip(plan.streams) {
            if libc::dup2(stream, number) < 0 {
                fail(1);
            }
        }
        reset_signals();
        libc::umask(0o022);
        if let Some(limit) = plan.open_files {
            let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) != 0 {
                fail(1);
            }
            limits.rlim_max = limits.rlim_max.min(limit);
            limits.rlim_cur = limits.rlim_max;
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) != 0 {
                fail(1);
            }
        }
        let moved = match plan.directory {
            Some(path) => libc::chdir(path),
            None => libc::fchdir(plan.directory_handle),
        };
        if moved != 0 {
            fail(2);
        }
        // Every descriptor of ours is close-on-exec already; this is for those a library forgot.
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        let mut refused = false;
        for &candidate in &plan.candidates {
            libc::execve(candidate, plan.argv.as_ptr(), plan.envp.as_ptr());
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => refused = true,
                libc::ENOEXEC => {
                    // A script without an interpreter line: what a shell would do.
                    plan.shell_argv[1] = candidate;
                    libc::execve(SHELL.as_ptr(), plan.shell_argv.as_ptr(), plan.envp.as_ptr());
                    *libc::__errno_location() = libc::ENOEXEC;
                    fail(3);
                }
                _ => fail(3),
            }
        }
        *libc::__errno_location() = if refused { libc::EACCES } else { libc::ENOENT };
        fail(3)
    }
}

/// Default actions and nothing blocked: Rust programs ignore SIGPIPE, and an ignored signal stays ignored through exec.
///
/// # Safety
/// Only between fork and exec.
unsafe fn reset_signals() {
    // SAFETY: async-signal-safe calls on local memory; a signal that cannot be changed is left as it is.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        let mut empty: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut empty);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut());
    }
}
