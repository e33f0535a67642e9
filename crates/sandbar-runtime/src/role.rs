//! The other lives of the binary: the spawner boxes are forked from, and the init of a box in another kernel.

use std::{
    ffi::OsStr,
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    process::exit,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{gvisor::run_guest, init::InitSockets, native::serve_spawner};

/// Names the binary is started under.
pub(crate) const SPAWNER: &str = "sandbar-spawner";
pub(crate) const INIT: &str = "sandbar-init";
/// A binary that has nothing but these roles, for tests.
const STAND_IN: &str = "sandbar-box";

static KNOWS_ROLES: AtomicBool = AtomicBool::new(false);

/// To be called first in `main`, before any thread or descriptor exists: when this process was started as a spawner or an
/// init, it never returns.
#[expect(clippy::exit, reason = "in these roles there is nothing to return to")]
pub fn run_role() {
    KNOWS_ROLES.store(true, Ordering::Relaxed);
    let Some(name) = std::env::args_os().next() else { return };
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

/// The socket we were given as a standard stream, moved out of the way; `/dev/null` takes its place.
fn take_socket(stream: RawFd) -> io::Result<OwnedFd> {
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // SAFETY: duplicates into a descriptor of our own, and replaces a stream nothing here uses.
    unsafe {
        let socket = libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3);
        if socket < 0 || libc::dup2(null.as_raw_fd(), stream) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(socket))
    }
}

/// A program that knows the roles: this one, or the stand-in that is built beside the tests.
pub(crate) fn program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    if KNOWS_ROLES.load(Ordering::Relaxed) {
        return Ok(own);
    }
    let found = own.ancestors().skip(1).take(2).map(|directory| directory.join(STAND_IN)).find(|path| path.exists());
    found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} does not call `run_role`, and there is no `{STAND_IN}` beside it: build it with `cargo build -p sandbar-runtime`", own.display()),
        )
    })
}
