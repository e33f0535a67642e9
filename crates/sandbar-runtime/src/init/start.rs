//! Starting a command: from the order to `exec`.

use std::{
    ffi::{CStr, CString, c_char},
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    ptr,
};

use super::{
    clone::{ChildStack, run_child},
    terminal_signals::leave_behind,
};
use crate::{
    native::capabilities,
    protocol::{ExecOrder, Stage, UserOrder},
};

const SHELL: &CStr = c"/bin/sh";

/// Where everything a command needs lies.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) order: &'a ExecOrder,
    /// stdin, stdout, stderr. With a terminal, three times the same.
    pub(super) streams: [BorrowedFd<'a>; 3],
    pub(super) has_terminal: bool,
    /// For the process that passes signals on, where the kernel does not.
    pub(super) signal_listener: Option<BorrowedFd<'a>>,
    pub(super) cgroup: Option<BorrowedFd<'a>>,
    /// `cgroup.procs` files the command writes itself into.
    pub(super) attach: &'a [OwnedFd],
    /// Entered instead of the order's directory.
    pub(super) directory: Option<OwnedFd>,
    /// Init is somebody else.
    pub(super) become_root: bool,
}

/// Why a command did not start.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) stage: Stage,
    pub(super) cause: io::Error,
}

/// The launch in the form the child needs it: numbers and pointers only, prepared before, since the child must not
/// allocate in memory it shares.
struct Plan {
    streams: [RawFd; 3],
    has_terminal: bool,
    signal_listener: RawFd,
    attach: Vec<RawFd>,
    directory: Option<*const c_char>,
    directory_handle: RawFd,
    open_files: Option<u64>,
    become_root: bool,
    /// Lives in the parent.
    user: Option<*const UserOrder>,
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// `/bin/sh candidate arguments…` for a script without an interpreter line; the second entry is filled in last.
    shell_argv: Vec<*const c_char>,
    /// What the child was doing when it failed.
    failure: Option<(Stage, i32)>,
}

/// Starts the program and returns its pid once it runs, or why it does not.
pub(super) fn start(stack: &mut ChildStack, launch: &Launch<'_>) -> Result<i32, NotStarted> {
    let order = launch.order;
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let argv = pointers(&order.argv);
    let mut plan = Plan {
        streams: launch.streams.map(|stream| stream.as_raw_fd()),
        has_terminal: launch.has_terminal,
        signal_listener: launch.signal_listener.map_or(-1, |listener| listener.as_raw_fd()),
        attach: launch.attach.iter().map(AsRawFd::as_raw_fd).collect(),
        directory: if launch.directory.is_some() { None } else { Some(order.cwd.as_ptr()) },
        directory_handle: launch.directory.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        open_files: order.open_files,
        become_root: launch.become_root && order.user.is_none(),
        user: order.user.as_ref().map(ptr::from_ref),
        candidates: order.candidates.iter().map(|text| text.as_ptr()).collect(),
        shell_argv: [SHELL.as_ptr(), ptr::null()].into_iter().chain(argv.iter().skip(1).copied()).collect(),
        argv,
        envp: pointers(&order.envp),
        failure: None,
    };
    let cgroup = launch.cgroup.map(|cgroup| cgroup.as_raw_fd());
    // SAFETY: `run` only makes system calls on prepared memory and ends in exec or exit; init has every signal blocked.
    let outcome = unsafe { run_child(stack, cgroup, run, &raw mut plan) };
    if order.user.is_some() {
        // A change of users decides anew whether the memory may be looked into, and the child's was ours.
        // SAFETY: a flag of our own process.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    }
    let pid = outcome.map_err(|cause| NotStarted { stage: Stage::Fork, cause })?;
    match plan.failure {
        None => Ok(pid),
        Some((stage, errno)) => Err(NotStarted { stage, cause: io::Error::from_raw_os_error(errno) }),
    }
}

/// The child, from clone to exec.
///
/// # Safety
/// Only for [`run_child`]; every pointer in `plan` is valid and its lists end with null.
unsafe extern "C" fn run(plan: *mut Plan) -> ! {
    // SAFETY: the parent sleeps, so the plan is ours alone.
    let plan = unsafe { &mut *plan };
    // SAFETY: raw system calls on prepared memory; see the contract of this function.
    unsafe {
        let stage = prepare(plan).and_then(|()| execute(plan));
        plan.failure = Some((stage.err().unwrap_or(Stage::Exec), *libc::__errno_location()));
        libc::_exit(127)
    }
}

/// # Safety
/// See [`run`].
unsafe fn prepare(plan: &Plan) -> Result<(), Stage> {
    let check = |outcome: i32| if outcome < 0 { Err(Stage::Prepare) } else { Ok(()) };
    // SAFETY: system calls on our own descriptors and local memory.
    unsafe {
        for &procs in &plan.attach {
            if libc::write(procs, c"0".as_ptr().cast(), 1) != 1 {
                return Err(Stage::Prepare);
            }
        }
        check(libc::setsid())?;
        for (number, stream) in (0..).zip(plan.streams) {
            check(libc::dup2(stream, number))?;
        }
        if plan.has_terminal {
            // The last of its streams: where nothing can be read, the first is none.
            check(libc::ioctl(2, libc::TIOCSCTTY, 0))?;
        }
        libc::umask(0o022);
        if let Some(limit) = plan.open_files {
            let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits))?;
            limits.rlim_max = limits.rlim_max.min(limit);
            limits.rlim_cur = limits.rlim_max;
            check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits))?;
        }
        if plan.become_root && !become_user(0, 0) {
            return Err(Stage::Prepare);
        }
        if let Some(user) = plan.user {
            let UserOrder { uid, gid, groups } = &*user;
            // The memory is init's until the program runs. Nobody looks into it meanwhile: first because we keep rights
            // which no command has, then because it is closed to all.
            libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0);
            if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) != 0 || !become_user(*uid, *gid) {
                return Err(Stage::User);
            }
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            if *uid != 0 && capabilities::clear().is_err() {
                return Err(Stage::User);
            }
        }
        if plan.signal_listener >= 0 && !leave_behind(plan.signal_listener) {
            return Err(Stage::Fork);
        }
        let moved = match plan.directory {
            Some(path) => libc::chdir(path),
            None => libc::fchdir(plan.directory_handle),
        };
        if moved != 0 {
            return Err(Stage::Directory);
        }
        // Every descriptor of ours is close-on-exec already; this is for those a library forgot.
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // Init keeps every signal blocked and every action at its default; only the mask is inherited.
        let mut empty: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut empty);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut()))
    }
}

/// Becomes a user and its group. Raw, so that only this process changes and not all the library thinks there are.
///
/// # Safety
/// See [`run`].
unsafe fn become_user(uid: u32, gid: u32) -> bool {
    // SAFETY: system calls with numbers.
    unsafe {
        libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0 && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
    }
}

/// Tries the candidates; returns only when none could be executed.
///
/// # Safety
/// See [`run`].
unsafe fn execute(plan: &mut Plan) -> Result<(), Stage> {
    let mut refused = false;
    // SAFETY: the lists end with null and live in the parent.
    unsafe {
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
                    return Err(Stage::Exec);
                }
                _ => return Err(Stage::Exec),
            }
        }
        *libc::__errno_location() = if refused { libc::EACCES } else { libc::ENOENT };
    }
    Err(Stage::Exec)
}
