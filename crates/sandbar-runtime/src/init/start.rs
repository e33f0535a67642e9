//! Starting a command: the steps between clone and exec.

#![expect(unsafe_code, reason = "a vfork child may only make raw system calls")]

use std::{
    ffi::{CStr, CString, c_char},
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    ptr,
};

use super::{
    clone::{ChildStack, run_child},
    terminal_signals::spawn_forwarder,
};
use crate::{
    native::capabilities,
    protocol::{ExecOrder, Stage, UserOrder},
};

/// Hard limit on open files of a command that requests none: a thousand processes with the limit of
/// the host, often a million, could use up the machine's table of open files.
const MAX_OPEN_FILES: u64 = 65_536;

const SHELL: &CStr = c"/bin/sh";

/// Everything that is needed to start a command.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) order: &'a ExecOrder,
    /// stdin, stdout, stderr. With a terminal, all are its slave side.
    pub(super) streams: [BorrowedFd<'a>; 3],
    pub(super) has_terminal: bool,
    /// Read end for the signal forwarder, if the kernel does not send terminal signals.
    pub(super) signal_pipe: Option<BorrowedFd<'a>>,
    pub(super) cgroup: Option<BorrowedFd<'a>>,
    /// `cgroup.procs` descriptors that the command writes itself into.
    pub(super) procs: &'a [OwnedFd],
    /// Working directory, instead of the order's path.
    pub(super) directory: Option<OwnedFd>,
    /// Init does not run as root, so the command must switch to it.
    pub(super) become_root: bool,
}

/// Failed step of a start, and its cause.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) stage: Stage,
    pub(super) cause: io::Error,
}

/// The [`Launch`] as numbers and pointers, prepared before the clone: the child shares the parent's
/// memory and must not allocate.
struct Plan {
    streams: [RawFd; 3],
    has_terminal: bool,
    signal_pipe: RawFd,
    procs: Vec<RawFd>,
    directory: Option<*const c_char>,
    directory_handle: RawFd,
    open_files: Option<u64>,
    become_root: bool,
    /// Points into the parent's order.
    user: Option<*const UserOrder>,
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// `/bin/sh candidate arguments…`, for a script without an interpreter line. The child fills in
    /// the candidate.
    shell_argv: Vec<*const c_char>,
    /// Set by the child: the step that failed, and its errno.
    failure: Option<(Stage, i32)>,
}

/// Starts the program and returns its pid once it has been executed.
pub(super) fn start(stack: &mut ChildStack, launch: &Launch<'_>) -> Result<i32, NotStarted> {
    let order = launch.order;
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter()
            .map(|text| text.as_ptr())
            .chain([ptr::null()])
            .collect()
    };
    let argv = pointers(&order.argv);
    let mut plan = Plan {
        streams: launch.streams.map(|stream| stream.as_raw_fd()),
        has_terminal: launch.has_terminal,
        signal_pipe: launch
            .signal_pipe
            .map_or(-1, |listener| listener.as_raw_fd()),
        procs: launch.procs.iter().map(AsRawFd::as_raw_fd).collect(),
        directory: if launch.directory.is_some() {
            None
        } else {
            Some(order.cwd.as_ptr())
        },
        directory_handle: launch.directory.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        open_files: order.open_files,
        become_root: launch.become_root && order.user.is_none(),
        user: order.user.as_ref().map(ptr::from_ref),
        candidates: order.candidates.iter().map(|text| text.as_ptr()).collect(),
        shell_argv: [SHELL.as_ptr(), ptr::null()]
            .into_iter()
            .chain(argv.iter().skip(1).copied())
            .collect(),
        argv,
        envp: pointers(&order.envp),
        failure: None,
    };
    let cgroup = launch.cgroup.map(|cgroup| cgroup.as_raw_fd());
    // SAFETY: `run` only makes system calls on prepared memory and ends in exec or exit; init has
    // every signal blocked.
    let outcome = unsafe { run_child(stack, cgroup, run, &raw mut plan) };
    if order.user.is_some() {
        // The dumpable flag belongs to the memory, which the child shared with init. A change of
        // credentials resets it, so it is cleared again here: commands must not ptrace init.
        // SAFETY: sets a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    }
    let pid = outcome.map_err(|cause| NotStarted {
        stage: Stage::Fork,
        cause,
    })?;
    match plan.failure {
        None => Ok(pid),
        Some((stage, errno)) => Err(NotStarted {
            stage,
            cause: io::Error::from_raw_os_error(errno),
        }),
    }
}

/// Entry point of the child.
///
/// # Safety
/// To be called by [`run_child`] only. Every pointer in `plan` must be valid, and its lists must
/// end with null.
unsafe extern "C" fn run(plan: *mut Plan) -> ! {
    // SAFETY: the parent is suspended, so nothing else uses the plan.
    let plan = unsafe { &mut *plan };
    // SAFETY: raw system calls on prepared memory; see the contract of this function.
    unsafe {
        let stage = prepare(plan).and_then(|()| execute(plan));
        plan.failure = Some((
            stage.err().unwrap_or(Stage::Exec),
            *libc::__errno_location(),
        ));
        libc::_exit(127)
    }
}

/// # Safety
/// See [`run`].
unsafe fn prepare(plan: &Plan) -> Result<(), Stage> {
    let check = |outcome: i32| {
        if outcome < 0 {
            Err(Stage::Prepare)
        } else {
            Ok(())
        }
    };
    // SAFETY: system calls on our own descriptors and local memory.
    unsafe {
        for &procs in &plan.procs {
            if libc::write(procs, c"0".as_ptr().cast(), 1) != 1 {
                return Err(Stage::Prepare);
            }
        }
        check(libc::setsid())?;
        for (number, stream) in (0..).zip(plan.streams) {
            check(libc::dup2(stream, number))?;
        }
        if plan.has_terminal {
            // stderr, because stdin may be `/dev/null`.
            check(libc::ioctl(2, libc::TIOCSCTTY, 0))?;
        }
        libc::umask(0o022);
        let mut limits = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits))?;
        limits.rlim_max = limits
            .rlim_max
            .min(plan.open_files.unwrap_or(MAX_OPEN_FILES));
        if plan.open_files.is_some() {
            limits.rlim_cur = limits.rlim_max;
        }
        limits.rlim_cur = limits.rlim_cur.min(limits.rlim_max);
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits))?;
        if plan.become_root && !become_user(0, 0) {
            return Err(Stage::Prepare);
        }
        if let Some(user) = plan.user {
            let UserOrder { uid, gid, groups } = &*user;
            // Until exec, this process shares init's memory, and other processes of the user must
            // not ptrace it. While the uid changes, it keeps init's capabilities, of which no
            // command has a superset; afterwards the dumpable flag is cleared.
            libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0);
            if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) != 0
                || !become_user(*uid, *gid)
            {
                return Err(Stage::User);
            }
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            if *uid != 0 && capabilities::clear().is_err() {
                return Err(Stage::User);
            }
        }
        if plan.signal_pipe >= 0 && !spawn_forwarder(plan.signal_pipe) {
            return Err(Stage::Fork);
        }
        let moved = match plan.directory {
            Some(path) => libc::chdir(path),
            None => libc::fchdir(plan.directory_handle),
        };
        if moved != 0 {
            return Err(Stage::Directory);
        }
        // All descriptors should be close-on-exec already. This covers any that a library left
        // open.
        libc::syscall(
            libc::SYS_close_range,
            3u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        // Init blocks all signals, and the mask is inherited. Its dispositions are the defaults.
        let mut empty: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut empty);
        check(libc::sigprocmask(
            libc::SIG_SETMASK,
            &raw const empty,
            ptr::null_mut(),
        ))
    }
}

/// Switches uid and gid by raw system calls, which affect this process only. The libc wrappers also
/// change every thread that libc knows, and those are the parent's.
///
/// # Safety
/// See [`run`].
unsafe fn become_user(uid: u32, gid: u32) -> bool {
    // SAFETY: the calls take numbers only.
    unsafe {
        libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
    }
}

/// Executes the first candidate that exists. Returns only if none could be executed.
///
/// # Safety
/// See [`run`].
unsafe fn execute(plan: &mut Plan) -> Result<(), Stage> {
    let mut denied = false;
    // SAFETY: the lists end with null and are owned by the suspended parent.
    unsafe {
        for &candidate in &plan.candidates {
            libc::execve(candidate, plan.argv.as_ptr(), plan.envp.as_ptr());
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => denied = true,
                libc::ENOEXEC => {
                    // A script without an interpreter line is run by the shell.
                    plan.shell_argv[1] = candidate;
                    libc::execve(SHELL.as_ptr(), plan.shell_argv.as_ptr(), plan.envp.as_ptr());
                    *libc::__errno_location() = libc::ENOEXEC;
                    return Err(Stage::Exec);
                }
                _ => return Err(Stage::Exec),
            }
        }
        *libc::__errno_location() = if denied { libc::EACCES } else { libc::ENOENT };
    }
    Err(Stage::Exec)
}
