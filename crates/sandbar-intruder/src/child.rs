//! A child process that reports once, for calls that may kill the caller or change its state.
#![expect(unsafe_code, reason = "fork and waitpid have no other interface")]

use std::io::{self, PipeWriter, Read, Write};

use crate::verdict::Inconclusive;

/// End of a child.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Report of a child that returned.
    Reported(String),
    /// Signal that killed it.
    Killed(i32),
}

/// Limits the run time of a child, in seconds: some calls could block forever on a host that does
/// not answer.
pub(crate) const ATTEMPT_TIMEOUT_SECONDS: u32 = 30;

/// Runs `work` in a copy of this process and waits for it.
pub(crate) fn in_child(work: impl FnOnce(PipeWriter)) -> io::Result<Ended> {
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: this program has one thread, so the copy can do all that the original could.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        drop(reader);
        // SAFETY: requests two signals, so that the child ends if its caller is gone or
        // if it blocks.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::alarm(ATTEMPT_TIMEOUT_SECONDS);
        }
        work(writer);
        // SAFETY: ends the copy without running what the original has still to run.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let mut reported = Vec::new();
    reader.read_to_end(&mut reported)?;
    let status = wait(pid)?;
    if libc::WIFSIGNALED(status) {
        return Ok(Ended::Killed(libc::WTERMSIG(status)));
    }
    Ok(Ended::Reported(
        String::from_utf8_lossy(&reported).into_owned(),
    ))
}

/// Makes calls in a copy of this process, so that what they change of their caller ends with it.
pub(crate) fn result_in_child<T>(
    work: impl FnOnce() -> io::Result<T>,
) -> Result<io::Result<()>, Inconclusive> {
    let ended = in_child(|mut report| {
        let number = match work() {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
        let _ = write!(report, "{number}");
    })?;
    match ended {
        Ended::Reported(number) => match number.parse() {
            Ok(0) => Ok(Ok(())),
            Ok(number) => Ok(Err(io::Error::from_raw_os_error(number))),
            Err(_) => Err(Inconclusive(
                "child process ended without a report".to_owned(),
            )),
        },
        Ended::Killed(libc::SIGSYS) => Ok(Err(killed_by_filter())),
        Ended::Killed(signal) => Err(Inconclusive(format!(
            "child process was killed by signal {signal}"
        ))),
    }
}

/// Error for a call that a seccomp filter answered by killing the caller.
pub(crate) fn killed_by_filter() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "killed by a seccomp filter",
    )
}

/// Waits for a child and returns its status.
pub(crate) fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: writes one number to a place of ours.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } == pid {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
