//! The worker server: a small single-threaded process that jobs are forked from.
//!
//! Forking the host would be slow, because of its memory, and only async-signal-safe functions may
//! be called after the fork of a multi-threaded process. The server is the same binary, started
//! for this. It ends, and its jobs with it, when the host closes the socket.

#![expect(
    unsafe_code,
    reason = "`clone3`, `signal`, `setsid` and `_exit` have no safe wrapper"
)]

use std::{
    io,
    os::fd::{AsFd as _, FromRawFd as _, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use super::{
    confinement,
    job::{Job, RunJob},
    order::{OrderAnswer, WireOrder},
};
use crate::protocol::Connection;

/// Niceness of jobs: the host and the commands of sessions come first.
const NICENESS: i32 = 5;

/// Serves the host until it closes the socket.
pub(crate) fn serve(socket: OwnedFd, run: RunJob) -> io::Result<()> {
    // SAFETY: sets a signal disposition: the kernel reaps ended jobs.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // In a session of its own, the server does not get the signals of the host's terminal.
    // SAFETY: starts a new session. Fails only for a process group leader, which this is not.
    unsafe { libc::setsid() };
    // SAFETY: the call takes numbers only. A refusal changes nothing but the share of CPU time.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    let mut connection = Connection::new(socket);
    while let Some(body) = connection.wait()? {
        let order = WireOrder::decode(&body)?;
        let socket = connection.descriptor()?;
        let directories = take(&mut connection, order.directories)?;
        let descriptors = take(&mut connection, order.descriptors)?;
        match fork() {
            Ok(Some(process)) => {
                // The job alone holds its socket, so that its end closes it.
                drop((socket, directories, descriptors));
                connection.send(&OrderAnswer::Started.encode(), &[process.as_fd()])?;
            }
            Ok(None) => {
                drop(connection);
                run_and_exit(
                    &order,
                    Job::new(directories, descriptors, Connection::new(socket)),
                    run,
                );
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                connection.send(&OrderAnswer::Failed { errno }.encode(), &[])?;
            }
        }
    }
    Ok(())
}

fn take(connection: &mut Connection, count: u64) -> io::Result<Vec<OwnedFd>> {
    (0..count).map(|_| connection.descriptor()).collect()
}

/// Forks. Returns the process descriptor of the child, or `None` in the child.
fn fork() -> io::Result<Option<OwnedFd>> {
    let mut process: libc::c_int = -1;
    // SAFETY: all-zero is a valid `clone_args`.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = libc::CLONE_PIDFD as u64;
    arguments.pidfd = ptr::from_mut(&mut process) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
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
        // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
        _ => Ok(Some(unsafe { OwnedFd::from_raw_fd(process) })),
    }
}

fn run_and_exit(order: &WireOrder, job: Job, run: RunJob) -> ! {
    let code = match confinement::confine(order, &job.directories) {
        Ok(()) => i32::from(catch_unwind(AssertUnwindSafe(|| run(job))).is_err()),
        Err((step, error)) => {
            // Fails when the host has given up the job.
            let _ = job.not_confined(step, &error);
            1
        }
    };
    // SAFETY: ends the forked copy without unwinding.
    unsafe { libc::_exit(code) }
}
