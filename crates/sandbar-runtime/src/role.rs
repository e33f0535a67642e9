//! Roles the binary is started in besides its own: the spawner, the init of a gVisor box, and the
//! worker server.

#![expect(
    unsafe_code,
    reason = "`dup2` and `fcntl` act on descriptors by number"
)]

use std::{
    ffi::OsStr,
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    process::exit,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    gvisor::run_guest,
    init::InitSockets,
    native::serve_spawner,
    worker::{RunJob, serve_workers},
};

/// Values of `argv[0]` that select a role.
pub(crate) const SPAWNER: &str = "sandbar-spawner";
pub(crate) const INIT: &str = "sandbar-init";
pub(crate) const WORKER: &str = "sandbar-worker";
/// Binaries that have only these roles, for tests.
const TEST_BINARY: &str = "sandbar-box";
const TEST_WORKER: &str = "sandbar-worker";

/// Whether this binary calls [`run_role`], and can so be started as a spawner or an init.
static CALLS_RUN_ROLE: AtomicBool = AtomicBool::new(false);
/// Whether this binary calls [`run_worker_role`].
static CALLS_RUN_WORKER_ROLE: AtomicBool = AtomicBool::new(false);

/// Runs as spawner or init if this process was started as one, and does not return then. Must be
/// called first in `main`, before any thread is started or descriptor is opened.
#[expect(clippy::exit, reason = "in these roles there is nothing to return to")]
pub fn run_role() {
    CALLS_RUN_ROLE.store(true, Ordering::Relaxed);
    let Some(name) = std::env::args_os().next() else {
        return;
    };
    let role = Path::new(&name).file_name().and_then(OsStr::to_str);
    match role {
        Some(SPAWNER) => {
            let outcome = take_socket(0).and_then(serve_spawner);
            exit(i32::from(outcome.is_err()));
        }
        Some(INIT) => match (take_socket(0), take_socket(1)) {
            (Ok(orders), Ok(events)) => run_guest(InitSockets { orders, events }),
            _ => exit(1),
        },
        _ => {}
    }
}

/// Moves the socket that was passed as a standard stream to another descriptor, and replaces the
/// stream by `/dev/null`.
fn take_socket(stream: RawFd) -> io::Result<OwnedFd> {
    let null = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    // SAFETY: duplicates to a new descriptor, and replaces a stream that nothing else uses.
    unsafe {
        let socket = libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3);
        if socket < 0 || libc::dup2(null.as_raw_fd(), stream) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(socket))
    }
}

/// Runs as worker server if this process was started as one, and does not return then. Must be
/// called in `main` after [`run_role`]. `run` is what every worker process does with its job.
#[expect(clippy::exit, reason = "in this role there is nothing to return to")]
pub fn run_worker_role(run: RunJob) {
    CALLS_RUN_WORKER_ROLE.store(true, Ordering::Relaxed);
    if is_role(WORKER) {
        let outcome = take_socket(0).and_then(|socket| serve_workers(socket, run));
        exit(i32::from(outcome.is_err()));
    }
}

fn is_role(name: &str) -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|argument| Path::new(&argument).file_name() == Some(OsStr::new(name)))
}

/// Returns the path of a binary that has the roles: this one, or the test binary beside it.
pub(crate) fn program() -> io::Result<PathBuf> {
    program_with(&CALLS_RUN_ROLE, "run_role", TEST_BINARY, "sandbar-runtime")
}

/// As [`program`], for the role of the worker server.
pub(crate) fn worker_program() -> io::Result<PathBuf> {
    program_with(
        &CALLS_RUN_WORKER_ROLE,
        "run_worker_role",
        TEST_WORKER,
        "sandbar-host",
    )
}

fn program_with(
    called: &AtomicBool,
    function: &str,
    binary: &str,
    package: &str,
) -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    if called.load(Ordering::Relaxed) {
        return Ok(own);
    }
    let found = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(binary))
        .find(|path| path.exists());
    found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "`{}` does not call `{function}`, and `{binary}` is not beside it: build it with `cargo build -p {package}`",
                own.display()
            ),
        )
    })
}
