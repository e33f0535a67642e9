//! Confinement of a worker process, before its job reads anything.

#![expect(
    unsafe_code,
    reason = "`setrlimit`, `setitimer` and `prctl` have no safe wrapper"
)]

use std::{
    ffi::CStr,
    fs, io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{order::WireOrder, syscalls};
use crate::native::{capabilities, landlock, seccomp};

/// Address space that the program takes by itself: code, stack, the heap's reserve.
const PROGRAM_BYTES: u64 = 192 << 20;

/// Descriptors of a job. A walk of any depth uses a few dozen.
const MAX_DESCRIPTORS: u64 = 256;

/// The kernel ends a worker before anything else when memory runs out.
const OOM_SCORE: &str = "1000";

/// Failed step of the confinement.
pub(super) type Failure = (&'static str, io::Error);

/// Confines this process. On failure it must not run the job.
pub(super) fn confine(order: &WireOrder, directories: &[OwnedFd]) -> Result<(), Failure> {
    let step = |name: &'static str| move |error| (name, error);
    // SAFETY: the call takes numbers only. Jobs end with the server.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } != 0 {
        return Err(("follow the worker server", io::Error::last_os_error()));
    }
    fs::write("/proc/self/oom_score_adj", OOM_SCORE).map_err(step("set the OOM score"))?;
    limit(order).map_err(step("set resource limits"))?;
    let paths = order
        .readable
        .iter()
        .map(|path| open_path(path))
        .collect::<io::Result<Vec<_>>>()
        .map_err(step("open a path"))?;
    let readable: Vec<BorrowedFd<'_>> = directories
        .iter()
        .chain(&paths)
        .map(|fd| fd.as_fd())
        .collect();
    capabilities::keep_for_reading().map_err(step("drop capabilities"))?;
    landlock::restrict_to_reading(&readable).map_err(step("restrict paths"))?;
    drop(paths);
    seccomp::restrict_to(syscalls::ALLOWED).map_err(step("restrict system calls"))
}

fn open_path(path: &CStr) -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn limit(order: &WireOrder) -> io::Result<()> {
    let seconds = order.milliseconds.div_ceil(1000).max(1);
    for (resource, value) in [
        (libc::RLIMIT_AS, order.memory.saturating_add(PROGRAM_BYTES)),
        (libc::RLIMIT_CPU, seconds),
        (libc::RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_FSIZE, 0),
    ] {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: the call reads a local structure.
        if unsafe { libc::setrlimit(resource, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // The host ends a job that is late. This timer does it where the host cannot.
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: i64::try_from(seconds.saturating_add(5)).unwrap_or(i64::MAX),
            tv_usec: 0,
        },
    };
    // SAFETY: the call reads a local structure; the previous timer is not wanted.
    if unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
